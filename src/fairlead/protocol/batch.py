"""Kafka's record batch, format v2: the header is read and checked, the records are only carried.

Layout (big-endian; Kafka `DefaultRecordBatch`, KIP-98), 61 bytes before the records:

    base offset int64 | length int32 (of what follows) | leader epoch int32 | magic int8 (2) | CRC-32C uint32
    | attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64
    | producer id int64 | producer epoch int16 | base sequence int32 | count int32

The CRC covers everything from the attributes on, so base offset and leader epoch are filled in without touching it.
Attributes: bits 0-2 compression, 3 timestamp type (1: LogAppendTime), 4 transactional, 5 control, 6 delete horizon.
No other module knows where in a batch a field lies.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import crc32c
import numpy as np
from numpy.typing import NDArray

from fairlead.model.errors import CorruptBatch, InvalidBatch
from fairlead.protocol import records as _records
from fairlead.protocol.records import Record

MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""The base timestamp says from when on tombstones may be removed; the records' deltas count from it all the same."""

NO_TIMESTAMP = -1
NO_PRODUCER = -1
NO_SEQUENCE = -1
NO_EPOCH = -1
_DELTA_MAX = 2**31 - 1

_FORMS = "qiibIhiqqqhii"
"""The fields of `BatchHeader`, as `struct` names their types."""


class BatchHeader(NamedTuple):
    """The 61 bytes as numbers; times are milliseconds since 1970."""

    base_offset: int
    length: int
    """Bytes after the length field; the whole batch has 12 more."""
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
        """Whether all records have the batch's max timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)


def _place(field: str) -> int:
    return struct.calcsize(">" + _FORMS[: BatchHeader._fields.index(field)])


_HEADER = struct.Struct(">" + _FORMS)
_EXTENT = struct.Struct(">" + _FORMS[: BatchHeader._fields.index("base_timestamp")])
_PREFIX = struct.Struct(">qii")
_PRODUCER = struct.Struct(">qhi")

HEADER_BYTES = _HEADER.size
EXTENT_BYTES = _EXTENT.size
HEADER_DTYPE = np.dtype([(name, f">{form}") for name, form in zip(BatchHeader._fields, _FORMS, strict=True)])
"""A header for numpy, with the field names of `BatchHeader`."""
LENGTH_END = _place("leader_epoch")
"""Bytes of a batch that its length field does not count."""
MAGIC_AT = _place("magic")
CRC_AT = _place("crc")
ATTRIBUTES_AT = _place("attributes")
CRC_FROM = _place("attributes")
"""The CRC covers the bytes from here to the end."""
PRODUCER_AT = _place("producer_id")
PRODUCER_END = _place("record_count")
"""The fields that name a producer and its sequence end here."""


class CheckedBatch(NamedTuple):
    """A batch that follows the rules for producers (`check_produced`): its header, read once, and its bytes."""

    header: BatchHeader
    data: bytes | memoryview


def read_header(batch: bytes | bytearray | memoryview) -> BatchHeader:
    """The header of the batch that the buffer begins with; only checks that all bytes of the header are there.

    Raises:
        CorruptBatch: fewer bytes are there.
    """
    try:
        return BatchHeader._make(_HEADER.unpack_from(batch))
    except struct.error:
        raise CorruptBatch(f"a record batch of {len(batch)} bytes is shorter than its header") from None


class Extent(NamedTuple):
    """As much of a header as says how far a batch reaches."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int


def extent_at(buffer: bytes | memoryview, place: int) -> Extent:
    """The same of the batch that begins there; only checks that these bytes are there.

    Raises:
        CorruptBatch: fewer bytes are there.
    """
    try:
        return Extent._make(_EXTENT.unpack_from(buffer, place))
    except struct.error:
        raise CorruptBatch(f"a record batch at byte {place} is cut within its header") from None


def magic_of(buffer: bytes | memoryview) -> int | None:
    """The format version of the records in `buffer`; None if it is too short to have one."""
    return buffer[MAGIC_AT] if len(buffer) > MAGIC_AT else None


def producer_of(batch: bytes | memoryview) -> tuple[int, int, int]:
    """(producer id, producer epoch, base sequence); the id is `NO_PRODUCER` where the batch names none."""
    found: tuple[int, int, int] = _PRODUCER.unpack_from(batch, PRODUCER_AT)
    return found


def names_producer(batch: bytes | memoryview) -> bool:
    """Whether it names a producer: ids are not negative, and this looks at the sign alone."""
    return batch[PRODUCER_AT] < 0x80


