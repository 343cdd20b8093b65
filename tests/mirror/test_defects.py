"""The fifteen defects of the Go Kafka Mirror Maker, each by its number in the list of its code's promises that it does
not keep. Here a mirror keeps them.

What the bytes of batches are about is tested further in `tests/mirror/bytes`, what producers do on the wire in
`tests/kafka`.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import closing
from functools import partial

import pytest

from fairlead.cli.program import run
from fairlead.mirror.carrying.stream import BYTES_UNDER_WAY_MAX
from fairlead.mirror.running.mirror import Mirror
from fairlead.protocol.batch import build_batch
from fairlead.protocol.records import Record
from tests.mirror.fake import FakeCluster
from tests.mirror.world import World
from tests.support.stepped import SteppedLoop
from tests.support.waiting import a_quiet_while, until


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.a.make("t")


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def stopped(mirror: Mirror) -> str:
    """Why the one partition stands still."""
    assert len(mirror.tally.stops) == 1, mirror.tally.stops
    return next(iter(mirror.tally.stops.values()))


async def test_defect_1_a_record_counts_once_the_destination_acknowledged_it(world: World) -> None:
    """Not once it was handed on: who is killed before mirrors it again."""
    world.a.put("t", 0, numbers(0, 5))
    world.b.refuses = lambda topic, partition, outgoing: None
    async with world.killed() as mirror:
        await until(lambda: "t" in world.b.made)
        world.b.away = True
        world.a.put("t", 0, numbers(5, 10))
        await a_quiet_while()
    assert mirror.tally.records <= 5
    world.b.come_back()
    await world.once(takeover=True)
    assert set(world.b.values("t")) == set(numbers(0, 10))


async def test_defect_2_a_send_that_fails_never_vanishes(world: World) -> None:
    """The partition stands still below it and says why; nothing after it is counted as mirrored."""
    world.a.put("t", 0, numbers(0, 3))
    await world.once()
    world.b.refuses = lambda topic, partition, outgoing: "TOPIC_AUTHORIZATION_FAILED" if topic == "t" else None
    world.a.put("t", 0, numbers(3, 6))
    mirror = await world.once()
    assert "TOPIC_AUTHORIZATION_FAILED" in stopped(mirror)
    assert not mirror.tally.clean
    world.b.refuses = lambda topic, partition, outgoing: None
    await world.once()
    assert world.b.values("t") == numbers(0, 6)


async def test_defect_3_an_end_waits_for_what_is_under_way(world: World) -> None:
    """Nothing is thrown away that was fetched, and the position says so."""
    async with world.running():
        await until(lambda: "t" in world.b.made)
        world.b.away = True
        world.a.put("t", 0, numbers(0, 8))
        await a_quiet_while()
        asyncio.get_running_loop().call_later(0.3, world.b.come_back)
    mirrored = world.b.values("t")
    assert mirrored == numbers(0, len(mirrored))
    mirror = await world.once()
    assert world.b.values("t") == numbers(0, 8)
    assert mirror.tally.records == 8 - len(mirrored)


async def test_defect_4_a_destination_that_is_away_is_waited_for(world: World) -> None:
    """For as long as it takes: nothing is committed, nothing is dropped."""
    async with world.running():
        await until(lambda: "t" in world.b.made)
        world.b.away = True
        world.a.put("t", 0, numbers(0, 50))
        await until(lambda: any("waits for the destination" in line for line in world.said))
        committed = dict(world.a.group_offsets.get("g", {}))
        assert all(offset == 0 for offset, _ in committed.values())
        world.b.come_back()
        await until(lambda: world.b.values("t") == numbers(0, 50))


async def test_defect_5_the_position_is_the_highest_contiguous_one(world: World) -> None:
    """Records after a refused one were acknowledged; the position stays below it (see `carrying/test_settled.py`)."""
    world.a.put("t", 0, numbers(0, 1))
    async with world.running():
        await until(lambda: world.b.values("t") == numbers(0, 1))
    world.a.put("t", 0, numbers(1, 9))
    world.b.refuses = lambda topic, partition, outgoing: "no" if outgoing.first_offset == 1 and topic == "t" else None
    await world.once()
    world.b.refuses = lambda topic, partition, outgoing: None
    await world.once()
    assert set(world.b.values("t")) == set(numbers(0, 9))


@pytest.mark.parametrize("given", [{}, {"streams": 4, "producers": 3}, {"queue_records": 1}])
async def test_defects_6_and_7_the_order_of_a_partition_is_kept(world: World, given: dict[str, int]) -> None:
    """Without any option, and with several streams and producers. Large batches lie among small ones, so that an answer
    is several sends."""
    world.a.make("many", 7)
    async with world.running(**given):
        for number in range(40):
            for partition in range(7):
                world.a.put("many", partition, [b"%03d" % number + bytes(70_000 * (number % 4 == 1))])
            await asyncio.sleep(0)
        await until(lambda: sum(len(world.b.values("many", partition)) for partition in range(7)) == 280)
    for partition in range(7):
        values = [value[:3] for value in world.b.values("many", partition) if value is not None]
        assert values == [b"%03d" % number for number in range(40)]


async def test_defect_8_records_without_a_key_do_not_all_go_to_one_partition(world: World) -> None:
    """Where the destination has another number of partitions, so that they are chosen anew."""
    world.b.make("t", 5)
    world.a.put("t", 0, numbers(0, 60), key=None)
    await world.once()
    found = [len(world.b.values("t", partition)) for partition in range(5)]
    assert sum(found) == 60
    assert sum(count > 0 for count in found) > 1


async def test_defect_8_keyless_records_stay_in_order_where_that_is_asked_for(world: World) -> None:
    """`--preserve.order`: those of a source partition go to one partition."""
    world.b.make("t", 5)
    world.a.put("t", 0, numbers(0, 60), key=None)
    await world.once(preserve_order=True)
    assert world.b.values("t", 0) == numbers(0, 60)


async def test_defect_9_no_key_and_no_value_stay_so(world: World) -> None:
    """They do not become empty ones; a tombstone stays a tombstone."""
    log = world.a.made["t"].logs[0]
    pairs = [(None, b"v"), (b"k", None), (b"", b""), (None, None)]
    log.append(build_batch(pairs))
    await world.once()
    assert [(record.key, record.value) for record in world.b.records("t")] == pairs


async def test_defect_10_headers_and_times_are_kept(world: World) -> None:
    """And whatever else a record has."""
    record = Record(0, 1_234_567_890_123, b"k", b"v", (("h", b"1"), ("h", None)))
    world.a.made["t"].logs[0].append(build_batch([record]))
    await world.once()
    assert world.b.records("t") == [record]


def test_defect_11_keys_are_wrapped_in_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Keys are bytes here; the option by which the original wrapped them is refused, not ignored."""
    assert run(["mirror", "--schema.registry.url", "http://registry"]) == 2
    assert "schema.registry.url" in capsys.readouterr().err


