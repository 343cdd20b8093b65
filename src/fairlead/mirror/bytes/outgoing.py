"""A batch for the destination, and what could not become one."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.protocol.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    BatchHeader,
    head_of,
)
from fairlead.protocol.heads import for_another_log, with_producer


class How(StrEnum):
    """What was done to a batch."""

    RAW = "raw"
    """Its records went as they were."""
    REBUILT = "rebuilt"
    """It had holes, an append time, or records before the first one asked for."""
    MERGED = "merged"
    SPLIT = "split"
    REPARTITIONED = "repartitioned"


class Outgoing(NamedTuple):
    """A batch of one partition, with offsets from 0 on and no producer."""

    head: bytes
    """Its first 61 bytes."""
    body: bytes | memoryview
    records: int
    first_offset: int
    """The source's, of its first record."""
    last_offset: int
    """The last of the source's offsets that the batch settles: its last record, or a hole behind it."""
    max_timestamp: int
    how: How
    mixed: bool = False
    """Its records are of any of these offsets, and so are those of other batches that are sent with it: a function of
    the user's has put them in another order."""

    @property
    def size_bytes(self) -> int:
        """Of the whole batch."""
        return len(self.head) + len(self.body)

    @property
    def pieces(self) -> list[bytes | memoryview]:
        """The batch, to be sent one after the other."""
        return [self.head, self.body]

    def of_producer(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
    ) -> bytes:
        """The head for the batch as this producer sends it; the records are not read for it."""
        return with_producer(
            self.head, len(self.body), producer_id, producer_epoch, base_sequence, transactional=transactional
        )


class Refused(NamedTuple):
    """Records that cannot be sent."""

    first_offset: int
    last_offset: int
    why: str


class Rewritten(NamedTuple):
    """What became of batches; both lists are in order of offsets, and no batch spans what was refused."""

    outgoing: list[Outgoing]
    refused: list[Refused]


def as_it_is(batch: SourceBatch) -> Outgoing:
    """The batch with its records untouched: no offset, epoch, producer, transaction or delete horizon in its head."""
    header, data, _ = batch
    head = for_another_log(header, data)
    last = header.last_offset
    return Outgoing(
        head, data[HEADER_BYTES:], header.record_count, header.base_offset, last, header.max_timestamp, How.RAW
    )


def of_body(
    body: bytes | memoryview,
    *,
    codec: int,
    records: int,
    base_time: int,
    max_time: int,
    first_offset: int,
    last_offset: int,
    how: How,
) -> Outgoing:
    """A batch with a head of its own before records whose offsets count from 0."""
    length = HEADER_BYTES - LENGTH_END + len(body)
    times, producer = (base_time, max_time), (NO_PRODUCER, -1, NO_SEQUENCE)
    header = BatchHeader(0, length, -1, MAGIC, 0, codec, records - 1, *times, *producer, records)
    return Outgoing(head_of(header, body)[1], body, records, first_offset, last_offset, max_time, how)


def refused_batch(batch: SourceBatch, why: str) -> Refused:
    """The refusal of a whole batch."""
    header = batch.header
    return Refused(header.base_offset, header.last_offset, f"offset {header.base_offset}: {why}")


def too_large(offset: int, size: int, limits: Limits) -> str:
    """Why a record is refused that would be a batch of `size` bytes by itself."""
    return (
        f"offset {offset}: one record makes a batch of {size:,} bytes, the destination takes "
        f"{limits.message_bytes_max:,}; raise its max.message.bytes"
    )
