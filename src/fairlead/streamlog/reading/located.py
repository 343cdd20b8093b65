"""Rows of several objects, whose batches are read later by whoever needs them, in as few pieces as pay off.

Raises everywhere: `Missing` (ask again for the objects), `Damaged`, `StorageUnavailable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.storage.interface import Storage
from fairlead.streamlog.objects.columns import Columns, join
from fairlead.streamlog.objects.format import read_columns, read_whole
from fairlead.streamlog.objects.side_by_side import runs
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import LogObject

LOAD_BYTES: Final = 64 << 20
"""About how many bytes of rows that lie together are loaded at once; larger stretches are loaded in parts."""
_HOLE_BYTES: Final = 16 * 1024
"""Up to this many unwanted bytes between two wanted ranges are read along, which costs less than another call."""


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Rows of several objects, their batches not gathered; `object` gives each row's object, as an index."""

    columns: Columns
    objects: Sequence[Columns]
    object: NDArray[np.int32]

    def take(self, places: NDArray[Any] | slice) -> LocatedRows:
        return LocatedRows(self.columns.take(places), self.objects, self.object[places])


def has_control(columns: Columns) -> bool:
    """Whether a row among them is not a record batch."""
    return bool(np.any(columns.kind != Kind.BATCH))


def open_object(storage: Storage, item: LogObject) -> Columns:
    """An object's columns; the whole object if it is small, or if it holds control rows, whose checksum is checked."""
    columns = read_columns(storage, item.name)
    if columns.data is None and has_control(columns):
        return read_whole(storage.get(item.name), item.name)
    return columns


def together(objects: Sequence[Columns]) -> LocatedRows:
    """The rows of these objects, one object after the other."""
    object = np.repeat(np.arange(len(objects), dtype=np.int32), [len(columns) for columns in objects])
    return LocatedRows(join(objects) if len(objects) > 1 else objects[0], objects, object)


def load(storage: Storage, found: LocatedRows) -> Columns:
    """The rows with their batches in one buffer, in the order in which they lie in the objects."""
    if found.columns.data is not None:
        return found.columns
    if all(source.data is not None for source in found.objects):
        return _gather(found)
    columns = found.columns
    pieces, of_row, start = stretches(
        lambda place, ranges: _read_ranges(storage, found.objects[place], ranges),
        found.object,
        columns.position,
        columns.position + columns.size,
    )
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    position = (np.cumsum(lengths) - lengths)[of_row] + start
    return replace(columns, name="", position=position, data=memoryview(b"".join(pieces)), data_position=0)


def stretches(
    read: Callable[[int, Sequence[tuple[int, int]]], Sequence[bytes | memoryview]],
    object: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> tuple[list[bytes | memoryview], NDArray[np.int64], NDArray[np.int64]]:
    """What rows at [start, end) of these objects need, each stretch of an object read once, with its small holes.

    `read` gives ranges of an object, each by start and length. Returns the stretches, and for each row the stretch it
    lies in and its place there.
    """
    pieces: list[bytes | memoryview] = []
    of_row, start = np.empty(len(object), np.int64), np.empty(len(object), np.int64)
    for place in np.unique(object).tolist():
        rows = np.flatnonzero(object == place)
        rows = rows[np.argsort(starts[rows], kind="stable")]
        low, high = starts[rows], ends[rows]
        bounds = runs(low, high, hole_bytes=_HOLE_BYTES)
        lows = low[bounds[:-1]]
        lengths = high[bounds[1:] - 1] - lows
        found = np.repeat(np.arange(len(lows)), np.diff(bounds))
        of_row[rows], start[rows] = len(pieces) + found, low - lows[found]
        pieces += read(place, list(zip(lows.tolist(), lengths.tolist(), strict=True)))
    return pieces, of_row, start


def _gather(found: LocatedRows) -> Columns:
    """As `load`, if the objects' bytes are all there: the batches side by side, in the order of the rows."""
    views = [source.data for source in found.objects if source.data is not None]
    bases = np.array([source.data_position for source in found.objects], np.int64)
    starts = found.columns.position - bases[found.object]
    ends = starts + found.columns.size
    rows = zip(found.object.tolist(), starts.tolist(), ends.tolist(), strict=True)
    data = memoryview(b"".join([views[place][start:end] for place, start, end in rows]))
    position = np.cumsum(found.columns.size, dtype=np.int64) - found.columns.size
    return replace(found.columns, name="", position=position, data=data, data_position=0)


def read_bytes(storage: Storage, source: Columns, low: int, high: int) -> bytes | memoryview:
    """Bytes [low, high) of an object, of which at least the columns are there."""
    if source.data is not None:
        return source.data[low - source.data_position : high - source.data_position]
    return storage.get_range(source.name, low, high - low)


def _read_ranges(storage: Storage, source: Columns, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
    if source.data is None:
        return storage.get_ranges(source.name, ranges)
    return [read_bytes(storage, source, low, low + length) for low, length in ranges]
