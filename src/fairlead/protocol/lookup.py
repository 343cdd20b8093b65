"""Looking for one record of a batch by its time or offset, without holding what is decompressed.

In: a batch of any client, perhaps a bomb. Out: the record's offset and time. Always true: no more is decompressed than
the caller's `Room` allows. `record_heads.py` says how it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import HEADER_BYTES, read_header
from fairlead.protocol.record_heads import HEAD_BYTES_MAX, PIECE_BYTES, RECORDS_BETWEEN_RESTS, padded
from fairlead.protocol.records import RECORD_BYTES_MIN, pieces, read_varint

_TIMES = 2**63


@dataclass(slots=True)
class Room:
    """What one look-up may still decompress and look at, in however many batches."""

    left_bytes: int
    left_records: int


def first_record(
    batch: bytes | memoryview,
    room: Room,
    rest: Callable[[], None],
    *,
    timestamp_ms: int | None = None,
    from_offset: int = 0,
) -> tuple[int, int] | None:
    """(offset, timestamp) of the batch's first record at or after `from_offset`, and, if it is given, with at least
    that time; None if there is none.

    Raises:
        CorruptBatch: the records do not hold together, or are more than there is room for.
    """
    head = read_header(batch)
    time_delta = None
    if timestamp_ms is not None and head.log_append_time:
        if head.max_timestamp < timestamp_ms:
            return None
    elif timestamp_ms is not None:
        time_delta = timestamp_ms - head.base_timestamp
    found = _search(
        _counted(pieces(head.codec, memoryview(batch)[HEADER_BYTES:], room.left_bytes, PIECE_BYTES), room),
        head.record_count,
        room,
        rest,
        time_delta,
        from_offset - head.base_offset,
    )
    if found is None:
        return None
    offset, time = found[0], head.max_timestamp if head.log_append_time else head.base_timestamp + found[1]
    if not 0 <= offset <= head.last_offset_delta or not -_TIMES <= time < _TIMES:
        raise CorruptBatch("a record's offset or time lies outside its batch")
    return head.base_offset + offset, time


def _counted(found: Iterator[bytes | memoryview], room: Room) -> Iterator[bytes | memoryview]:
    for piece in found:
        room.left_bytes -= len(piece)
        yield piece


def _search(
    found: Iterator[bytes | memoryview],
    count: int,
    room: Room,
    rest: Callable[[], None],
    time_delta: int | None,
    offset_delta: int,
) -> tuple[int, int] | None:
    """(offset delta, time delta) of the first of `count` records with at least these deltas."""
    data = b""
    at = 0
    for piece in padded(found):
        data, at = (data[at:] + piece, 0) if at < len(data) else (bytes(piece), at - len(data))
        end = len(data) - HEAD_BYTES_MAX
        while at < end and count:
            at, time, offset = _head(data, at)
            if offset >= offset_delta and (time_delta is None or time >= time_delta):
                return offset, time
            count -= 1
            if not count % RECORDS_BETWEEN_RESTS:
                room.left_records -= RECORDS_BETWEEN_RESTS
                if room.left_records < 0:
                    raise CorruptBatch("more records than one look-up looks at")
                rest()
        if not count:
            return None
    raise CorruptBatch(f"{count} records of a batch are missing")


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """Where the record behind the one at `at` begins, and the deltas of this one: time and offset.

    Nearly all of these varints have one byte, which is read here: half the time of a look-up.
    """
    length = data[at]
    if length < 0x80:
        at, length = at + 1, (length >> 1) ^ -(length & 1)
    else:
        length, at = read_varint(data, at)
    end = at + length
    if length < RECORD_BYTES_MIN - 1:
        raise CorruptBatch("a record is cut")
    at += 1
    time = data[at]
    if time < 0x80:
        at, time = at + 1, (time >> 1) ^ -(time & 1)
    else:
        time, at = read_varint(data, at)
    offset = data[at]
    if offset < 0x80:
        return end, time, (offset >> 1) ^ -(offset & 1)
    return end, time, read_varint(data, at)[0]
