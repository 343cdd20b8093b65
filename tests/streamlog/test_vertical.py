"""The log from end to end: create, produce, fetch, reopen, under asyncio too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.streamlog.world import committed
from tests.support.batches import produce

from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import OffsetOutOfRange
from fairlead.protocol.batch import build_batch, read_header
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.requests.cursors import commit_cursor
from fairlead.streamlog.requests.topics import create_topic
from fairlead.streamlog.writing.entries import put_entry
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.writer import ShardLog

STREAM = b"s" * 16


def opened(storage: MemoryStorage) -> ShardLog:
    return ShardLog.open(storage, "x", stream_id=STREAM, clock=SystemClock(), randomness=SystemRandomness())


def test_a_batch_is_read_at_its_offset_before_and_after_a_restart() -> None:
    """Create, produce, fetch from memory; reopen, fetch from disk."""
    storage = MemoryStorage()
    log = opened(storage)
    topic = committed(log, lambda d: create_topic(d, "ships", 2))[0].result()
    batch = build_batch([(b"k", b"v"), (None, b"w")])
    results = [a.result() for a in committed(log, *[lambda d: produce(d, topic.number, 1, batch)] * 3)]
    assert [r.base_offset for r in results] == [0, 2, 4]
    committed(log, lambda d: commit_cursor(d, "g", topic.number, 1, 3), lambda d: put_entry(d, "a", {"b": 1}))
    for reader in (log, opened(storage)):
        assert [read_header(b).base_offset for b in reader.reader.fetch(topic.number, 1, 2, 10_000).batches] == [2, 4]
        assert reader.announced.state.by_name("ships") == topic
        cursor = reader.announced.state.cursors("g", topic.number, 1).own
        assert cursor is not None
        assert cursor.offset == 3
        assert reader.announced.state.entries["a"] == {"b": 1}
        with pytest.raises(OffsetOutOfRange):
            reader.reader.fetch(topic.number, 1, 7, 10)


async def test_requests_of_many_callers_share_commits_and_watchers_are_told() -> None:
    """100 produce calls at once make a few commits; a watch of the partition wakes."""
    with ThreadPoolExecutor(2) as executor:
        import asyncio

        shard = await Shard.open(
            MemoryStorage(),
            "x",
            stream_id=STREAM,
            clock=SystemClock(),
            randomness=SystemRandomness(),
            executor=executor,
        )
        topic = await shard.submit(lambda d: create_topic(d, "ships"))
        batch = build_batch([(b"k", b"v")])
        heard: list[int] = []
        shard.add_listener(lambda announcement: heard.append(announcement.end))
        async with shard.watch(topic.number, 0) as watch:
            results = await asyncio.gather(
                *(shard.submit(lambda d: produce(d, topic.number, 0, batch), 10) for _ in range(100))
            )
            await watch.wait()
        assert sorted(r.base_offset for r in results) == list(range(100))
        assert len(heard) < 5
        fetched = shard.reader.fetch_cached(topic.number, 0, 90, 1000)
        assert fetched is not None
        assert fetched.high_watermark == 100
        await shard.close()
