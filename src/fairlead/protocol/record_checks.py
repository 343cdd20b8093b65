"""Looking for records of a produced batch that a topic does not take: without a key, or of a time too far away.

In: a batch of any client, perhaps a bomb. Always true: no more is decompressed than the caller allows.
`record_heads.py` says how it is done; a record takes about a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import HEADER_BYTES, CheckedBatch
from fairlead.protocol.record_heads import HEAD_BYTES_MAX, PIECE_BYTES, RECORDS_BETWEEN_RESTS, padded
from fairlead.protocol.records import RECORD_BYTES_MIN, pieces, read_varint

_NULL: Final = 1
"""-1 as a varint: the length of a key that is null."""


class Head(NamedTuple):
    """What is looked at of a record."""

    place: int
    timestamp: int
    offset: int
    has_key: bool


def heads(batch: CheckedBatch, bytes_max: int, rest: Callable[[], None]) -> Iterator[Head]:
    """The head of each record, with offsets from 0 on. `rest` is called every half a millisecond.

    Raises:
        CorruptBatch: the records do not hold together.
        OverlargeRecords: they decompress to more than `bytes_max`.
    """
    header = batch.header
    found = pieces(header.codec, memoryview(batch.data)[HEADER_BYTES:], bytes_max, PIECE_BYTES)
    data, at, index = b"", 0, 0
    for piece in padded(found):
        data, at = (data[at:] + piece, 0) if at < len(data) else (bytes(piece), at - len(data))
        while at < len(data) - HEAD_BYTES_MAX and index < header.record_count:
            length, begin = read_varint(data, at)
            if length < RECORD_BYTES_MIN - 1:
                raise CorruptBatch("a record is cut")
            time, after = read_varint(data, begin + 1)
            offset, after = read_varint(data, after)
            yield Head(index, header.base_timestamp + time, offset, data[after] != _NULL)
            at, index = begin + length, index + 1
            if not index % RECORDS_BETWEEN_RESTS:
                rest()
        if index == header.record_count:
            return
    raise CorruptBatch(f"{header.record_count - index} records of a batch are missing")
