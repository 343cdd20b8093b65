"""What the reader of a worker tells its sink, in rows: which partitions, ranges to fetch, tails that it has fetched.

Each is a packet. Integers are little endian: kind (uint8), number (uint32), then

    OPEN    JSON of source and load        a partition, before anything else of it
    AHEAD   until (int64)                  fetch up to there, from where the row before ended
    TAIL    from, until, end (int64), count of aborted transactions (uint32), producer id and first offset of each
            (int64), then batches as they were fetched
    CLOSE                                  nothing more comes of it

Ranges are what 0011 calls a reference: the sink fetches what they name.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from fairlead.mirror.carrying.engine import Load
from fairlead.model.conversation import read
from fairlead.model.strict_json import JsonForm
from fairlead.spark.packets import Packet

ADDRESS: Final = "fairlead mirror".ljust(256)
"""Of all packets: they have one way. Its length makes any row larger than what the JVM's buffer holds back."""
_HEAD: Final = struct.Struct("<BI")
_AHEAD: Final = struct.Struct("<q")
_TAIL: Final = struct.Struct("<qqqI")
_ABORTED: Final = struct.Struct("<qq")


class _Kind(IntEnum):
    OPEN = 1
    AHEAD = 2
    TAIL = 3
    CLOSE = 4


@dataclass(frozen=True, slots=True)
class Open:
    """A partition that is to be carried."""

    number: int
    source: int
    load: Load


@dataclass(frozen=True, slots=True)
class Ahead:
    """A range: from the end of the row before up to `until`."""

    number: int
    until: int


@dataclass(frozen=True, slots=True)
class Tail:
    """What was fetched of a partition from `start` on; it holds everything below `until`."""

    number: int
    start: int
    until: int
    end: int
    """Last stable offset of the source's partition."""
    aborted: Sequence[tuple[int, int]]
    records: memoryview


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing more comes of a partition."""

    number: int


Row = Open | Ahead | Tail | Close


@dataclass(frozen=True, slots=True)
class _Opened:
    source: int
    load: Load


_OPENED: Final = JsonForm(_Opened, unknown="forbid")


def packet_of(row: Row) -> Packet:
    """A row on its way."""
    if isinstance(row, Open):
        data = _HEAD.pack(_Kind.OPEN, row.number) + _OPENED.write(_Opened(row.source, row.load))
    elif isinstance(row, Ahead):
        data = _HEAD.pack(_Kind.AHEAD, row.number) + _AHEAD.pack(row.until)
        return Packet(ADDRESS, data, len(data), referred=True)
    elif isinstance(row, Tail):
        head = _HEAD.pack(_Kind.TAIL, row.number) + _TAIL.pack(row.start, row.until, row.end, len(row.aborted))
        data = b"".join((head, *(_ABORTED.pack(*each) for each in row.aborted), row.records))
    else:
        data = _HEAD.pack(_Kind.CLOSE, row.number)
    return Packet(ADDRESS, data, len(data))


def row_of(packet: Packet) -> Row:
    """The inverse. The records of a tail are a view."""
    data = memoryview(packet.data).cast("B")  # Arrow's buffers have signed bytes
    kind, number = _HEAD.unpack_from(data)
    at = _HEAD.size
    if kind == _Kind.OPEN:
        opened = read(bytes(data[at:]), _OPENED)
        return Open(number, opened.source, opened.load)
    if kind == _Kind.AHEAD:
        return Ahead(number, _AHEAD.unpack_from(data, at)[0])
    if kind == _Kind.TAIL:
        start, until, end, count = _TAIL.unpack_from(data, at)
        at += _TAIL.size
        records = at + count * _ABORTED.size
        return Tail(number, start, until, end, list(_ABORTED.iter_unpack(data[at:records])), data[records:])
    return Close(number)
