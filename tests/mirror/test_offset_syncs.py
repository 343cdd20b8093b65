"""A mirror writes MirrorMaker 2's offset syncs where it is told to."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.mirror.books.offset_syncs import Sync, sync_record
from fairlead.model.errors import BadRequest
from tests.mirror.groups.test_groups import put_transaction
from tests.mirror.test_mirror import numbers
from tests.mirror.world import World
from tests.support.waiting import until

ASKED: dict[str, Any] = {"offset_syncs": True, "source_aliases": ["A"], "target_alias": "B", "prefix": "A."}


def records(world: World) -> set[tuple[bytes | None, bytes | None]]:
    return {(record.key, record.value) for record in world.a.records("mm2-offset-syncs.B.internal")}


async def test_offset_syncs_are_written_at_the_source(world: World) -> None:
    """They name the source's topic, and where its records lie at the destination, behind what was there."""
    world.a.make("t")
    world.b.make("A.t")
    world.b.put("A.t", 0, numbers(0, 7))
    world.a.put("t", 0, numbers(0, 3))
    async with world.running(**ASKED, offset_lag_max=0) as mirror:
        await until(lambda: sync_record("t", 0, Sync(2, 9)) in records(world))
        world.a.put("t", 0, numbers(3, 5))
        await until(lambda: sync_record("t", 0, Sync(4, 11)) in records(world))
    assert world.a.made["mm2-offset-syncs.B.internal"].configs["cleanup.policy"][0] == "compact"
    assert mirror.tally.clean


async def test_offset_syncs_are_written_at_the_destination_where_that_is_asked_for(world: World) -> None:
    """Whose topic is named by the source."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    async with world.running(**ASKED, offset_syncs_location="target"):
        await until(lambda: len(world.b.records("mm2-offset-syncs.A.internal")) == 1)
    assert "mm2-offset-syncs.B.internal" not in world.a.made


async def test_offset_syncs_go_on_where_records_lie_otherwise(world: World) -> None:
    """Somebody else has written at the destination."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    async with world.running(**ASKED):
        await until(lambda: sync_record("t", 0, Sync(2, 2)) in records(world))
        world.b.put("A.t", 0, numbers(0, 4))
        world.a.put("t", 0, numbers(3, 5))
        await until(lambda: sync_record("t", 0, Sync(4, 8)) in records(world))


async def test_offset_syncs_go_on_behind_transactions(world: World) -> None:
    """A partition that is written in transactions stands behind a marker nearly always."""
    world.a.make("t")
    async with world.running(**ASKED):
        for end in (4, 8):
            put_transaction(world.a, numbers(end - 4, end - 1))
            await until(lambda end=end: sync_record("t", 0, Sync(end - 1, end // 4 * 3 - 1)) in records(world))  # type: ignore[misc]


def test_offset_syncs_are_named_by_the_clusters(world: World) -> None:
    """So the clusters need names."""
    with pytest.raises(BadRequest, match=r"--source\.alias"):
        world.mirror(offset_syncs=True)
    with pytest.raises(BadRequest, match=r"--offset\.syncs\.topic\.location 'here'"):
        world.mirror(**{**ASKED, "offset_syncs_location": "here"})
    with pytest.raises(BadRequest, match=r"--offset\.lag\.max -1"):
        world.mirror(**{**ASKED, "offset_lag_max": -1})
