"""What a mirror tells while it runs and at its end."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from fairlead.mirror.report import Tally, TopicTally, summary, topic_lines
from tests.mirror.world import World
from tests.support.waiting import until


def test_a_line_for_each_topic_says_what_was_mirrored_of_it() -> None:
    """By name."""
    tally = Tally({"u": TopicTally(1, 40), "t": TopicTally(12_345, 67_800_000, Counter(raw=3))})
    assert list(topic_lines(tally)) == ["  t: 12,345 records, 67.8 MB", "  u: 1 records, 0.0 MB"]


@pytest.mark.parametrize("verbose", [True, False])
async def test_progress_has_a_line_for_each_topic_where_that_is_asked_for(world: World, verbose: bool) -> None:
    """With `--verbose`; totals come always."""
    for topic, values in (("t", [b"1", b"2"]), ("u", [b"3"])):
        world.a.make(topic)
        world.a.put(topic, 0, values)
    async with world.running(verbose=verbose):
        await until(lambda: world.b.values("t") == [b"1", b"2"] and world.b.values("u") == [b"3"])
        await until(lambda: any(line.startswith("3 records, ") for line in world.said))
        if verbose:
            await until(lambda: "  u: 1 records, 0.0 MB" in world.said)
    assert ("  t: 2 records, 0.0 MB" in world.said) is verbose


async def test_the_summary_says_that_keys_have_other_partitions(world: World) -> None:
    """Where a topic has grown with its source: what was mirrored before lies where it lay."""
    world.a.make("t")
    await world.once()
    await world.a.grow("t", 2)
    mirror = await world.once()
    assert "note: t: it got more partitions, so keys have other partitions from now on" in summary(
        mirror.tally, mirror.left, mirror.equal_from
    ).split("\n")
    assert mirror.tally.clean


async def equal(world: World, topic: str = "t") -> str:
    """What the summary says of the topic's offsets after a run."""
    mirror = await world.once()
    heading, *rows = summary(mirror.tally, mirror.left, mirror.equal_from).split("\n")
    column = heading.index("offsets equal")
    return next(row[column:] for row in rows if re.match(rf"{topic} ", row))


async def test_the_summary_says_where_offsets_are_equal(world: World) -> None:
    """Where the difference is 0, also over runs; a record that somebody else wrote there moves the rest."""
    world.a.make("t", 3)
    for partition in range(3):
        world.a.put("t", partition, [b"1", b"2"])
    assert await equal(world) == "all"
    for partition in range(3):
        world.a.put("t", partition, [b"3"])
    world.b.put("t", 1, [b"from elsewhere"])
    assert await equal(world) == "partitions 0, 2"
    assert world.b.values("t", 1) == [b"1", b"2", b"from elsewhere", b"3"]


async def test_where_the_destination_has_had_others_no_offset_is_equal(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, [b"1", b"2"])
    world.b.make("t")
    world.b.put("t", 0, [b"from elsewhere"])
    assert await equal(world) == "none"


async def test_where_offsets_are_equal_from_some_offset_on_it_is_said(world: World) -> None:
    """Records were removed at the source that others at the destination stand for."""
    world.a.make("t")
    world.a.put("t", 0, [b"1", b"2", b"3"])
    world.a.put("t", 0, [b"4"])
    world.a.made["t"].logs[0].expire(3)
    world.b.make("t")
    world.b.put("t", 0, [b"x", b"y", b"z"])
    assert await equal(world) == "partitions 0 from 3"
