"""What cannot be begun when it is to be is begun later, and holds up nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairlead.mirror.ports import Place
from tests.mirror.fake import FakeCluster
from tests.mirror.test_mirror import numbers
from tests.mirror.world import QUICK, World
from tests.support.waiting import a_quiet_while, until

NEVER = 1e9
"""`refresh.topics.enabled = false`."""


def source(world: World) -> None:
    """A topic of three partitions, of which one has no leader."""
    world.a.make("t", 3)
    for partition in range(3):
        world.a.put("t", partition, numbers(0, 3))
    world.a.leaderless = {Place("t", 1)}


async def test_with_once_a_partition_without_a_leader_is_named_and_the_others_are_mirrored(world: World) -> None:
    """The next start mirrors it."""
    source(world)
    mirror = await world.once()
    assert [world.b.values("t", partition) for partition in range(3)] == [numbers(0, 3), [], numbers(0, 3)]
    assert list(mirror.tally.stops) == ["topic t, partition 1"]
    assert "LEADER_NOT_AVAILABLE" in next(iter(mirror.tally.stops.values()))
    assert not mirror.clean
    world.a.leaderless = set()
    assert (await world.once()).clean
    assert world.b.values("t", 1) == numbers(0, 3)


@pytest.mark.parametrize("topics", [QUICK.topics, NEVER])
async def test_it_is_begun_once_it_has_a_leader(world: World, topics: float) -> None:
    """Whether new topics are looked for or not."""
    source(world)
    world.paces = replace(QUICK, topics=topics)
    async with world.running() as mirror:
        await until(lambda: world.b.values("t", 2) == numbers(0, 3))
        assert list(mirror.tally.stops) == ["topic t, partition 1"]
        world.a.leaderless = set()
        await until(lambda: world.b.values("t", 1) == numbers(0, 3))
        assert not mirror.tally.stops
    assert mirror.clean


async def test_a_new_topic_without_a_leader_holds_up_no_other(world: World) -> None:
    world.a.make("t")
    async with world.running() as mirror:
        await until(lambda: "t" in world.b.made)
        world.a.leaderless = {Place("new", 0)}
        for topic in ("new", "other"):
            world.a.make(topic, 2)
            world.a.put(topic, 0, numbers(0, 3))
        await until(lambda: world.b.values("other") == numbers(0, 3))
        assert list(mirror.tally.stops) == ["topic new, partition 0"]
        world.a.leaderless = set()
        await until(lambda: world.b.values("new") == numbers(0, 3))
        assert not mirror.tally.stops


async def test_with_new_topics_switched_off_those_that_were_to_be_mirrored_are_tried_again(world: World) -> None:
    """A source that was away, a topic that was refused, a partition that was missed for a moment; none that is new."""
    late = FakeCluster("c")
    late.away = True
    late.make("of-c")
    late.put("of-c", 0, numbers(0, 2))
    for topic in ("t", "refused"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 3))
    world.b.may_not_make = {"refused"}
    world.paces = replace(QUICK, topics=NEVER)
    async with world.running(world.a, late) as mirror:
        await until(lambda: world.b.values("t") == numbers(0, 3))
        await until(lambda: any("c is away" in line for line in world.said))
        late.come_back()
        await until(lambda: world.b.values("of-c") == numbers(0, 2))
        world.a.make("new")
        world.b.may_not_make = set()
        await until(lambda: world.b.values("refused") == numbers(0, 3))
        assert not mirror.tally.stops
        world.a.unknown[Place("t", 0)] = 1
        world.a.put("t", 0, numbers(3, 5))
        await until(lambda: world.a.unknown[Place("t", 0)] == 0)
        world.a.put("t", 0, numbers(5, 7))
        await until(lambda: world.b.values("t") == numbers(0, 7))
        await a_quiet_while()
    assert "new" not in world.b.made


async def test_a_source_that_has_not_begun_is_waited_for_in_every_line_and_named_at_the_end(world: World) -> None:
    """Not only once: who looks later must see that nothing comes of it, and why."""
    late = FakeCluster("c")
    late.away = True
    late.make("of-c")
    late.put("of-c", 0, numbers(0, 2))
    async with world.running(world.a, late) as mirror:
        await until(lambda: any("c is away" in line for line in world.said))
        world.said.clear()
        await until(lambda: any("nothing behind; waits for c: cluster c" in line for line in world.said))
    assert mirror.tally.notes["c"].startswith("nothing was mirrored from it: cluster c ")
    async with world.running(world.a, late) as mirror:
        await until(lambda: any("waits for c: " in line for line in world.said))
        late.come_back()
        await until(lambda: world.b.values("of-c") == numbers(0, 2))
        assert list(mirror.waits()) == []
    assert "c" not in mirror.tally.notes


async def test_a_mirror_that_begins_says_of_what_it_has_not_begun_with(world: World) -> None:
    """It waits for all of its sources, before any of them has been asked."""
    assert list(world.mirror(world.a).waits()) == ["waits for a: it has not begun yet"]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_what_is_begun_late_goes_on_where_another_mirror_has_ended(world: World, is_refused: bool) -> None:
    """As what was begun at once; from its start all that the other one has copied would come twice."""
    for topic in ("t", "u"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 5))
    world.a.group_offsets["g"] = {Place(topic, 0): (3, -1) for topic in ("t", "u")}
    if is_refused:
        world.b.may_not_make = {"u"}
    else:
        world.a.leaderless = {Place("u", 0)}
    async with world.running(begin="mm1") as mirror:
        await until(lambda: world.b.values("t") == numbers(3, 5))
        assert len(mirror.tally.stops) == 1
        world.a.leaderless = set()
        world.b.may_not_make = set()
        await until(lambda: world.b.values("u")[-2:] == numbers(3, 5))
        await a_quiet_while()
    assert world.b.values("u") == numbers(3, 5)
    assert mirror.clean
