"""Kafka record batches to Arrow: `kernels.py` does the work per record, this module the work per batch.

`BatchesInBuffer` names batches where they lie, in one buffer. numpy reads all headers at once; the CRC-32C of each
batch is checked (by the crc32c library, some GB/s); compressed batches are inflated. Then the kernels run over as many
batches as make about `GROUP_BYTES`, and give one Arrow record batch. Uncompressed records are copied once, from the
object's bytes into the Arrow columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fairlead.model.errors import CorruptBatch
from fairlead.protocol import records as protocol_records
from fairlead.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    HEADER_BYTES,
    HEADER_DTYPE,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
)
from fairlead.records import kernels
from fairlead.records.columns import ALL, arrow_schema

GROUP_BYTES = 8 * 1024 * 1024
"""About how many bytes of records (inflated) become one Arrow record batch."""
_MICROSECONDS_LIMIT = 2**63 // 1000 - 1
_BEYOND = 2**62
"""An address above all others."""

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class BatchesInBuffer:
    """Record batches in one buffer, and what the log's rows say of each; arrays have one value per batch."""

    data: Bytes
    start: Longs
    end: Longs
    base_offset: Longs
    partition: Ints
    topic: Ints
    """Index into `topics`."""
    topics: pa.StringArray
    origin: Ints
    """Index into `origins`."""
    origins: pa.StringArray
    low: Longs | None = None
    """Offsets below this one are left out; None: none are."""
    high: Longs | None = None
    """Offsets from this one on are left out."""

    def __len__(self) -> int:
        return len(self.start)

    def part(self, first: int, end: int) -> BatchesInBuffer:
        """Batches [first, end)."""
        return self.where(slice(first, end))

    def where(self, cut: slice | npt.NDArray[np.bool_]) -> BatchesInBuffer:
        """These batches."""
        return BatchesInBuffer(
            self.data,
            self.start[cut],
            self.end[cut],
            self.base_offset[cut],
            self.partition[cut],
            self.topic[cut],
            self.topics,
            self.origin[cut],
            self.origins,
            None if self.low is None else self.low[cut],
            None if self.high is None else self.high[cut],
        )


def decode(
    stored: BatchesInBuffer, columns: Sequence[str] = ALL, *, check_crc: bool = True
) -> Iterator[pa.RecordBatch]:
    """The records of the batches, in order, as Arrow record batches of `columns`.

    Raises:
        CorruptBatch: a batch does not hold together; the message names topic, partition and offset.
    """
    headers = _headers(stored, check_crc)
    of_control = (headers["attributes"] & CONTROL) != 0
    if of_control.any():
        # What they hold is for brokers.
        stored, headers = stored.where(~of_control), headers[~of_control]
    sizes = stored.end - stored.start - HEADER_BYTES
    packed = (headers["attributes"] & CODEC_MASK) != 0
    first = 0
    while first < len(stored):
        end, inflated = _group(stored, headers, sizes, packed, first)
        yield _decode_group(stored.part(first, end), headers[first:end], inflated, columns)
        first = end


def _fail(stored: BatchesInBuffer, index: int, why: str) -> CorruptBatch:
    topic = stored.topics[int(stored.topic[index])].as_py()
    place = f"topic {topic}, partition {stored.partition[index]}, offset {stored.base_offset[index]}"
    return CorruptBatch(f"{place}: {why}")


def _headers(stored: BatchesInBuffer, check_crc: bool) -> Any:
    """The 61-byte headers of all batches as one structured array, checked for consistency."""
    inside = (stored.start >= 0) & (stored.end <= len(stored.data)) & (stored.end - stored.start >= HEADER_BYTES)
    _all_or_fail(stored, inside, "shorter than the header of a record batch")
    at = stored.start[:, None] + np.arange(HEADER_BYTES)
    headers = stored.data[at].view(HEADER_DTYPE)[:, 0] if len(stored) else np.empty(0, HEADER_DTYPE)
    _all_or_fail(stored, headers["magic"] == MAGIC, "not a record batch of format v2")
    size = stored.end - stored.start
    _all_or_fail(stored, headers["length"].astype(np.int64) + LENGTH_END == size, "its length is not its header's")
    _all_or_fail(stored, headers["base_offset"] == stored.base_offset, "its header has another offset")
    count, last_delta = headers["record_count"], headers["last_offset_delta"]
    counts_fit = (count >= 0) & (last_delta >= 0) & (count.astype(np.int64) <= last_delta + 1)
    _all_or_fail(stored, counts_fit, "its count of records does not fit its offsets")
    if check_crc:
        _check_crcs(stored, headers["crc"])
    return headers