def producer_ids(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The producer id of each of the batches that begin at `starts` in `data`."""
    places = starts[:, None] + np.arange(PRODUCER_AT, _place("producer_epoch"))
    found: NDArray[np.int64] = data[places].view(">i8").ravel()
    return found


def headers_at(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.void]:
    """The headers of the batches that begin at `starts` in `data`, with the fields of `BatchHeader`."""
    found: NDArray[np.void] = data[starts[:, None] + np.arange(HEADER_BYTES)].view(HEADER_DTYPE).ravel()
    return found


def are_whole(headers: NDArray[np.void], sizes: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether batches of these sizes prove consistent as for `check_whole`, but for their CRCs."""
    count, delta = headers["record_count"], headers["last_offset_delta"]
    form = (headers["magic"] == MAGIC) & (headers["length"] == sizes.astype(np.int64) - LENGTH_END)
    counts = (delta >= 0) & (count >= 0) & (count <= delta.astype(np.int64) + 1)
    found: NDArray[np.bool_] = form & counts & (headers["attributes"] & CODEC_MASK < len(_records.CODECS))
    return found


def check_produced(batch: bytes | memoryview) -> CheckedBatch:
    """Exactly one batch of a producer, once everything that can be checked without opening it has been checked.

    Checked: magic 2, length, CRC-32C, at least one record, as many records as offsets and no more than fit into its
    bytes (or, compressed, into what is decompressed at most), a known codec, neither transactional nor control, no
    negative producer id but -1, and no negative sequence of a producer.

    Raises:
        CorruptBatch: magic, length or CRC is wrong.
        InvalidBatch: these are right, and something else does not hold; the message says what.
    """
    header = read_header(batch)
    damage = _fault_of_form(header, len(batch)) or _fault_of_crc(header, batch)
    if damage is not None:
        raise _corrupt(batch, damage)
    why = _fault_of_producer(header)
    if why is not None:
        raise InvalidBatch(_said(batch, why))
    return CheckedBatch(header, batch)


def check_stored(batch: bytes | memoryview, base_offset: int, last_offset: int) -> BatchHeader:
    """The header of exactly one batch of a log, once it proves consistent and has these offsets (inclusive).

    Checked: magic 2, length, CRC-32C, a known codec, no more records than offsets. A log may hold what no producer may
    send here: control batches, batches of transactions, and batches that compaction left with fewer records than
    offsets.

    Raises:
        CorruptBatch: one of these does not hold; the message says which.
    """
    header = check_whole(batch)
    if header.base_offset != base_offset or header.last_offset != last_offset:
        raise CorruptBatch("the offsets in the batch are not the row's")
    return header


def check_whole(batch: bytes | memoryview) -> BatchHeader:
    """The header of exactly one batch, once it proves consistent as for `check_stored`, whatever its offsets are.

    Raises:
        CorruptBatch: as there.
    """
    header = read_header(batch)
    why = (
        _fault_of_form(header, len(batch))
        or _fault_of_count(header)
        or _fault_of_codec(header)
        or _fault_of_crc(header, batch)
    )
    if why is not None:
        raise _corrupt(batch, why)
    return header


def _corrupt(batch: bytes | memoryview, why: str) -> CorruptBatch:
    return CorruptBatch(_said(batch, why))


def _said(batch: bytes | memoryview, why: str) -> str:
    return f"record batch of {len(batch)} bytes: {why}"


def _fault_of_form(header: BatchHeader, size_bytes: int) -> str | None:
    if header.magic != MAGIC:
        return f"format v{header.magic} is not served, only v2"
    if header.length + LENGTH_END != size_bytes:
        return f"its header says {header.size_bytes} bytes"
    return None


def _fault_of_producer(header: BatchHeader) -> str | None:
    if header.attributes & CODEC_MASK >= len(_records.CODECS):
        return _fault_of_codec(header)
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        return _count_and_offsets(header)
    if header.attributes & (TRANSACTIONAL | CONTROL):
        return "transactional and control batches are not served"
    producer_id = header.producer_id
    if producer_id < NO_PRODUCER:
        return f"no producer has the id {producer_id}"
    if producer_id != NO_PRODUCER and header.base_sequence < 0:
        return f"producer {producer_id} has no sequence {header.base_sequence}"
    room = _records.DECOMPRESSED_BYTES_MAX if header.codec else header.size_bytes - HEADER_BYTES
    if header.record_count * _records.RECORD_BYTES_MIN > room:
        return f"{header.record_count} records do not fit into it"
    return None


def _fault_of_count(header: BatchHeader) -> str | None:
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        return _count_and_offsets(header)
    return None


def _count_and_offsets(header: BatchHeader) -> str:
    return f"{header.record_count} records for {header.last_offset_delta + 1} offsets"


def _fault_of_codec(header: BatchHeader) -> str | None:
    if header.attributes & CODEC_MASK >= len(_records.CODECS):
        return f"compression codec {header.codec} is not known"
    return None


def _fault_of_crc(header: BatchHeader, batch: bytes | memoryview) -> str | None:
    if crc32c.crc32c(memoryview(batch)[CRC_FROM:]) != header.crc:
        return "its CRC-32C is wrong"
    return None


def set_offset(batch: bytes | bytearray | memoryview, base_offset: int, leader_epoch: int) -> bytes | memoryview:
    """The batch at its offset; both fields lie outside the CRC.

    Returns the same memory if it is a writable memoryview, else a copy; the result is read-only in both cases.
    """
    prefix = _PREFIX.pack(base_offset, len(batch) - LENGTH_END, leader_epoch)
    if isinstance(batch, memoryview) and not batch.readonly:
        batch[:MAGIC_AT] = prefix
        return batch.toreadonly()
    return b"".join((prefix, memoryview(batch)[MAGIC_AT:]))


def stamp_append_time(batch: CheckedBatch, append_time_ms: int) -> CheckedBatch:
    """A copy of the batch whose records all have `append_time_ms` as their time, with a new CRC (LogAppendTime)."""
    return _with(batch, attributes=batch.header.attributes | LOG_APPEND_TIME, max_timestamp=append_time_ms)


def with_max_timestamp(batch: CheckedBatch, max_timestamp: int) -> CheckedBatch:
    """A copy of the batch that says that this is the largest time of its records, with a new CRC."""
    return _with(batch, max_timestamp=max_timestamp)


def _with(batch: CheckedBatch, **fields: int) -> CheckedBatch:
    return CheckedBatch(*with_crc(batch.header._replace(**fields), memoryview(batch.data)[HEADER_BYTES:]))


def with_crc(header: BatchHeader, body: bytes | memoryview) -> tuple[BatchHeader, bytes]:
    """The header with the CRC that fits it and the records in `body`, and the whole batch."""
    header, head = head_of(header, body)
    return header, b"".join((head, body))


def head_of(header: BatchHeader, body: bytes | memoryview) -> tuple[BatchHeader, bytes]:
    """The header with the CRC that fits it and the records in `body`, and its bytes."""
    crc = crc32c.crc32c(body, crc32c.crc32c(_HEADER.pack(*header)[CRC_FROM:]))
    header = header._replace(crc=crc)
    return header, _HEADER.pack(*header)


def empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """A batch without records that covers [base_offset, last_offset], as compaction leaves them: served for a gap.

    If the gap has more than 2**31 offsets, the batch covers as many as it can; the reader asks again from there.
    """
    delta = min(last_offset - base_offset, _DELTA_MAX)
    times, producer = (NO_TIMESTAMP, NO_TIMESTAMP), (NO_PRODUCER, -1, NO_SEQUENCE)
    return _build(base_offset, leader_epoch, 0, delta, times, producer, 0, b"")


def records_of(batch: bytes | memoryview, header: BatchHeader | None = None) -> Iterator[Record]:
    """The records of one batch, with the times a consumer sees.

    Raises:
        CorruptBatch: they do not decompress or do not hold together.
    """
    head = header or read_header(batch)
    data = _records.decompress(head.codec, memoryview(batch)[HEADER_BYTES:])
    for record in _records.iterate(data, head.record_count, head.base_offset, head.base_timestamp):
        yield record._replace(timestamp=head.max_timestamp) if head.log_append_time else record


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
    """A batch of records, or of (key, value) pairs, which get offsets from `base_offset` and the time `timestamp_ms`.

    In a batch that is produced, Kafka's offsets count from 0. For tests and tools; the broker never builds a batch of a
    client's records.
    """
    whole = [_as_record(item, base_offset + i, timestamp_ms) for i, item in enumerate(records)]
    base_timestamp = whole[0].timestamp
    body = _records.compress(codec, _records.write_records(whole, base_offset, base_timestamp))
    times = (base_timestamp, max(record.timestamp for record in whole))
    producer = (producer_id, producer_epoch, base_sequence)
    delta = whole[-1].offset - base_offset
    return _build(base_offset, leader_epoch, attributes | codec, delta, times, producer, len(whole), body)


def is_abort(batch: bytes | memoryview) -> bool:
    """Whether a control batch ends a transaction by aborting it; for anybody else's it says nothing.

    Its one record has as its key two int16: a version, and what it says (`ControlRecordType`: 0 abort, 1 commit).
    """
    try:
        keys = [record.key for record in records_of(batch)]
    except CorruptBatch:
        return False
    return len(keys) == 1 and keys[0] is not None and bytes(keys[0][2:4]) == b"\0\0"


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
    header = BatchHeader(
        base_offset, length, leader_epoch, MAGIC, 0, attributes, last_offset_delta, *times, *producer, count
    )
    return with_crc(header, body)[1]
