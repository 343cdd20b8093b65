"""How far whole batches reach in fetched bytes; the last one may be cut."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from fairlead.protocol.batch import HEADER_BYTES, LENGTH_END, MAGIC, MAGIC_AT, read_header

_PREFIX = struct.Struct(">qi")
_EPOCH_AT: Final = LENGTH_END


class Reach(NamedTuple):
    """What the whole batches in fetched bytes hold."""

    next_offset: int
    """Behind the last of them; the place where the fetch began, if there is none."""
    epoch: int
    """Leader epoch of the last of them; -1: there is none, or it is of an old format."""
    whole_bytes: int
    cut_bytes: int
    """Size of the batch that is cut; 0: none is."""


def reach_of(records: memoryview, position: int) -> Reach:
    """How far `records`, fetched from `position` on, reach."""
    at, size = 0, len(records)
    next_offset, epoch, cut = position, -1, 0
    while size - at >= HEADER_BYTES:
        base_offset, length = _PREFIX.unpack_from(records, at)
        if length < 0 or at + LENGTH_END + length > size:
            cut = max(LENGTH_END + length, 0)
            break
        last, epoch = _last_of(records, at, base_offset)
        next_offset = max(next_offset, last + 1)
        at += LENGTH_END + length
    return Reach(next_offset, epoch, at, cut)


def _last_of(records: memoryview, at: int, base_offset: int) -> tuple[int, int]:
    """Offset of the last record, and the epoch, of the batch there; an old format's message has the offset itself."""
    if records[at + MAGIC_AT] != MAGIC:
        return base_offset, -1
    header = read_header(records[at : at + HEADER_BYTES])
    return header.last_offset, header.leader_epoch
