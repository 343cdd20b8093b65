"""Kafka's record batch, format v2: the header is read and checked, the records are only carried.

Layout (big-endian; Kafka `DefaultRecordBatch`, KIP-98), 61 bytes before the records:

    base offset int64 | length int32 (of what follows) | leader epoch int32 | magic int8 (2) | CRC-32C uint32
    | attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64
    | producer id int64 | producer epoch int16 | base sequence int32 | count int32

The CRC covers everything from the attributes on, so base offset and leader epoch are filled in without touching it.
Attributes: bits 0-2 compression, 3 timestamp type (1: LogAppendTime), 4 transactional, 5 control, 6 delete horizon.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import crc32c

from fairlead.model.errors import CorruptBatch
from fairlead.protocol import records as _records
from fairlead.protocol.records import Record

HEADER_BYTES = 61
LENGTH_END = 12
"""Bytes of a batch that its length field does not count."""
MAGIC_AT = 16
CRC_FROM = 21
"""The CRC covers the bytes from here to the end."""
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

NO_TIMESTAMP = -1
NO_PRODUCER = -1
NO_SEQUENCE = -1
_DELTA_MAX = 2**31 - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qii")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35


class BatchHeader(NamedTuple):
    """The 61 bytes as numbers; times are milliseconds since 1970."""

    base_offset: int
    length: int
    """Bytes after the length field: the batch has 12 more."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Length of the whole batch."""
        return self.length + LENGTH_END

    @property
    def last_offset(self) -> int:
        """Offset of the last record; inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """Number of the compression codec; see `records.CODECS`."""
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Records have the batch's max timestamp as theirs."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def idempotent(self) -> bool:
        """The batch names a producer."""
        return self.producer_id != NO_PRODUCER


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`; nothing is checked but that 61 bytes are there.

    Raises:
        CorruptBatch: fewer bytes are there.
    """
    try:
        return BatchHeader._make(_HEADER.unpack_from(buffer, position))
    except struct.error:
        raise CorruptBatch(f"a record batch of {len(buffer) - position} bytes is shorter than its header") from None


def magic_of(buffer: bytes | memoryview) -> int | None:
    """The format version of the records in `buffer`; None if it is too short to have one."""
    return buffer[MAGIC_AT] if len(buffer) > MAGIC_AT else None


def check(batch: bytes | bytearray | memoryview) -> BatchHeader:
    """The header of exactly one batch, once all that can be checked without opening it holds.

    Checked: magic 2, length, CRC-32C, at least one record, as many records as offsets, a known codec, neither
    transactional nor control.

    Raises:
        CorruptBatch: one of these does not hold; the message says which.
    """
    header = read_header(batch)
    why = _fault(header, len(batch))
    if why is None and _crc_of(batch) != header.crc:
        why = "its CRC-32C is wrong"
    if why is not None:
        raise CorruptBatch(f"record batch of {len(batch)} bytes: {why}")
    return header


def _fault(header: BatchHeader, size_bytes: int) -> str | None:
    if header.magic != MAGIC:
        return f"format v{header.magic} is not served, only v2"
    if header.size_bytes != size_bytes:
        return f"its header says {header.size_bytes} bytes"
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        return f"{header.record_count} records for {header.last_offset_delta + 1} offsets"
    if header.attributes & (TRANSACTIONAL | CONTROL):
        return "transactional and control batches are not served"
    if header.codec >= len(_records.CODECS):
        return f"compression codec {header.codec} is not known"
    return None


def _crc_of(batch: bytes | bytearray | memoryview) -> int:
    return int(crc32c.crc32c(memoryview(batch)[CRC_FROM:]))


def set_offset(batch: bytes | bytearray | memoryview, base_offset: int, leader_epoch: int) -> bytes | memoryview:
    """The batch at its offset; both fields lie outside the CRC.

    The same memory, if it is a memoryview that may be written, else a copy; in both cases none that can be written.
    """
    prefix = _PREFIX.pack(base_offset, len(batch) - LENGTH_END, leader_epoch)
    if isinstance(batch, memoryview) and not batch.readonly:
        batch[:MAGIC_AT] = prefix
        return batch.toreadonly()
    return b"".join((prefix, memoryview(batch)[MAGIC_AT:]))


