"""The reader of a worker: what it has fetched is for the partition that it was fetched for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import pytest
from tests.mirror.fake import FakeCluster
from tests.support.waiting import a_quiet_while, in_time, until

from fairlead.mirror.books.book import Position
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.carrying.engine import Load
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Place
from fairlead.mirror.workers import scout as scouting
from fairlead.mirror.workers.rows import Row, Tail
from fairlead.mirror.workers.scout import Scout
from fairlead.model.errors import Unreachable
from fairlead.protocol.batch import records_of


def load_of(source: FakeCluster, topic: str, end: int = 0) -> Load:
    """Its partition, with so many records that are not mirrored yet."""
    part = Part("a", source.made[topic].topic_id, topic, 0)
    return Load(part, topic, Route(0, 1, by_key=False, keep_order=False), Limits(), Position(0, -1, topic, topic), end)


@asynccontextmanager
async def running(scout: Scout) -> AsyncIterator[None]:
    """Until the block ends."""
    task = asyncio.create_task(scout.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_tail_of_a_deleted_topic_is_not_the_new_ones() -> None:
    """It waits behind a tail of another topic when its own is made again, with the same place."""
    source, room = FakeCluster("a"), asyncio.Event()
    tails: list[Tail] = []

    async def hand_on(row: Row) -> None:
        if isinstance(row, Tail):
            tails.append(row)
            await room.wait()

    async def tailed(*topics: str) -> None:
        await until(lambda: source.fetched >= {Place(topic, 0) for topic in topics})

    scout = Scout(0, source.opened, hand_on)
    for number, topic in enumerate(("t", "u")):
        source.make(topic)
        scout.take(number, load_of(source, topic))
    async with in_time(), running(scout):
        await tailed("t", "u")
        for topic in ("t", "u"):
            source.put(topic, 0, [b"old"])
        await until(lambda: tails)
        held, made_again = tails[0].number, ("u", "t")[tails[0].number]
        assert held in (0, 1)
        scout.remove(1 - held)
        source.fetched.clear()
        source.make(made_again)
        scout.take(2, load_of(source, made_again))
        await tailed(made_again)
        source.put(made_again, 0, [b"new"])
        room.set()
        await until(lambda: tails[1:])
    assert [(tail.number, [record.value for record in records_of(bytes(tail.records))]) for tail in tails] == [
        (held, [b"old"]),
        (2, [b"new"]),
    ]


async def test_a_partition_that_has_no_leader_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all of them end is not answered as long as it has none; what comes of the others is handed on."""
    source, tails = FakeCluster("a"), list[Tail]()

    async def hand_on(row: Row) -> None:
        if isinstance(row, Tail):
            tails.append(row)

    async def without_leader(places: Iterable[Place], at: int) -> Mapping[Place, int]:
        assert Place("t", 0) in set(places)
        raise Unreachable("topic t, partition 0 has no leader")

    monkeypatch.setattr(source, "offsets", without_leader)
    scout = Scout(0, source.opened, hand_on)
    for number, topic in enumerate(("t", "u")):
        source.make(topic)
        scout.take(number, load_of(source, topic))
    source.put("u", 0, [b"there"])
    async with running(scout):
        await until(lambda: tails)
    assert [(tail.number, [record.value for record in records_of(bytes(tail.records))]) for tail in tails] == [
        (1, [b"there"])
    ]


async def test_where_a_partition_ends_is_asked_again_once_little_is_left_of_what_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a hundred partitions that are far behind would be asked for ten times a second."""
    monkeypatch.setattr(scouting, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(scouting, "NEAR_SECONDS", 0.1)
    source, asked = FakeCluster("a"), list[Place]()

    async def hand_on(row: Row) -> None: ...

    async def ends(places: Iterable[Place], at: int) -> Mapping[Place, int]:
        asked.extend(places)
        return dict.fromkeys(places, 10_000)

    monkeypatch.setattr(source, "offsets", ends)
    scout = Scout(0, source.opened, hand_on)
    source.make("t")
    scout.take(0, load_of(source, "t", 10_000))
    async with in_time(), running(scout):
        scout.credit(0, 1, 0)
        await a_quiet_while()  # long enough to tell its pace
        asked.clear()
        await a_quiet_while()
        assert not asked
        scout.credit(0, 9_500, 0)
        await until(lambda: asked)