def _all_or_fail(stored: BatchesInBuffer, holds: npt.NDArray[np.bool_], why: str) -> None:
    if not holds.all():
        raise _fail(stored, int(np.argmin(holds)), why)


def _check_crcs(stored: BatchesInBuffer, crcs: Any) -> None:
    view = stored.data.data
    ranges = zip((stored.start + CRC_FROM).tolist(), stored.end.tolist(), crcs.tolist(), strict=True)
    for index, (start, end, crc) in enumerate(ranges):
        if crc32c.crc32c(view[start:end]) != crc:
            raise _fail(stored, index, "its CRC-32C is wrong")


def _group(
    stored: BatchesInBuffer, headers: Any, sizes: Longs, packed: npt.NDArray[np.bool_], first: int
) -> tuple[int, list[bytes | None]]:
    """Where the group that begins at `first` ends, and the inflated records of each compressed batch in it."""
    if not packed[first:].any():
        return first + _take(sizes[first:]), []
    inflated: list[bytes | None] = []
    total = 0
    index = first
    while index < len(stored) and total < GROUP_BYTES:
        inflated.append(_inflate(stored, headers, index) if packed[index] else None)
        total += int(sizes[index]) if inflated[-1] is None else len(inflated[-1])
        index += 1
    return index, inflated


def _take(sizes: Longs) -> int:
    return min(int(np.searchsorted(np.cumsum(sizes), GROUP_BYTES)) + 1, len(sizes))


def _inflate(stored: BatchesInBuffer, headers: Any, index: int) -> bytes:
    data = stored.data.data[int(stored.start[index]) + HEADER_BYTES : int(stored.end[index])]
    try:
        return protocol_records.decompress(int(headers["attributes"][index]) & CODEC_MASK, data)
    except CorruptBatch as error:
        raise _fail(stored, index, str(error)) from error


def _plan(stored: BatchesInBuffer, headers: Any, inflated: Sequence[bytes | None]) -> Longs:
    """The kernels' table of batches; `stored` and `inflated` must live as long as it is used."""
    plan = np.zeros((len(stored), 8), np.int64)
    plan[:, 0] = stored.data.ctypes.data + stored.start + HEADER_BYTES
    plan[:, 1] = stored.data.ctypes.data + stored.end
    for index, data in enumerate(inflated):
        if data is not None:
            address = np.frombuffer(data, np.uint8).ctypes.data
            plan[index, :2] = (address, address + len(data))
    plan[:, 2] = headers["record_count"]
    plan[:, 3] = stored.base_offset
    plan[:, 4] = headers["last_offset_delta"]
    plan[:, 5] = headers["base_timestamp"]
    plan[:, 6] = (headers["attributes"] & LOG_APPEND_TIME) != 0
    plan[:, 7] = headers["max_timestamp"]
    _all_or_fail(
        stored,
        plan[:, 2] * protocol_records.RECORD_BYTES_MIN <= plan[:, 1] - plan[:, 0],
        "more records than its bytes can hold",
    )
    return plan


class _Scanned:
    """What the first pass found; see `kernels.scan`."""

    def __init__(self, count: int) -> None:
        self.offset = np.empty(count, np.int64)
        self.timestamp = np.empty(count, np.int64)
        self.key = _Places(count)
        self.value = _Places(count)
        self.header_at = np.empty(count, np.int64)
        self.header_ends = np.empty(count + 1, np.int32)
        self.header_bytes = np.zeros(2, np.int64)


class _Places:
    """Where the keys, or the values, lie: position, Arrow offsets, and whether they are not null."""

    def __init__(self, count: int) -> None:
        self.at = np.empty(count, np.int64)
        self.ends = np.empty(count + 1, np.int32)
        self.there = np.empty(count, np.uint8)


