"""Which rows are dead: a log was cut below them after they were written, since its owner's history goes on otherwise.

A row is dead iff it stands at a cut's offset or above and its (commit, row) is lower than the cut's. What a START row
says of lower offsets is true still, so it is not dead: it holds up to the cut. The log's state knows all cuts; a reader
of objects is told of them, since those may lie in later commits than it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog.objects.by_partition import look_up, packed_key, packed_keys
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import DeadFrom

_NOWHERE: Final = np.iinfo(np.int64).max


class _Cuts(NamedTuple):
    """At most one cut of each partition."""

    keys: NDArray[np.uint64]
    """Packed keys of the partitions, in order."""
    offset: NDArray[np.int64]
    commit: NDArray[np.int64]
    row: NDArray[np.int64]
    keeps: NDArray[np.int64]
    """1 if what it makes dead is to be kept."""

    def after(self, rows: Columns) -> NDArray[np.int64]:
        """Of each row the offset at which its partition was cut after it; `_NOWHERE` if it was not."""
        keys = packed_keys(rows.topic, rows.partition)
        commit, row = look_up(self.keys, self.commit, keys, -1), look_up(self.keys, self.row, keys, -1)
        later = (rows.commit < commit) | ((rows.commit == commit) & (rows.row < row))
        return np.where(later, look_up(self.keys, self.offset, keys, _NOWHERE), _NOWHERE)


class DeadRows:
    """Tells dead rows from others."""

    def __init__(self, cuts: Iterable[DeadFrom] = (), kept: Iterable[DeadFrom] = ()) -> None:
        """`kept` are those of the `cuts` whose dead rows must stay."""
        keep = set(kept)
        of: dict[int, list[tuple[int, int, int, int]]] = {}
        for cut in sorted(cuts, key=lambda cut: cut[3:]):
            of.setdefault(packed_key(*cut[:2]), []).append((*cut[2:], int(cut in keep)))
        deepest = max(map(len, of.values()), default=0)
        self._cuts = [_nth(of, place) for place in range(deepest)]
        """First the oldest of each partition, then the next."""

    def __bool__(self) -> bool:
        return bool(self._cuts)

    def lowest(self, rows: Columns) -> NDArray[np.int64]:
        """Of each row the lowest offset at which its partition was cut after it; very high if it was not."""
        found = np.full(len(rows), _NOWHERE, np.int64)
        for cuts in self._cuts:
            found = np.minimum(found, cuts.after(rows))
        return found

    def among(self, rows: Columns) -> NDArray[np.bool_]:
        """Which of these rows are dead batches."""
        if not self._cuts:
            return np.zeros(len(rows), np.bool_)
        found: NDArray[np.bool_] = (rows.kind == Kind.BATCH) & (rows.base_offset >= self.lowest(rows))
        return found

    def kept(self, rows: Columns) -> NDArray[np.bool_]:
        """Which of these rows are dead batches that stay: the first cut that made them so keeps them."""
        found: NDArray[np.bool_] = np.zeros(len(rows), np.bool_)
        for cuts in reversed(self._cuts):
            keys = packed_keys(rows.topic, rows.partition)
            keeps = look_up(cuts.keys, cuts.keeps, keys, 0) > 0
            found = np.where(rows.base_offset >= cuts.after(rows), keeps, found)
        found &= rows.kind == Kind.BATCH
        return found

    def cut_back(self, rows: Columns) -> Columns:
        """The rows, each START row standing no higher than where its partition was cut after it."""
        if not self._cuts:
            return rows
        lowest = np.where(rows.kind == Kind.START, self.lowest(rows), _NOWHERE)
        return replace(rows, base_offset=np.minimum(rows.base_offset, lowest))


NOTHING_DEAD: Final = DeadRows()


def _nth(of: dict[int, list[tuple[int, int, int, int]]], place: int) -> _Cuts:
    found = sorted((key, cuts[place]) for key, cuts in of.items() if place < len(cuts))
    offset, commit, row, keeps = np.array([cut for _, cut in found], np.int64).reshape(-1, 4).T
    return _Cuts(np.array([key for key, _ in found], np.uint64), offset, commit, row, keeps)
