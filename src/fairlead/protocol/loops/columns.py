"""Columns of Arrow as the bodies of record batches: what `encoding.encode` is handed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.model.errors import InvalidValue
from fairlead.protocol.loops import encoding

Longs = NDArray[np.int64]


class Body(NamedTuple):
    """Records [first, until) as the body of one batch, before it is compressed."""

    first: int
    until: int
    data: memoryview


class RecordColumns:
    """Keys, values and headers of records. The loop is told addresses; what lies there lives as long as this."""

    def __init__(self, found: pa.RecordBatch, who: str) -> None:
        """`who` gave the columns, in a sentence that ends with "a column …".

        Raises:
            InvalidValue: `value` is missing, or a column has another type.
        """
        count = found.num_rows
        if "value" not in found.schema.names:
            raise InvalidValue(f"{who} no column value")
        nothing = pa.nulls(count, pa.binary())
        self.key = cast(found, "key", pa.binary(), who) if "key" in found.schema.names else nothing
        value = cast(found, "value", pa.binary(), who)
        ends, names, texts = np.zeros(count + 1, np.int32), nothing[:0], nothing[:0]
        if "headers" in found.schema.names:
            ends, names, texts = _headers(found, who)
        self._count = count
        self._kept = [self.key, value, names, texts]
        headers = encoding.HEADER_OVERHEAD_MAX * len(names)
        self._room = sum(column.nbytes for column in self._kept) + encoding.RECORD_OVERHEAD_MAX * count + headers
        self._ends = ends
        self._fields, self._of_headers = (plain(self.key), plain(value)), (plain(names), plain(texts))
        self._arguments = (*chain(*self._fields), ends, *chain(*self._of_headers))

    def bodies(
        self, first: int, until: int, time: Longs, offset: Longs, body_bytes_max: int, out: pa.Buffer | None = None
    ) -> Iterator[Body]:
        """The records [first, until), in bodies of at most `body_bytes_max`, and at least one record; times in ms and
        offsets become deltas to a body's first. `out` has room for all records; a body lies there until the next one is
        asked for."""
        buffer = self.room() if out is None else out
        whole = memoryview(buffer)
        while first < until:
            begin = first
            first, end = encoding.encode(begin, until, buffer.address, body_bytes_max, time, offset, *self._arguments)
            yield Body(begin, first, whole[: end - buffer.address])

    def bytes_max(self, first: int, until: int) -> int:
        """So many bytes the records [first, until) take at most, in one body or in several."""
        begin, end = int(self._ends[first]), int(self._ends[until])
        fields = sum(int(ends[until] - ends[first]) for _, ends, _ in self._fields)
        headers = sum(int(ends[end] - ends[begin]) for _, ends, _ in self._of_headers)
        overhead = encoding.RECORD_OVERHEAD_MAX * (until - first) + encoding.HEADER_OVERHEAD_MAX * (end - begin)
        return fields + headers + overhead

    def room(self) -> pa.Buffer:
        """Memory for all records."""
        return pa.allocate_buffer(self._room)


def cast(found: pa.RecordBatch, name: str, kind: pa.DataType, who: str) -> Any:
    """A column as that type. Raises: InvalidValue: it cannot be."""
    try:
        return found[name].cast(kind)
    except pa.ArrowException as error:
        raise InvalidValue(f"{who} a column {name} of type {found[name].type}, not {kind}") from error


def plain(column: Any) -> tuple[int, NDArray[np.int32], NDArray[np.bool_]]:
    """Of a binary column: the address of its data, its offsets, and whether each value is not null."""
    _, ends, data = column.buffers()
    there = column.is_valid().to_numpy(zero_copy_only=False)
    if not len(column):
        return 0, np.zeros(1, np.int32), there
    places = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    return data.address if data is not None else 0, places, there


_PAIRS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])))


def _headers(found: pa.RecordBatch, who: str) -> tuple[NDArray[np.int32], pa.Array, pa.Array]:
    """Where each record's headers end, their names and their values. Raises: InvalidValue."""
    kind = found.schema.field("headers").type
    if not _are_pairs(kind):
        raise InvalidValue(f"{who} a column headers of type {kind}, not {_PAIRS}")
    lists = cast(found, "headers", _PAIRS, who)
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.zeros(found.num_rows + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    pairs = lists.flatten()
    return ends, pairs.field("key").fill_null(b""), pairs.field("value")


def _are_pairs(kind: pa.DataType) -> bool:
    """Whether these are maps, or lists of what has a key and a value: Arrow casts structs by the names of their fields,
    fills with nulls what they lack, and drops what they have besides."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return bool(pa.types.is_map(kind) or pa.types.is_null(kind))
    pair = kind.value_type
    return bool(pa.types.is_null(pair)) or (
        bool(pa.types.is_struct(pair)) and sorted(field.name for field in pair) == ["key", "value"]
    )
