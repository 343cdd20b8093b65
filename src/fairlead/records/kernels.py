"""The loops over records, compiled by numba: walk the varints of a batch, then copy keys, values and headers.

There are two passes. `scan` checks every length against its record and its batch, and notes where things are. Then
`copy_bytes` and `copy_headers` copy what `scan` has checked, so they check nothing. Places are addresses in memory that
the caller keeps alive: batches lie in several buffers (the object's bytes, and one for each compressed batch), and
numba counts references at every use of an array, which costs ten times as much as reading a varint. No byte is read at
or beyond the `end` that is handed down.
"""

# numba says of its decorators' results neither what they take nor what they give
# mypy: disable-error-code="no-untyped-call, call-arg, var-annotated, import-untyped, untyped-decorator, return-value"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from fairlead.protocol.loops.memory import compiled, copy, field, skip_headers, varint

OK = -1
"""`scan` found nothing wrong."""

_BATCHES = types.Array(types.int64, 2, "C", readonly=True)
_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_INTS = types.Array(types.int32, 1, "C", readonly=True)
_OUT_BYTES = types.uint8[::1]
_OUT_LONGS = types.int64[::1]
_OUT_INTS = types.int32[::1]


@compiled(
    types.int64(
        *(_BATCHES, _OUT_LONGS, _OUT_LONGS),
        *(_OUT_LONGS, _OUT_INTS, _OUT_BYTES),
        *(_OUT_LONGS, _OUT_INTS, _OUT_BYTES),
        *(_OUT_LONGS, _OUT_INTS, _OUT_LONGS),
    )
)
def scan(
    batches: Any,
    offset: Any,
    timestamp: Any,
    key_at: Any,
    key_ends: Any,
    key_there: Any,
    value_at: Any,
    value_ends: Any,
    value_there: Any,
    header_at: Any,
    header_ends: Any,
    totals: Any,
) -> Any:
    """Walk every record of every batch.

    `batches` has a row per batch: addresses of its records' start and end, their count, base offset, last offset delta,
    base timestamp, and 1 with the append time if that is the records' time. `*_at` are addresses, `*_ends` Arrow
    offsets (one more than records). `totals` gets the bytes of header keys and of header values.

    Returns the first inconsistent batch, or OK. It is one long function, since it is one walk over one format.
    """
    n = np.int64(0)
    key_end = value_end = header_end = np.int64(0)
    key_ends[0] = 0
    value_ends[0] = 0
    header_ends[0] = 0
    for b in range(batches.shape[0]):
        position, batch_end = batches[b, 0], batches[b, 1]
        base_offset, last_delta, base_timestamp = batches[b, 3], batches[b, 4], batches[b, 5]
        for _ in range(batches[b, 2]):
            length, position = varint(position, batch_end)
            if position < 0 or length < 1 or length > batch_end - position:
                return b
            end = position + length
            time_delta, position = varint(position + 1, end)
            if position < 0:
                return b
            offset_delta, position = varint(position, end)
            if position < 0 or offset_delta < 0 or offset_delta > last_delta:
                return b
            key_length, position = field(position, end)
            if position < 0:
                return b
            key_at[n] = position
            key_there[n] = key_length >= 0
            position += max(key_length, 0)
            value_length, position = field(position, end)
            if position < 0:
                return b
            value_at[n] = position
            value_there[n] = value_length >= 0
            position += max(value_length, 0)
            header_count, position = varint(position, end)
            if position < 0 or header_count < 0 or header_count > end - position:
                return b
            header_at[n] = position
            if header_count > 0:
                key_bytes, value_bytes, position = skip_headers(position, end, header_count)
                if position < 0:
                    return b
                totals[0] += key_bytes
                totals[1] += value_bytes
                header_end += header_count
            if position != end:
                return b
            key_end += max(key_length, 0)
            value_end += max(value_length, 0)
            offset[n] = base_offset + offset_delta
            timestamp[n] = batches[b, 7] if batches[b, 6] == 1 else base_timestamp + time_delta
            key_ends[n + 1] = key_end
            value_ends[n + 1] = value_end
            header_ends[n + 1] = header_end
            n += 1
        if position != batch_end:
            return b
    return OK


@compiled(types.void(_LONGS, _INTS, types.int64))
def copy_bytes(at: Any, ends: Any, out: Any) -> Any:
    """Copy the keys, or the values, that `scan` found to the address `out`, one after the other."""
    for n in range(len(at)):
        start = np.int64(ends[n])
        length = np.int64(ends[n + 1]) - start
        if length > 0:
            copy(out + start, at[n], length)


@compiled(types.void(*(_LONGS, _INTS, types.int64), *(_OUT_INTS, types.int64, _OUT_INTS, types.int64, _OUT_BYTES)))
def copy_headers(
    at: Any, ends: Any, batch_end: Any, key_ends: Any, keys: Any, value_ends: Any, values: Any, value_there: Any
) -> Any:
    """Copy the keys and values of all headers that `scan` has checked to the addresses `keys` and `values`.

    A null key becomes an empty one. `batch_end` is any address beyond all of them: `scan` has checked the true ends.
    """
    h = np.int64(0)
    for n in range(len(at)):
        position = at[n]
        for _ in range(ends[n + 1] - ends[n]):
            length, position = field(position, batch_end)
            length = max(length, 0)
            copy(keys + key_ends[h], position, length)
            key_ends[h + 1] = key_ends[h] + length
            position += length
            length, position = field(position, batch_end)
            value_there[h] = length >= 0
            length = max(length, 0)
            copy(values + value_ends[h], position, length)
            value_ends[h + 1] = value_ends[h] + length
            position += length
            h += 1
