"""How many bytes each partition has in a shard's log, counted when somebody asks and not while records are written.

A segment is counted once, when somebody first asks, and remembered as two arrays; the commits after it are in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.storage.interface import Storage
from fairlead.streamlog.objects.by_partition import packed_keys, unpacked_key
from fairlead.streamlog.objects.format import read_columns
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.reading.index import Entry
from fairlead.streamlog.reading.slices import ROW_BYTES
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import PartitionKey


@dataclass(frozen=True, slots=True)
class Size:
    """Size of one partition: bytes of its batches as produced, and with what the log keeps beside them."""

    logical_bytes: int = 0
    physical_bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.logical_bytes + other.logical_bytes, self.physical_bytes + other.physical_bytes)


@dataclass(frozen=True, slots=True)
class _Counted:
    """One segment's sizes: packed keys in order, with bytes and rows of each."""

    keys: NDArray[np.uint64]
    bytes: NDArray[np.int64]
    rows: NDArray[np.int64]


class Sizes:
    """Sizes of one shard's partitions. Calls from several threads wait for one another."""

    def __init__(self, log: AnnouncedLog) -> None:
        self._log = log
        self._counting = threading.Lock()
        self._counted: dict[str, _Counted] = {}

    def all(self) -> dict[PartitionKey, Size]:
        """Every partition with a batch in the log, including replaced and expired ones that no merge has dropped.

        Blocking: segments that were never counted are read, without their batches.

        Raises:
            Damaged, StorageUnavailable
        """
        with self._counting:
            return self._all()

    def _all(self) -> dict[PartitionKey, Size]:
        entries = self._log.tail.all()  # before the manifest, so that a batch is in one of the two
        manifest = self._log.manifest
        tail = [(key, _waiting(found, manifest.merged_end)) for key, found in entries]
        names = [segment.name for segment in manifest.segments if segment.kind == "data"]
        self._counted = {name: self._counted.get(name) or _count(self._log.storage, name) for name in names}
        found: dict[PartitionKey, Size] = {}
        for key, (rows, size_bytes) in [*self._merged(), *tail]:
            found[key] = found.get(key, Size()) + Size(size_bytes, size_bytes + rows * ROW_BYTES)
        return found

    def _merged(self) -> Iterable[tuple[PartitionKey, tuple[int, int]]]:
        for counted in self._counted.values():
            columns = (counted.keys, counted.rows, counted.bytes)
            for key, rows, size_bytes in zip(*(column.tolist() for column in columns), strict=True):
                yield unpacked_key(key), (rows, size_bytes)


def _waiting(entries: Sequence[Entry], from_commit: int) -> tuple[int, int]:
    sizes = [entry.size for entry in entries if entry.commit >= from_commit]
    return len(sizes), sum(sizes)


def _count(storage: Storage, name: str) -> _Counted:
    columns = read_columns(storage, name)
    batches = columns.kind == Kind.BATCH
    keys = packed_keys(columns.topic[batches], columns.partition[batches])
    known, place, rows = np.unique(keys, return_inverse=True, return_counts=True)
    sizes = np.bincount(place, weights=columns.size[batches], minlength=len(known)).astype(np.int64)
    return _Counted(known, sizes, rows)
