"""Batches on their way into a log, checked as the broker checks them, and headers with other values."""

from __future__ import annotations

from typing import Any

from fairlead.protocol.batch import HEADER_BYTES, LENGTH_END, build_batch, check_produced, read_header, with_crc
from fairlead.protocol.records import compress
from fairlead.streamlog.requests import produce as producing
from fairlead.streamlog.requests.produce import ProduceResult
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard


def produce(draft: Draft, number: int, partition: int, batch: bytes | memoryview) -> ProduceResult:
    """Append a producer's batch."""
    return producing.produce(draft, number, partition, check_produced(batch))


async def produced_to(shard: Shard, number: int, partition: int, batch: bytes) -> ProduceResult:
    """Append a producer's batch to a topic of the shard, in a commit."""
    return await shard.submit(lambda draft: produce(draft, number, partition, batch), len(batch))


def changed(batch: bytes, **fields: Any) -> bytes:
    """The batch with other values in fields of its header, and the CRC that fits them."""
    return with_crc(read_header(batch)._replace(**fields), batch[HEADER_BYTES:])[1]


def bomb(records: int, *, max_timestamp: int = 0) -> bytes:
    """A batch of that many smallest records of time 0, compressed to a thousandth; its header may say another time."""
    body = compress(4, b"\x0c\x00\x00\x00\x01\x01\x00" * records)
    head = build_batch([(None, None)], codec=4)[:HEADER_BYTES]
    return changed(
        head + body,
        length=HEADER_BYTES - LENGTH_END + len(body),
        last_offset_delta=records - 1,
        record_count=records,
        max_timestamp=max_timestamp,
    )
