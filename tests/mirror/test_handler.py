"""A function of the user's between the clusters."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.model.errors import InvalidValue
from tests.mirror.test_mirror import numbers, stopped
from tests.mirror.world import World, options


def only_even(records: pa.RecordBatch) -> pa.RecordBatch:
    """Leaves out every other record."""
    values = pc.cast(pc.cast(records["value"], pa.string()), pa.int64())
    return records.filter(pc.equal(pc.bit_wise_and(values, 1), 0))


def of_numbers(records: pa.RecordBatch) -> pa.RecordBatch:
    """Fails at anything else."""
    only_even(records)
    return records


def those_of(records: pa.RecordBatch, args: str) -> pa.RecordBatch:
    """Leaves out all but one value."""
    return records.filter(pc.equal(pc.cast(records["value"], pa.string()), args))


async def test_a_function_gets_the_arguments_of_the_command_line(world: World) -> None:
    """As MirrorMaker 1 handed them on: one text."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 10))
    await world.once(handler="tests.mirror.test_handler:those_of", handler_args="7")
    assert world.b.values("t") == [b"7"]


async def test_records_go_as_a_function_makes_them(world: World) -> None:
    """And what it leaves out is mirrored too: the next start does not look at it again."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 10))
    mirror = await world.once(handler="tests.mirror.test_handler:only_even")
    assert world.b.values("t") == numbers(0, 10)[::2]
    assert mirror.tally.clean
    await world.once()
    assert world.b.values("t") == numbers(0, 10)[::2]


async def test_keys_choose_partitions_of_what_a_function_made(world: World) -> None:
    world.a.make("t", 2)
    world.b.make("t", 3)
    for partition in range(2):
        world.a.put("t", partition, numbers(10 * partition, 10 * partition + 10))
    await world.once(handler="tests.mirror.test_handler:only_even")
    found = [value for partition in range(3) for value in world.b.values("t", partition)]
    assert sorted(map(str, found)) == sorted(map(str, numbers(0, 20)[::2]))


async def test_a_function_that_fails_stops_its_partition(world: World) -> None:
    """With the offset; what is before it is mirrored, and goes on there once the function is mended."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    world.a.put("t", 0, [b"no number"])
    mirror = await world.once(handler="tests.mirror.test_handler:of_numbers")
    assert "message handler failed" in stopped(mirror)
    before = len(world.b.values("t"))
    assert world.b.values("t") == numbers(0, before)
    await world.once()
    assert world.b.values("t") == [*numbers(0, 3), b"no number"]


@pytest.mark.parametrize("name", ["upper", "no.such.module:f", "tests.mirror.test_handler:nothing"])
def test_a_function_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(InvalidValue, match=f"message.handler {name}"):
        options(handler=name)