def _decode_group(
    stored: BatchesInBuffer, headers: Any, inflated: Sequence[bytes | None], columns: Sequence[str]
) -> pa.RecordBatch:
    plan = _plan(stored, headers, inflated)
    found = _Scanned(int(plan[:, 2].sum()))
    bad = kernels.scan(
        *(plan, found.offset, found.timestamp),
        *(found.key.at, found.key.ends, found.key.there, found.value.at, found.value.ends, found.value.there),
        *(found.header_at, found.header_ends, found.header_bytes),
    )
    if bad != kernels.OK:
        raise _fail(stored, bad, "a record in it is cut, or its length does not fit its fields")
    made = _Columns(stored, plan, found)
    batch = pa.RecordBatch.from_arrays([made.column(name) for name in columns], schema=arrow_schema(columns))
    return _within(batch, stored, plan[:, 2], found.offset)


def _within(batch: pa.RecordBatch, stored: BatchesInBuffer, counts: Longs, offset: Longs) -> pa.RecordBatch:
    """The record batch without the records below `low` and from `high` on."""
    keep = np.ones(len(offset), np.bool_)
    if stored.low is not None:
        keep &= offset >= np.repeat(stored.low, counts)
    if stored.high is not None:
        keep &= offset < np.repeat(stored.high, counts)
    return batch if keep.all() else batch.filter(pa.array(keep))


class _Columns:
    """Makes each Arrow column that is asked for, and no other."""

    def __init__(self, stored: BatchesInBuffer, plan: Longs, found: _Scanned) -> None:
        self._stored = stored
        self._plan = plan
        self._found = found
        self._counts = plan[:, 2]

    def column(self, name: str) -> pa.Array:
        make: dict[str, Callable[[], pa.Array]] = {
            "key": lambda: self._binary(self._found.key),
            "value": lambda: self._binary(self._found.value),
            "topic": lambda: self._stored.topics.take(self._spread(self._stored.topic)),
            "partition": lambda: self._spread(self._stored.partition),
            "offset": lambda: pa.array(self._found.offset),
            "timestamp": self._timestamp,
            "timestampType": lambda: self._spread(self._plan[:, 6].astype(np.int32)),
            "headers": self._headers,
            "origin": lambda: self._stored.origins.take(self._spread(self._stored.origin)),
        }
        return make[name]()

    def _spread(self, per_batch: Ints) -> pa.Array:
        return pa.array(np.repeat(per_batch, self._counts))

    def _timestamp(self) -> pa.Array:
        milliseconds = np.clip(self._found.timestamp, -_MICROSECONDS_LIMIT, _MICROSECONDS_LIMIT)
        return pa.array(milliseconds * 1000).view(pa.timestamp("us", tz="UTC"))

    def _binary(self, places: _Places) -> pa.Array:
        out = np.empty(int(places.ends[-1]), np.uint8)
        kernels.copy_bytes(places.at, places.ends, out.ctypes.data)
        return _binary_array(places.ends, out, places.there)

    def _headers(self) -> pa.Array:
        found = self._found
        count = int(found.header_ends[-1])
        key_bytes, value_bytes = (int(total) for total in found.header_bytes)
        keys, values = np.empty(key_bytes, np.uint8), np.empty(value_bytes, np.uint8)
        key_ends, value_ends = np.zeros(count + 1, np.int32), np.zeros(count + 1, np.int32)
        value_there = np.ones(count, np.uint8)
        if count:
            kernels.copy_headers(
                *(found.header_at, found.header_ends, _BEYOND),
                *(key_ends, keys.ctypes.data, value_ends, values.ctypes.data, value_there),
            )
        pairs = pa.StructArray.from_arrays(
            [_text(_binary_array(key_ends, keys, None)), _binary_array(value_ends, values, value_there)],
            fields=list(arrow_schema(["headers"]).field("headers").type.value_type),
        )
        return pa.ListArray.from_arrays(
            pa.array(found.header_ends), pairs, type=arrow_schema(["headers"]).field("headers").type
        )


def _binary_array(ends: Ints, data: Bytes, there: Bytes | None) -> pa.Array:
    nulls = 0 if there is None else len(there) - int(np.count_nonzero(there))
    validity = None if there is None or nulls == 0 else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [validity, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers, null_count=nulls)


def _text(names: pa.Array) -> pa.Array:
    """Header keys as text; bytes that are no UTF-8 (no client writes them) become U+FFFD."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
