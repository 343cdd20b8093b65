"""Batches of an answer of a Kafka broker → rows of a frame.

Control batches and the bits of transactions stay as they are, so that offsets, ends and checksums are Kafka's; only
aborted records are left out. A row says that it follows the row before it in this grant: so holes that compaction or
aborted records leave are none for the replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fairlead.kafka.fetching.aborted import AbortedData
from fairlead.model.errors import CorruptBatch
from fairlead.model.limits import COMMIT_BYTES_MAX
from fairlead.protocol.batch import (
    CONTROL,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    BatchHeader,
    check_whole,
    is_abort,
    read_header,
)
from fairlead.streamlog import payloads
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.rows import ABORT, ATTRIBUTES_MASK, NO_COMMIT, NO_EPOCH, NO_OFFSET, Kind, Row
from fairlead.wire.control import KafkaPartition

NOT_KEPT: Final = "kafka-retention"
"""Reason of a gap: Kafka had deleted these records before they could be read."""


class At(NamedTuple):
    """How far a partition has been sent."""

    end: int
    epoch: int
    """Leader epoch of the record before; -1: there is none."""


class Unreadable(CorruptBatch):
    """What the broker sends cannot be kept as it is."""


def batches_of(
    records: memoryview, position: int, aborted: Sequence[tuple[int, int]]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of an answer that reach `position` or beyond, without aborted records.

    Raises:
        Unreadable: one is of a format that is not kept, too large, or not as it was written.
    """
    dropped, place = AbortedData(aborted), 0
    while len(records) - place > MAGIC_AT:
        if records[place + MAGIC_AT] != MAGIC:
            version = records[place + MAGIC_AT]
            raise Unreadable(f"its records are in format v{version}, and only v2 can be kept byte for byte")
        if len(records) - place < HEADER_BYTES:
            return
        header = read_header(records[place : place + HEADER_BYTES])
        end = place + header.size_bytes
        if header.size_bytes < HEADER_BYTES:
            raise Unreadable(f"a batch at offset {header.base_offset} says that it has {header.size_bytes} bytes")
        if end > len(records):
            return
        if header.leader_epoch < 0:
            raise Unreadable(f"the batch at offset {header.base_offset} has no leader epoch")
        batch, place = records[place:end], end
        _check(header, batch)
        if not dropped.has(header, batch) and header.last_offset >= position:
            yield header, batch


def _check(header: BatchHeader, batch: memoryview) -> None:
    """Raises: Unreadable: the replica would refuse it, and all that is read beside it, each time that it comes."""
    if len(batch) > COMMIT_BYTES_MAX:
        size = f"has {len(batch):,} bytes, and at most {COMMIT_BYTES_MAX:,} can be kept"
        raise Unreadable(f"the batch at offset {header.base_offset} {size}")
    try:
        check_whole(batch)
    except CorruptBatch as error:
        raise Unreadable(f"the batch at offset {header.base_offset} is damaged in Kafka: {error}") from None


def row_of(origin: bytes, of: KafkaPartition, at: At, header: BatchHeader, batch: memoryview) -> Row:
    """The row of a batch that follows what was sent so far."""
    bits = header.attributes & ATTRIBUTES_MASK
    if bits & CONTROL and is_abort(batch):
        bits |= ABORT
    return Row(
        kind=int(Kind.BATCH),
        topic=of.number,
        partition=of.partition,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        epoch=header.leader_epoch,
        previous_end=at.end,
        previous_epoch=at.epoch,
        origin=origin,
        via=None,
        via_commit=NO_COMMIT,
        appended_at=0,
        max_timestamp=header.max_timestamp,
        records=header.record_count,
        bits=bits,
        crc=header.crc,
        commit=0,
        row=0,
        batch=batch,
    )


def start_of(origin: bytes, of: KafkaPartition, at: At, start: int, deleted_to: int) -> Row:
    """The row that says that the partition begins at `start`, or that what lies before it never came; and that records
    below `deleted_to`, which may lie within the batch that follows, are there no more."""
    gap = at.end if 0 < at.end < start else None
    history = ((at.epoch, 0),) if at.epoch >= 0 else ()
    log_end = min(max(start, deleted_to), OFFSET_MAX)
    reason = payloads.BEGINS_HERE if gap is None else NOT_KEPT
    payload = payloads.encode(StartPayload(reason, log_end, history, gap, deleted_to, of.topic_epoch))
    return Row(
        kind=int(Kind.START),
        topic=of.number,
        partition=of.partition,
        base_offset=start,
        last_offset=NO_OFFSET,
        epoch=NO_EPOCH,
        previous_end=NO_OFFSET,
        previous_epoch=NO_EPOCH,
        origin=origin,
        via=None,
        via_commit=NO_COMMIT,
        appended_at=0,
        max_timestamp=NO_TIMESTAMP,
        records=0,
        bits=0,
        crc=0,
        commit=0,
        row=0,
        batch=payload,
    )
