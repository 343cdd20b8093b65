"""Rows as numpy arrays, with or without the bytes of their batches; work on many rows is done on these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, overload

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog import payloads
from fairlead.streamlog.objects import layout
from fairlead.streamlog.objects.side_by_side import runs
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.rows import NO_OFFSET, Kind, Row

_NUMBERS: Final = tuple(name for name in layout.DTYPES if name not in layout.NULLABLE and name != "size")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rows as numpy arrays, one value per row; the batches' bytes are there only if `data` is."""

    name: str
    """Name of the object, for errors; empty if it has none."""
    kind: NDArray[np.uint8]
    topic: NDArray[np.uint32]
    partition: NDArray[np.int32]
    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    epoch: NDArray[np.int32]
    previous_end: NDArray[np.int64]
    previous_epoch: NDArray[np.int32]
    origin: NDArray[np.void]
    """16 bytes each; meaningless where `origin_set` is False."""
    via: NDArray[np.void]
    via_commit: NDArray[np.int64]
    appended_at: NDArray[np.int64]
    max_timestamp: NDArray[np.int64]
    records: NDArray[np.int32]
    bits: NDArray[np.uint32]
    crc: NDArray[np.uint32]
    commit: NDArray[np.int64]
    row: NDArray[np.int32]
    size: NDArray[np.uint32]
    origin_set: NDArray[np.bool_]
    via_set: NDArray[np.bool_]
    position: NDArray[np.int64]
    """Place in the object of each batch's first byte."""
    first: int = 0
    """The object stands for commits [first, end)."""
    end: int = 0
    data: memoryview | None = None
    """The object's bytes from `data_position` on."""
    data_position: int = 0
    control: int = 0
    """Checksum of the control rows of the whole object."""
    epoch_id: bytes = b""
    """Id of the writer epoch of a commit; empty for a segment."""

    def __len__(self) -> int:
        return len(self.kind)

    def batch(self, place: int) -> memoryview:
        """The batch of a row, not copied. Raises ValueError if the batches are not loaded."""
        if self.data is None:
            raise ValueError(f"{self.name}: batches are not loaded")
        start = int(self.position[place]) - self.data_position
        return self.data[start : start + int(self.size[place])]

    def rows(self) -> Iterator[Row]:
        """All rows in order; a batch is a view, a control row's payload `bytes`, and both are empty if not loaded."""
        batches = self._batches()
        numbers = [getattr(self, name).tolist() for name in _NUMBERS]
        ids = [_id_list(self.origin, self.origin_set), _id_list(self.via, self.via_set)]
        columns = dict(zip((*_NUMBERS, "origin", "via"), (*numbers, *ids), strict=True))
        ordered = [columns[name] for name in Row._fields[:-1]]
        return map(Row._make, zip(*ordered, batches, strict=True))

    def _batches(self) -> Iterator[bytes | memoryview]:
        if self.data is None:
            yield from (b"" for _ in range(len(self)))
            return
        starts = (self.position - self.data_position).tolist()
        batch_kind = int(Kind.BATCH)
        for kind, start, size in zip(self.kind.tolist(), starts, self.size.tolist(), strict=True):
            view = self.data[start : start + size]
            yield view if kind == batch_kind else bytes(view)

    def take(self, places: NDArray[Any] | slice) -> Columns:
        """The rows at these places (indices, a mask or a slice), in that order; the bytes are shared."""
        return replace(self, **{name: getattr(self, name)[places] for name in ARRAYS})

    def runs(self) -> list[memoryview]:
        """Bytes of all batches in order, neighbours in the object as one piece."""
        if not len(self):
            return []
        if self.data is None:
            raise ValueError(f"{self.name}: batches are not loaded")
        starts = self.position - self.data_position
        ends = starts + self.size
        bounds = runs(starts, ends)
        lows, highs = starts[bounds[:-1]].tolist(), ends[bounds[1:] - 1].tolist()
        data = self.data
        return [data[low:high] for low, high in zip(lows, highs, strict=True)]

    def batch_bytes(self) -> int:
        """Length of all batches together."""
        return int(self.size.sum(dtype=np.int64))

    def has_id(self, column: Literal["origin", "via"], id: bytes) -> NDArray[np.bool_]:
        """Which rows have this id in the column."""
        values: NDArray[np.void] = getattr(self, column)
        wanted = np.frombuffer(id, np.uint64)
        pairs = np.ascontiguousarray(values).view(np.uint64).reshape(-1, 2)
        is_set: NDArray[np.bool_] = getattr(self, column + "_set")
        same: NDArray[np.bool_] = is_set & (pairs[:, 0] == wanted[0]) & (pairs[:, 1] == wanted[1])
        return same


class RowsOf(Sequence[Row]):
    """The rows of columns, made only where somebody looks at them. A part of them is a view."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> RowsOf: ...

    def __getitem__(self, place: int | slice) -> Row | RowsOf:
        if isinstance(place, slice):
            return RowsOf(self.columns.take(place))
        at = range(len(self))[place]
        return next(self.columns.take(slice(at, at + 1)).rows())

    def __iter__(self) -> Iterator[Row]:
        return self.columns.rows()

    def has(self, kind: Kind) -> bool:
        """Whether a row is of this kind."""
        return bool((self.columns.kind == kind).any())

    def of(self, kind: Kind) -> RowsOf:
        """The rows of this kind."""
        return RowsOf(self.columns.take(self.columns.kind == kind))


ARRAYS: Final = tuple(field.name for field in fields(Columns) if str(field.type).startswith("NDArray"))
"""Names of the columns that have one value per row."""


def _id_list(values: NDArray[np.void], is_set: NDArray[np.bool_]) -> list[bytes | None]:
    raw = values.tobytes()
    return [raw[16 * place : 16 * place + 16] if known else None for place, known in enumerate(is_set.tolist())]


def join(parts: Sequence[Columns]) -> Columns:
    """The rows of several objects, one after the other, without their batches."""
    arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    first, end = min(part.first for part in parts), max(part.end for part in parts)
    return Columns(name="", first=first, end=end, **arrays)


def start_in_place(batches: Columns, last: int, payload: StartPayload) -> Row:
    """The START row in the place of the batch at `last`, which stands for its partition's records up to that one."""
    offset, epoch = int(batches.last_offset[last]) + 1, int(batches.epoch[last])
    return Row(
        Kind.START,
        int(batches.topic[last]),
        int(batches.partition[last]),
        offset,
        NO_OFFSET,
        epoch,
        offset,
        epoch,
        bytes(batches.origin[last]) if batches.origin_set[last] else None,
        bytes(batches.via[last]) if batches.via_set[last] else None,
        int(batches.via_commit[last]),
        int(batches.appended_at[last]),
        -1,
        0,
        0,
        0,
        int(batches.commit[last]),
        int(batches.row[last]),
        payloads.encode(payload),
    )