def stamp_append_time(batch: bytes | bytearray | memoryview, append_time_ms: int) -> bytes:
    """A copy of the batch whose records all have `append_time_ms` as their time, with a new CRC (LogAppendTime)."""
    out = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(out, CRC_FROM)
    _ATTRIBUTES.pack_into(out, CRC_FROM, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(out, _MAX_TIMESTAMP_AT, append_time_ms)
    _CRC.pack_into(out, CRC_FROM - 4, _crc_of(out))
    return bytes(out)


def empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """A batch without records that covers [base_offset, last_offset], as compaction leaves them: served for a gap.

    A gap of more than 2**31 offsets is covered by as many as one batch can; the reader asks again from there.
    """
    delta = min(last_offset - base_offset, _DELTA_MAX)
    return _build(
        base_offset, leader_epoch, 0, delta, (NO_TIMESTAMP, NO_TIMESTAMP), (NO_PRODUCER, -1, NO_SEQUENCE), 0, b""
    )


def split_batches(data: bytes | memoryview) -> list[memoryview]:
    """The batches that lie one after the other in `data`, by their length fields.

    Raises:
        CorruptBatch: the last one is cut, or a length is impossible.
    """
    view = memoryview(data)
    found: list[memoryview] = []
    position = 0
    while position < len(view):
        if position + LENGTH_END > len(view):
            raise CorruptBatch("a record batch is cut in its header")
        (length,) = _LENGTH.unpack_from(view, position + 8)
        end = position + LENGTH_END + length
        if length < 0 or end > len(view):
            raise CorruptBatch(f"a record batch of {length} bytes is cut")
        found.append(view[position:end])
        position = end
    return found


def records_of(batch: bytes | memoryview, header: BatchHeader | None = None) -> Iterator[Record]:
    """The records of one batch, with the times a consumer sees.

    Raises:
        CorruptBatch: they do not decompress or do not hold together.
    """
    head = header or read_header(batch)
    data = _records.decompress(head.codec, memoryview(batch)[HEADER_BYTES:])
    for record in _records.iterate(data, head.record_count, head.base_offset, head.base_timestamp):
        yield record._replace(timestamp=head.max_timestamp) if head.log_append_time else record


def first_at_or_after(batch: bytes | memoryview, timestamp_ms: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record of the batch with at least that time; None if all are older.

    Raises:
        CorruptBatch: the records do not hold together.
    """
    for record in records_of(batch):
        if record.timestamp >= timestamp_ms:
            return record.offset, record.timestamp
    return None


def build_batch(
    records: Sequence[Record | tuple[bytes | None, bytes | None]],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    codec: int = 0,
    timestamp_ms: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
) -> bytes:
    """A batch of records, or of (key, value) pairs which get offsets from `base_offset` and the time `timestamp_ms`.

    Kafka's offsets inside a batch that is produced count from 0. For tests, tools and the look of things; the
    broker never builds a batch of a client's records.
    """
    whole = [_as_record(item, base_offset + i, timestamp_ms) for i, item in enumerate(records)]
    base_timestamp = whole[0].timestamp
    body = _records.compress(codec, _records.write_records(whole, base_offset, base_timestamp))
    times = (base_timestamp, max(record.timestamp for record in whole))
    producer = (producer_id, producer_epoch, base_sequence)
    delta = whole[-1].offset - base_offset
    return _build(base_offset, leader_epoch, attributes | codec, delta, times, producer, len(whole), body)


def _as_record(item: Record | tuple[bytes | None, bytes | None], offset: int, timestamp_ms: int) -> Record:
    if isinstance(item, Record):
        return item
    key, value = item
    return Record(offset, timestamp_ms, key, value)


def _build(
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    times: tuple[int, int],
    producer: tuple[int, int, int],
    count: int,
    body: bytes,
) -> bytes:
    length = HEADER_BYTES - LENGTH_END + len(body)
    header = _HEADER.pack(
        base_offset, length, leader_epoch, MAGIC, 0, attributes, last_offset_delta, *times, *producer, count
    )
    out = bytearray(header + body)
    _CRC.pack_into(out, CRC_FROM - 4, _crc_of(out))
    return bytes(out)