async def test_defect_12_what_is_out_of_range_is_not_begun_anew_silently(world: World) -> None:
    """Records that expired before they were mirrored stop the partition; the next run says it again."""
    world.a.put("t", 0, numbers(0, 3))
    await world.once()
    world.a.put("t", 0, numbers(3, 9))
    world.a.made["t"].logs[0].expire(6)
    for _ in range(2):
        mirror = await world.once()
        assert "offsets 3 to 5 were gone" in stopped(mirror)
        assert mirror.tally.lost_offsets == 3
    mirror = await world.once(on_gap="continue")
    assert world.b.values("t") == numbers(0, 3) + numbers(6, 9)
    assert not mirror.tally.clean
    assert mirror.tally.lost_offsets == 3
    assert (await world.once()).tally.clean


async def test_defect_12_a_damaged_batch_is_not_stepped_over(world: World) -> None:
    """What is before it is mirrored."""
    world.a.put("t", 0, numbers(0, 4))
    log = world.a.made["t"].logs[0]
    whole = log.batches[2]
    log.batches[2] = whole[:-1] + bytes([whole[-1] ^ 1])
    mirror = await world.once()
    assert "CRC" in stopped(mirror)
    assert world.b.values("t") == numbers(0, 2)
    log.batches[2] = whole
    await world.once()
    assert world.b.values("t") == numbers(0, 4)


