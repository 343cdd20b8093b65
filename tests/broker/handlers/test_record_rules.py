"""What a topic demands of each record that is produced to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, asking, topic_id, versions
from tests.support.batches import bomb, changed

from fairlead.protocol import record_checks
from fairlead.protocol.batch import HEADER_BYTES, LENGTH_END, MAGIC_AT, build_batch
from fairlead.protocol.records import Record, pieces

PRODUCE = 0
Pair = tuple[bytes | None, bytes | None]
KEYED: Pair = (b"k", b"v")
KEYLESS: Pair = (None, b"v")


async def produce(asker: Asker, batch: bytes, version: int = 12, topic: str = "a") -> Any:
    named = {"topic_id": UUID(bytes=topic_id(asker.cluster.stream("/default"), topic))}
    data = [{"name": topic, **named, "partition_data": [{"index": 1, "records": batch}]}]
    answer = await asker.ask(
        PRODUCE, version, transactional_id=None, acks=-1, timeout=timedelta(seconds=1), topic_data=data
    )
    return answer.responses[0].partition_responses[0]


async def configure(asker: Asker, **settings: str) -> None:
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    await asker.cluster.stream("/default").set_configs("a", configs)


def batch_at(*times_ms: int) -> bytes:
    return build_batch([Record(place, time_ms, b"k", b"v") for place, time_ms in enumerate(times_ms)])


def held(asker: Asker) -> int:
    shard, topic = asker.cluster.stream("/default").topic("a")
    return shard.state.partition(topic.number, 1).end


@pytest.mark.parametrize("version", versions(PRODUCE))
@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete, compact"])
async def test_a_record_without_key_is_refused_in_a_compacted_topic(version: int, policy: str) -> None:
    """Compaction could not say which records it replaces. As in Kafka the batch is refused, naming the records."""
    async with asking() as asker:
        await configure(asker, cleanup_policy=policy)
        refused = await produce(asker, build_batch([KEYED, KEYLESS, KEYED, KEYLESS]), version)
        assert (refused.error_code, refused.base_offset, held(asker)) == (ErrorCode.invalid_record, -1, 0)
        if version >= 8:
            why = "Compacted topic cannot accept message without key in topic partition a-1."
            errors = [(each.batch_index, each.batch_index_error_message) for each in refused.record_errors]
            assert errors == [(1, why), (3, why)]
            assert refused.error_message == (
                "One or more records have been rejected due to 2 record errors in total, and only showing the first "
                f"three errors at most: [RecordError(batchIndex=1, message='{why}'), "
                f"RecordError(batchIndex=3, message='{why}')]"
            )
        assert (await produce(asker, build_batch([KEYED, (b"", None)]), version)).error_code is ErrorCode.none
        assert held(asker) == 2


async def test_a_topic_that_is_not_compacted_takes_any_record() -> None:
    async with asking() as asker:
        assert (await produce(asker, build_batch([KEYLESS]))).error_code is ErrorCode.none


@pytest.mark.parametrize("codec", range(5))
async def test_a_batch_is_not_opened_where_nothing_asks_for_it(codec: int) -> None:
    """Whatever is in it; any limit for times has it opened, and it is found out."""
    head = build_batch([KEYED], codec=codec)[:HEADER_BYTES]
    body = b"\xff" * 60
    broken = changed(head + body, length=HEADER_BYTES - LENGTH_END + len(body))
    async with asking() as asker:
        assert (await produce(asker, broken)).error_code is ErrorCode.none
        await configure(asker, message_timestamp_before_max_ms=str(2**63 - 1))
        assert (await produce(asker, broken)).error_code is ErrorCode.invalid_record
        assert held(asker) == 1


@pytest.mark.parametrize("codec", range(5))
async def test_a_long_batch_is_looked_through_too(codec: int) -> None:
    """On a thread, of any compression; the requests of a connection keep their order, so the next one waits."""
    async with asking() as asker:
        await configure(asker, cleanup_policy="compact")
        pairs: list[Pair] = [(b"key", b"v" * 40)] * 2000
        refused = await produce(asker, build_batch([*pairs, KEYLESS], codec=codec))
        assert (refused.error_code, len(refused.record_errors)) == (ErrorCode.invalid_record, 1)
        assert refused.record_errors[0].batch_index == 2000
        assert (await produce(asker, build_batch(pairs, codec=codec))).error_code is ErrorCode.none
        assert held(asker) == 2000


async def test_a_bomb_is_not_looked_through() -> None:
    """What decompresses to far more than the server's largest batch is refused as too large, so that Java's client
    sends less at once; an answer names a thousand records."""
    async with asking(message_bytes_max=1_000_000) as asker:
        await configure(asker, cleanup_policy="compact")
        assert (await produce(asker, bomb(1_000_000))).error_code is ErrorCode.message_too_large
        refused = await produce(asker, bomb(5_000))
        assert (refused.error_code, len(refused.record_errors)) == (ErrorCode.invalid_record, 1000)
        assert " 5000 record errors" in refused.error_message


@pytest.mark.parametrize("codec", range(1, 5))
async def test_the_loop_decompresses_little(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch of a few KB that has megabytes in it; the rest is done on a thread. Small ones need none."""
    on_loop = 0

    def counted(*arguments: Any) -> Iterator[bytes | memoryview]:
        nonlocal on_loop
        for piece in pieces(*arguments):
            if threading.current_thread() is threading.main_thread():
                on_loop += len(piece)
            yield piece

    monkeypatch.setattr(record_checks, "pieces", counted)
    async with asking() as asker:
        await configure(asker, cleanup_policy="compact")
        for value_bytes in (2_000_000, 300_000):
            assert (await produce(asker, build_batch([(b"k", bytes(value_bytes))], codec=codec))).error_code == 0
        assert on_loop <= 2 * 128 * 1024
        on_loop = 0
        assert (await produce(asker, build_batch([(b"k", bytes(10_000))], codec=codec))).error_code == 0
        assert on_loop > 10_000


