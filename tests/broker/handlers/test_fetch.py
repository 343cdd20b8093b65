"""Fetch: how much an answer holds (KIP-74)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.handlers.asking import Asker, asking
from tests.support.batches import produced_to

from fairlead.protocol.batch import build_batch

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


async def fetch(asker: Asker, asked: Sequence[tuple[int, int]], max_bytes: int, min_bytes: int = 1) -> list[Any]:
    """Partitions 0 to n of the topic from an offset on, each with its own limit."""
    parts = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": limit}
        for index, (offset, limit) in enumerate(asked)
    ]
    answer = await asker.ask(
        FETCH,
        11,
        replica_id=-1,
        max_wait=timedelta(seconds=20),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        session_epoch=-1,
        topics=[{"topic": "sized", "partitions": parts}],
        forgotten_topics_data=[],
    )
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