async def test_defect_13_mirrors_that_face_each_other_with_prefixes_come_to_rest(world: World) -> None:
    """`.*` both ways would make `a_b_a_b_t` and so on; records do not go back, whatever their topics are called."""
    world.a.put("t", 0, numbers(0, 3))
    world.b.make("u")
    world.b.put("u", 0, numbers(0, 2))
    for _ in range(4):
        await world.once(prefix="a_")
        await world.once(world.b, to=world.a, name="back", prefix="b_")
    assert world.b.values("a_t") == numbers(0, 3)
    assert world.a.values("b_u") == numbers(0, 2)
    assert world.a.values("b_a_t") == []
    assert world.b.values("a_b_u") == []
    assert not any("a_b_a" in topic for topic in world.b.made)


async def test_defect_13_mirrors_that_face_each_other_with_equal_names_come_to_rest(world: World) -> None:
    """Each record is there once at both ends, though both sides write the topic."""
    world.b.make("t")
    async with world.running(), world.running(world.b, to=world.a, name="back"):
        world.a.put("t", 0, [b"a1"])
        world.b.put("t", 0, [b"b1"])
        await until(lambda: len(world.a.values("t")) == len(world.b.values("t")) == 2)
        await a_quiet_while()
    assert sorted(map(repr, world.a.values("t"))) == sorted(map(repr, world.b.values("t"))) == ["b'a1'", "b'b1'"]


async def test_defect_13_two_sources_do_not_lie_in_one_topic_mingled(world: World) -> None:
    """The second is refused by name, and the first is mirrored."""
    c = FakeCluster("c")
    c.make("t")
    c.put("t", 0, [b"other"])
    world.a.put("t", 0, numbers(0, 3))
    mirror = await world.once(world.a, c)
    assert world.b.values("t") == numbers(0, 3)
    assert "where a topic of a goes" in stopped(mirror)


async def test_defect_14_what_is_under_way_is_bounded(world: World) -> None:
    """While the destination is away, whatever there is to mirror."""
    for topic in range(40):
        world.a.make(f"large{topic}")
        world.a.put(f"large{topic}", 0, [bytes(700_000)] * 12)
    async with world.running() as mirror:
        await until(lambda: any(world.b.records(f"large{topic}") for topic in range(40)))
        world.b.away = True
        await until(lambda: mirror.bytes_under_way >= BYTES_UNDER_WAY_MAX)
        await a_quiet_while()
        assert mirror.bytes_under_way < BYTES_UNDER_WAY_MAX + 40 * 4 * 800_000
        world.b.come_back()


async def test_defect_14_a_topic_at_rest_costs_little(world: World) -> None:
    """The original had buffers of 384 KB for each; here they are where something is under way."""
    count = 1_000
    for number in range(count):
        for cluster in (world.a, world.b):
            cluster.make(f"rests{number}")
    tracemalloc.start()
    try:
        async with world.running() as mirror:
            await until(lambda: sum(len(source.copies) for source in mirror.sources) > count)
            await a_quiet_while()
            assert tracemalloc.get_traced_memory()[1] < 20_000 * count
    finally:
        tracemalloc.stop()


def test_defect_15_a_lone_record_does_not_wait_for_others(world: World) -> None:
    """There is no linger, neither on the way in nor on the way out; the original's was up to 6 s. Where all is in one
    process, no time passes but what somebody waits."""

    async def seconds() -> float:
        loop = asyncio.get_running_loop()
        async with world.running():
            await until(lambda: "t" in world.b.made)
            began = loop.time()
            world.a.put("t", 0, [b"lone"])
            await until(lambda: world.b.values("t") == [b"lone"])
            return loop.time() - began

    if world.has_workers:
        asyncio.run(seconds())
        return
    with closing(SteppedLoop()) as loop:
        assert loop.run(seconds()) < 0.1


async def test_defect_13_mirrors_that_face_each_other_stay_at_rest_over_restarts(world: World) -> None:
    """Each start has producers with new ids; those of the starts before are still known."""
    world.b.make("t")
    for turn in range(3):
        async with world.running(takeover=True), world.running(world.b, to=world.a, name="back", takeover=True):
            world.a.put("t", 0, [b"a%d" % turn])
            world.b.put("t", 0, [b"b%d" % turn])
            both = 2 * (turn + 1)
            await until(partial(_have, world, both))
            await a_quiet_while()
        assert len(world.a.values("t")) == len(world.b.values("t")) == both


def _have(world: World, count: int) -> bool:
    return min(len(world.a.values("t")), len(world.b.values("t"))) >= count