async def test_records_that_do_not_hold_together_are_refused() -> None:
    """The header may promise more than there is. To send them again does not help."""
    async with asking() as asker:
        await configure(asker, cleanup_policy="compact")
        promised = changed(build_batch([KEYED]), record_count=2, last_offset_delta=1)
        assert (await produce(asker, promised)).error_code is ErrorCode.invalid_record
        unpacked = changed(build_batch([KEYED], codec=1)[:-1] + b"x")
        assert (await produce(asker, unpacked)).error_code is ErrorCode.invalid_record


@pytest.mark.parametrize(
    ("setting", "ahead_ms", "code"),
    [
        ("message_timestamp_before_max_ms", -50_000, ErrorCode.none),
        ("message_timestamp_before_max_ms", -200_000, ErrorCode.invalid_timestamp),
        ("message_timestamp_before_max_ms", 200_000, ErrorCode.none),
        ("message_timestamp_after_max_ms", 50_000, ErrorCode.none),
        ("message_timestamp_after_max_ms", 200_000, ErrorCode.invalid_timestamp),
        ("message_timestamp_after_max_ms", -200_000, ErrorCode.none),
    ],
)
async def test_a_time_too_far_away_is_refused(setting: str, ahead_ms: int, code: ErrorCode) -> None:
    """INVALID_TIMESTAMP, naming the record; with LogAppendTime the producer's times do not count."""
    async with asking() as asker:
        await configure(asker, **{setting: "100000"})
        now_ms = asker.cluster.stream("/default").shards[0].now_ms
        batch = batch_at(now_ms, now_ms + ahead_ms)
        answer = await produce(asker, batch)
        assert answer.error_code is code
        if code is not ErrorCode.none:
            assert [each.batch_index for each in answer.record_errors] == [1]
            assert str(now_ms + ahead_ms) in answer.record_errors[0].batch_index_error_message
            assert "invalid timestamp" in answer.error_message
        await configure(asker, message_timestamp_type="LogAppendTime")
        assert (await produce(asker, batch)).error_code is ErrorCode.none


async def test_a_topic_has_its_own_largest_batch() -> None:
    """`max.message.bytes`: MESSAGE_TOO_LARGE above it, and never above the server's."""
    async with asking(message_bytes_max=200_000) as asker:
        batch = build_batch([(b"k", b"v" * 1000)])
        await configure(asker, max_message_bytes=str(len(batch) - 1))
        assert (await produce(asker, batch)).error_code is ErrorCode.message_too_large
        await configure(asker, max_message_bytes=str(len(batch)))
        assert (await produce(asker, batch)).error_code is ErrorCode.none
        await configure(asker, max_message_bytes="300000")
        large = build_batch([(b"k", b"v" * 250_000)])
        assert (await produce(asker, large)).error_code is ErrorCode.message_too_large


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("records", [3, 1000])
async def test_a_batch_that_leaves_out_its_largest_time_gets_it(codec: int, records: int) -> None:
    """Some clients do; it is found by time then, as in Kafka. Records are as they were produced, and a long batch is
    looked through on a thread."""
    async with asking() as asker:
        times = [1000, 3000, 2000, *[1000] * (records - 3)]
        whole = build_batch([Record(at, time, b"k", bytes(40)) for at, time in enumerate(times)], codec=codec)
        for left_out in (-1, 999):
            assert (await produce(asker, changed(whole, max_timestamp=left_out))).error_code is ErrorCode.none
        shard, topic = asker.cluster.stream("/default").topic("a")
        for at, stored in enumerate(shard.reader.fetch(topic.number, 1, 0, 2**20).batches):
            assert bytes(stored)[MAGIC_AT:] == whole[MAGIC_AT:], at
        asked = [{"partition_index": 1, "current_leader_epoch": -1, "timestamp": when} for when in (1000, 1001, 3001)]
        answer = await asker.ask(2, 5, replica_id=-1, isolation_level=0, topics=[{"name": "a", "partitions": asked}])
        found = [(each.offset, each.timestamp) for each in answer.topics[0].partitions]
        assert [offset for offset, _ in found] == [0, 1, -1]


async def test_a_batch_without_times_is_not_opened() -> None:
    """Neither are those whose topic gives the times, whatever their headers say."""
    async with asking() as asker:
        whole = build_batch([(b"k", bytes(40))])
        broken = changed(whole, record_count=2, last_offset_delta=1, base_timestamp=-1, max_timestamp=-1)
        assert (await produce(asker, broken)).error_code is ErrorCode.none
        await configure(asker, message_timestamp_type="LogAppendTime")
        assert (await produce(asker, changed(broken, base_timestamp=5))).error_code is ErrorCode.none


async def test_log_append_time_is_set_once_by_the_owner() -> None:
    """The bit, the largest time and the CRC; the records are as they were produced."""
    async with asking() as asker:
        await configure(asker, message_timestamp_type="LogAppendTime")
        batch = batch_at(1, 2)
        answers = await asyncio.gather(produce(asker, batch), produce(asker, batch))
        shard, topic = asker.cluster.stream("/default").topic("a")
        stored = shard.reader.fetch(topic.number, 1, 0, 2**20).batches
        for answer, data in zip(answers, stored, strict=True):
            assert answer.log_append_time is not None
            assert bytes(data)[61:] == batch[61:]
            assert bytes(data)[:61] != batch[:61]
