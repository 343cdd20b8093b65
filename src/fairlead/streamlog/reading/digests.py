"""Digests of a partition's batches, by which two sites find where their histories part without sending records.

A batch's hash is made of its offsets, its topic epoch and the CRC that its owner gave it: what stands in columns, so
no batch is read. The digest of a range is the sum of the hashes of the batches that begin in it, so it does not matter
how batches lie in objects, and which were merged. Dead rows do not count, nor what begins in ranges that are left out:
gaps of either side. It finds accidents, not forgeries.

Blocking. Raises everywhere: `Missing` (merged meanwhile, ask again), `Damaged`, `StorageUnavailable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.reading.fetch import LogReader

Range = tuple[int, int]
"""Offsets [first, end)."""
MODULUS: Final = 2**64
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))


def row_hashes(columns: Columns) -> NDArray[np.uint64]:
    """The hashes of batches (splitmix64 over what is hashed)."""
    found = np.zeros(len(columns), np.uint64)
    for column in (columns.base_offset, columns.last_offset, columns.epoch, columns.crc):
        found = _mixed(found + column.astype(np.int64).astype(np.uint64) + _STEP)
    return found


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    first, second, third = _SHIFTS
    values = (values ^ (values >> first)) * _FACTORS[0]
    values = (values ^ (values >> second)) * _FACTORS[1]
    return values ^ (values >> third)


def digests(
    reader: LogReader, number: int, partition: int, ranges: Sequence[Range], without: Sequence[Range] = ()
) -> list[int]:
    """The digest of each of these ranges of a partition."""
    return [
        sum(int(hashes.sum(dtype=np.uint64)) for _, hashes in _batches(reader, number, partition, each, without))
        % MODULUS
        for each in ranges
    ]


def boundaries(
    reader: LogReader, number: int, partition: int, of: Range, without: Sequence[Range]
) -> NDArray[np.int64]:
    """Where the batches begin that begin in a range."""
    found = [bases for bases, _ in _batches(reader, number, partition, of, without)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _batches(
    reader: LogReader, number: int, partition: int, of: Range, without: Sequence[Range]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    """First offsets and hashes of the batches that begin in a range."""
    first, end = of
    for columns, places in reader.rows_from(number, partition, first):
        found = columns.take(slice(places.start, places.stop))
        if found.base_offset[0] >= end:
            return
        wanted = (found.base_offset >= first) & (found.base_offset < end)
        for low, high in without:
            wanted &= (found.base_offset < low) | (found.base_offset >= high)
        chosen = found.take(wanted)
        yield chosen.base_offset, row_hashes(chosen)
