"""How far whole batches reach in fetched bytes; the last one may be cut."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.protocol.batch import EXTENT_BYTES, LENGTH_END, MAGIC, extent_at


class Reach(NamedTuple):
    """What the whole batches in fetched bytes hold."""

    next_offset: int
    """Behind the last of them; the place where the fetch began, if there is none."""
    epoch: int
    """Leader epoch of the last of them; -1: there is none, or it is of an old format."""
    cut_bytes: int
    """Size of the batch that is cut; 0: none is, or not even its header is there."""


def reach_of(records: memoryview, position: int) -> Reach:
    """How far `records`, fetched from `position` on, reach."""
    at, size = 0, len(records)
    next_offset, last_epoch = position, -1
    while size - at >= EXTENT_BYTES:
        base_offset, length, epoch, magic, _, _, delta = extent_at(records, at)
        end = at + LENGTH_END + length
        if length < 0 or end > size:
            return Reach(next_offset, last_epoch, max(end - at, 0))
        if magic == MAGIC:
            next_offset, last_epoch = max(next_offset, base_offset + delta + 1), epoch
        else:  # a message of an old format, which has its own offset, or that of the last one within it
            next_offset, last_epoch = max(next_offset, base_offset + 1), -1
        at = end
    return Reach(next_offset, last_epoch, 0)
