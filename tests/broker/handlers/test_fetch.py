"""Fetch: how much an answer holds (KIP-74)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, asking
from tests.support.batches import changed, produced_to
from tests.support.rows import said_of
from tests.support.waiting import in_time, until

from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, build_batch, read_header, set_offset
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.rows import ABORT, Row
from fairlead.streamlog.writing.draft import Draft

FETCH = 1
IN_MEMORY = 0
ON_DISK = 1
"""Settings of `cache_bytes`."""


def batch(value_bytes: int) -> bytes:
    return build_batch([(None, bytes(value_bytes))])


LARGE, SMALL = batch(800), batch(200)
L, S = len(LARGE), len(SMALL)


async def filled(asker: Asker, partitions: Sequence[Sequence[bytes]]) -> None:
    """A topic with these batches in each partition."""
    stream = asker.cluster.stream("/default")
    await stream.create_topic("sized", len(partitions))
    shard, topic = stream.topic("sized")
    for partition, batches in enumerate(partitions):
        for each in batches:
            await produced_to(shard, topic.number, partition, each)


async def fetch(
    asker: Asker, asked: Sequence[tuple[int, int]], max_bytes: int, min_bytes: int = 1, **changes: Any
) -> list[Any]:
    """Partitions 0 to n of the topic from an offset on, each with its own limit."""
    parts = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": limit}
        for index, (offset, limit) in enumerate(asked)
    ]
    fields = {
        "replica_id": -1,
        "max_wait": timedelta(seconds=20),
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "session_epoch": -1,
        "topics": [{"topic": "sized", "partitions": parts}],
        "forgotten_topics_data": [],
    }
    answer = await asker.ask(FETCH, 11, **(fields | changes))
    (topic,) = answer.responses
    return list(topic.partitions)


def size_of(partition: Any) -> int:
    return len(partition.records or b"")


@pytest.mark.parametrize("cache_bytes", [IN_MEMORY, ON_DISK])
async def test_only_the_first_batch_of_an_empty_answer_exceeds_a_limit(cache_bytes: int) -> None:
    """Whatever stands before it has nothing to read; where a partition ends is told though nothing of it fits."""
    async with asking(cache_bytes=cache_bytes) as asker:
        await filled(asker, [[], [LARGE], [LARGE, LARGE], [SMALL]])
        every = [(0, 10_000), (0, 10_000), (0, 10_000), (0, 10_000)]
        assert [size_of(part) for part in await fetch(asker, every, L + S - 1)] == [0, L, 0, 0]
        found = await fetch(asker, every, S)
        assert [size_of(part) for part in found] == [0, L, 0, 0]
        assert [part.high_watermark for part in found] == [0, 1, 2, 1]
        small = [(0, 10), (1, 10), (0, 10), (0, 10)]
        assert [size_of(part) for part in await fetch(asker, small, 50_000)] == [0, 0, L, 0]
        assert [size_of(part) for part in await fetch(asker, small, 0)] == [0, 0, L, 0]


async def test_a_batch_for_which_there_is_no_room_does_not_make_the_answer_wait() -> None:
    """Though there is less than the client wants at least: more than that will never fit."""
    async with asking() as asker:
        await filled(asker, [[LARGE], [LARGE]])
        found = await fetch(asker, [(0, 10_000), (0, 10_000)], L + S, min_bytes=L + 1)
        assert [size_of(part) for part in found] == [L, 0]


@pytest.mark.parametrize("session_epoch", [-1, 0])
@pytest.mark.parametrize("cache_bytes", [IN_MEMORY, ON_DISK])
async def test_an_answer_has_what_is_wanted_at_least_as_soon_as_that_is_there(
    cache_bytes: int, session_epoch: int
) -> None:
    """Also where a partition in the answer gets more, which is read on, and once: whatever came before, and in whatever
    order, the answer is made by what makes it enough. A later one begins anew."""
    async with asking(cache_bytes=cache_bytes) as asker, in_time():
        await filled(asker, [[SMALL], [SMALL], []])
        shard, topic = asker.cluster.stream("/default").topic("sized")
        asked = [(0, 10_000)] * 3
        for _ in range(2):
            ends = [shard.state.partition(topic.number, each).end for each in range(3)]
            wants = (sum(ends) + 4) * S
            options: Any = {"session_epoch": session_epoch, "max_wait": timedelta(hours=1)}
            waiting = asyncio.create_task(fetch(asker, asked, 50_000, wants, **options))
            for partition in (0, 2, 0, 1):
                await until(lambda: shard.watched == 3)
                assert not waiting.done()
                await produced_to(shard, topic.number, partition, SMALL)
            read = await waiting
            assert [size_of(part) for part in read] == [(ends[0] + 2) * S, (ends[1] + 1) * S, (ends[2] + 1) * S]
            for part in read:
                batches = [read_header(part.records[at : at + S]).base_offset for at in range(0, size_of(part), S)]
                assert batches == list(range(part.high_watermark))


@pytest.mark.parametrize("session_epoch", [-1, 0])
async def test_no_more_of_a_partition_is_read_on_than_its_own_limit(session_epoch: int) -> None:
    """What comes then makes the answer: it would never get more."""
    async with asking() as asker, in_time():
        await filled(asker, [[SMALL], []])
        shard, topic = asker.cluster.stream("/default").topic("sized")
        asked, options = [(0, 2 * S + 1), (0, 10)], {"session_epoch": session_epoch, "max_wait": timedelta(hours=1)}
        waiting = asyncio.create_task(fetch(asker, asked, 50_000, 10 * S, **options))
        for _ in range(2):
            await until(lambda: shard.watched == 2)
            await produced_to(shard, topic.number, 0, SMALL)
        assert [size_of(part) for part in await waiting] == [2 * S, 0]


@pytest.mark.parametrize("session_epoch", [-1, 0])
async def test_a_partition_that_is_cut_while_an_answer_waits_is_read_anew(session_epoch: int) -> None:
    """Nothing of what stood there before goes along with what stands there now; one that is gone says only that."""
    async with asking() as asker, in_time():
        await filled(asker, [[SMALL, SMALL]])
        shard, topic = asker.cluster.stream("/default").topic("sized")
        options: Any = {"session_epoch": session_epoch, "max_wait": timedelta(hours=1)}
        others = [batch(1), batch(2), batch(3)]
        wants = 2 * S + len(b"".join(others))
        waiting = asyncio.create_task(fetch(asker, [(0, 10_000)], 50_000, wants, **options))
        await until(lambda: shard.watched == 1)

        def follow_on(draft: Draft) -> None:
            cut(draft, topic.number, 0, 1, "takeover", 5, None)
            for offset, other in enumerate(others, 1):
                appended(topic.number, offset, bytes(set_offset(other, offset, 0)))(draft)

        await shard.submit(follow_on)
        assert not waiting.done()
        await produced_to(shard, topic.number, 0, SMALL)
        (read,) = await waiting
        assert read.records == b"".join(set_offset(each, at, 0) for at, each in enumerate([SMALL, *others, SMALL]))
        waiting = asyncio.create_task(fetch(asker, [(0, 10_000)], 50_000, 10 * S, **options))
        await until(lambda: shard.watched == 1)
        await asker.cluster.stream("/default").delete_topic("sized")
        (read,) = await waiting
        assert (read.error_code, size_of(read)) == (ErrorCode.unknown_topic_or_partition, 0)


BATCHES = st.lists(st.integers(0, 60).map(batch), max_size=4)
LIMITS = st.integers(0, 400)


@pytest.mark.parametrize("cache_bytes", [IN_MEMORY, ON_DISK])
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(BATCHES, LIMITS), min_size=1, max_size=5), LIMITS)
async def test_an_answer_is_as_large_as_kafka_would_make_it(
    cache_bytes: int, partitions: list[tuple[list[bytes], int]], max_bytes: int
) -> None:
    """From memory, exactly. What is read from the disk at one time keeps room for each other, so it may be less; there
    is something, if there is something, and no limit is exceeded but by a batch alone."""
    expected: list[int] = []
    left = max_bytes
    for batches, limit in partitions:
        room, taken = min(limit, left), 0
        for size in map(len, batches):
            if size > room - taken and (taken or any(expected)):
                break
            taken += size
        expected.append(taken)
        left = max(0, left - taken)
    async with asking(cache_bytes=cache_bytes) as asker:
        await filled(asker, [batches for batches, _ in partitions])
        every = [(0, limit) for _, limit in partitions]
        found = [size_of(part) for part in await fetch(asker, every, max_bytes, min_bytes=0)]
    if cache_bytes == IN_MEMORY:
        assert found == expected
    assert all(taken <= most for taken, most in zip(found, expected, strict=True))
    assert any(found) == any(expected)


def appended(number: int, offset: int, batch: bytes, more_bits: int = 0) -> Callable[[Draft], Row]:
    """A batch of one record, as a link brings it."""
    records, bits, crc = said_of(batch)
    add = partial(Draft.add_batch, records=records, bits=bits | more_bits, crc=crc)
    return lambda draft: add(draft, number, 0, offset, offset, 0, None, None, 0, batch)


async def test_who_reads_committed_records_is_told_what_was_aborted_and_waits_at_the_open_ones() -> None:
    """As Kafka answers (KIP-98): transactions come over links from later versions. ListOffsets ends there too."""
    async with asking() as asker:
        await filled(asker, [[]])
        shard, topic = asker.cluster.stream("/default").topic("sized")
        made_of = []
        for base, producer, attributes, key, bits in (
            (0, 7, TRANSACTIONAL, b"k", 0),
            (1, 7, TRANSACTIONAL | CONTROL, b"\0\0\0\0", ABORT),
            (2, 8, TRANSACTIONAL, b"k", 0),
        ):
            plain = build_batch([(key, b"")], producer_id=producer, producer_epoch=0, base_offset=base)
            data = changed(plain, attributes=attributes)
            made_of.append(data)
            await shard.submit(appended(topic.number, base, data, bits))
        for session_epoch in (-1, 0):
            (read,) = await fetch(asker, [(0, 1000)], 1000, isolation_level=1, session_epoch=session_epoch)
            assert (read.high_watermark, read.last_stable_offset, size_of(read)) == (3, 2, len(made_of[0] + made_of[1]))
            assert [(each.producer_id, each.first_offset) for each in read.aborted_transactions] == [(7, 0)]
            (read,) = await fetch(asker, [(2, 1000)], 1000, isolation_level=1, max_wait=timedelta(0))
            assert (read.error_code, size_of(read), read.aborted_transactions) == (0, 0, ())
        (read,) = await fetch(asker, [(0, 1000)], 1000)
        assert size_of(read) == len(b"".join(made_of))
        for isolation, end in ((0, 3), (1, 2)):
            asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
            topics = [{"name": "sized", "partitions": [asked]}]
            answer = await asker.ask(2, 5, replica_id=-1, isolation_level=isolation, topics=topics)
            assert answer.topics[0].partitions[0].offset == end


@pytest.mark.parametrize("timestamp", [0, -3])
async def test_no_look_up_ends_behind_the_committed_records(timestamp: int) -> None:
    """By time, or of the newest one: a query that reads from there to the end would begin behind it."""
    async with asking() as asker:
        await filled(asker, [[]])
        shard, topic = asker.cluster.stream("/default").topic("sized")
        data = changed(build_batch([(b"k", b"")], producer_id=8, producer_epoch=0), attributes=TRANSACTIONAL)
        await shard.submit(appended(topic.number, 0, data))
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        for isolation, offset in ((0, 0), (1, -1)):
            topics = [{"name": "sized", "partitions": [asked]}]
            answer = await asker.ask(2, 7, replica_id=-1, isolation_level=isolation, topics=topics)
            assert (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].offset) == (0, offset)


async def test_a_reader_of_committed_records_is_woken_by_the_end_of_a_transaction() -> None:
    """It stands where the oldest open one began, and does not ask again and again."""
    async with asking() as asker:
        await filled(asker, [[]])
        shard, topic = asker.cluster.stream("/default").topic("sized")
        data = changed(build_batch([(b"k", b"")], producer_id=8, producer_epoch=0), attributes=TRANSACTIONAL)
        marker = build_batch([(b"\0\0\0\1", b"")], producer_id=8, producer_epoch=0, base_offset=1)
        marker = changed(marker, attributes=TRANSACTIONAL | CONTROL)

        await shard.submit(appended(topic.number, 0, data))
        waiting = asyncio.create_task(fetch(asker, [(0, 1000)], 1000, isolation_level=1))
        await asyncio.sleep(0)
        await shard.submit(appended(topic.number, 1, marker))
        (read,) = await waiting
        assert (read.last_stable_offset, size_of(read)) == (2, len(data) + len(marker))
