"""A function of the user's between the clusters."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.model.errors import InvalidValue
from fairlead.protocol.batch import build_batch
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


def newest_first(records: pa.RecordBatch) -> pa.RecordBatch:
    """Turns the order round."""
    return records.take(pa.array(range(records.num_rows))[::-1])


def late_values(records: pa.RecordBatch) -> pa.RecordBatch:
    """Leaves out what does not end in 5 or more, and does not say of which records the others were made."""
    kept = records.filter(pc.greater_equal(pc.binary_slice(records["value"], -1), b"5"))
    return pa.record_batch({"value": kept["value"]})


def large(numbers_of: range) -> list[bytes]:
    """Values of which some twenty make a batch."""
    return [b"%050000d" % number for number in numbers_of]


async def put_as_one(world: World, values: list[bytes]) -> None:
    """One batch, so that the function is called once."""
    world.a.made["t"].logs[0].append(build_batch([(None, value) for value in values], timestamp_ms=1_000))


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_where_a_function_sorts_records_none_is_lost(world: World, exactly_once: bool) -> None:
    """What one call has made takes effect together: a position within it would be of other records."""
    world.a.make("t")
    world.b.make("t", max_message_bytes="4000000")
    await put_as_one(world, large(range(40)))
    refused = []

    def refuses(topic: str, partition: int, outgoing: Outgoing) -> str | None:
        refused.append(topic == "t" and large(range(1))[0] in bytes(outgoing.body))
        return "not today" if refused[-1] else None

    world.b.refuses = refuses
    mirror = await world.once(handler="tests.mirror.test_handler:newest_first", exactly_once=exactly_once)
    assert any(refused)
    assert "not today" in stopped(mirror)
    world.b.refuses = lambda topic, partition, outgoing: None
    await world.once(handler="tests.mirror.test_handler:newest_first", exactly_once=exactly_once)
    assert set(world.b.values("t")) == set(large(range(40)))
    if exactly_once:
        assert world.b.values("t") == large(range(40))[::-1]


async def test_what_a_function_made_of_unknown_records_comes_once(world: World) -> None:
    """Also where a part of it was refused."""
    world.a.make("t")
    world.b.make("t", max_message_bytes="4000000")
    values = large(range(100))
    await put_as_one(world, values)
    world.b.refuses = lambda topic, partition, outgoing: (
        "not today" if topic == "t" and values[99] in bytes(outgoing.body) else None
    )
    await world.once(handler="tests.mirror.test_handler:late_values", exactly_once=True)
    assert world.b.values("t") == []
    world.b.refuses = lambda topic, partition, outgoing: None
    await world.once(handler="tests.mirror.test_handler:late_values", exactly_once=True)
    assert world.b.values("t") == [value for value in values if value[-1:] >= b"5"]
