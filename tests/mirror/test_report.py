"""What a mirror tells while it runs and at its end."""

from __future__ import annotations

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
        mirror.tally, mirror.left
    ).split("\n")
    assert mirror.tally.clean
