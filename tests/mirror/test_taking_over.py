"""A mirror goes on where another one has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.model.errors import BadRequest, InvalidValue
from tests.mirror.books.test_connect import entry, write
from tests.mirror.test_mirror import numbers
from tests.mirror.world import World


def copied(world: World, topic: str, count: int) -> None:
    """Another mirror has copied so many of ten records."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 10))
    world.b.make(topic)
    world.b.put(topic, 0, numbers(0, count))


async def test_a_mirror_goes_on_where_a_mirrormaker_2_ended(world: World) -> None:
    """Also where names have its prefix; what it did not know of begins at its start."""
    copied(world, "A.t", 7)
    world.a.make("u")
    world.a.put("u", 0, numbers(0, 2))
    write(world.b, "mm2-offsets.A.internal", entry("A", "t", 0, 6))
    await world.once(begin="mm2", prefix="A.")
    assert world.b.values("A.t") == numbers(0, 10)
    assert world.b.values("A.u") == numbers(0, 2)
    assert any("1 where another mirror has ended" in line for line in world.said)


async def test_what_mirrormaker_2_had_copied_went_with_its_topic(world: World) -> None:
    """Then nothing of it is there, and all is mirrored."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    write(world.b, "mm2-offsets.A.internal", entry("A", "t", 0, 3))
    await world.once(begin="mm2")
    assert world.b.values("t") == numbers(0, 5)


async def test_the_mirrors_own_position_counts_more_than_what_another_left(world: World) -> None:
    """A second start with the same options goes on where the first ended."""
    copied(world, "t", 7)
    write(world.b, "mm2-offsets.A.internal", entry("A", "t", 0, 6))
    await world.once(begin="mm2")
    world.a.put("t", 0, numbers(10, 12))
    await world.once(begin="mm2")
    assert world.b.values("t") == numbers(0, 12)


async def test_from_the_second_start_on_it_does_not_matter_what_another_mirror_left(world: World) -> None:
    """Connect's topic of offsets may be deleted, though `--from` still stands in somebody's script. Topics that are
    made again at the destination begin at their start: it is this mirror that has committed to the group since."""
    copied(world, "t", 7)
    write(world.b, "mm2-offsets.A.internal", entry("A", "t", 0, 6))
    await world.once(begin="mm2")
    del world.b.made["mm2-offsets.A.internal"]
    world.a.put("t", 0, numbers(10, 12))
    await world.once(begin="mm2")
    assert world.b.values("t") == numbers(0, 12)
    del world.b.made["t"]
    await world.once(begin="mm1")
    assert world.b.values("t") == numbers(0, 12)


async def test_a_mirror_begins_where_a_file_says(world: World, tmp_path: Path) -> None:
    """What is not in it begins at its start, so what it names that is not there is told."""
    copied(world, "t", 4)
    file = tmp_path / "offsets"
    file.write_text("t,0,4\nT,0,4\nt,1,4\n")
    world.a.make("u")
    world.a.put("u", 0, numbers(0, 2))
    await world.once(begin=str(file))
    assert world.b.values("t") == numbers(0, 10)
    assert world.b.values("u") == numbers(0, 2)
    assert any("--from's file that are not mirrored from here: 2 (T-0, t-1)" in line for line in world.said)


async def test_a_dry_run_says_what_is_taken_over(world: World) -> None:
    """Before anything is begun."""
    copied(world, "t", 7)
    write(world.b, "mm2-offsets.A.internal", entry("A", "t", 0, 6))
    await world.once(begin="mm2", dry_run=True)
    assert any("topic t, partition 0: from 7 (taken over), 3 to mirror" in line for line in world.said)


async def test_nothing_begins_where_there_is_nothing_to_take_over(world: World) -> None:
    """Neither from a MirrorMaker 2 that left no offsets, nor from a group without a name, nor from one that has
    committed nothing: all that another mirror has copied would come twice."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    with pytest.raises(BadRequest, match="--from mm2"):
        await world.once(begin="mm2")
    with pytest.raises(InvalidValue, match="--from group"):
        await world.once(begin="mm1", group=None)
    with pytest.raises(BadRequest, match="--from group: group g has committed nothing"):
        await world.once(begin="mm1")
    assert "t" not in world.b.made


async def test_a_refused_batch_ends_the_mirror_where_that_is_asked_for(world: World) -> None:
    """MirrorMaker 1's default; here only the partition stops, unless it is told."""
    for topic in ("bad", "good"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 3))
    world.b.refuses = lambda topic, partition, outgoing: "too large" if topic == "bad" else None
    mirror = world.mirror(abort_on_send_failure="true")
    await mirror.run()  # it ends by itself
    assert "too large" in mirror.tally.stops["topic bad, partition 0"]
    assert any("--abort.on.send.failure" in line for line in world.said)
