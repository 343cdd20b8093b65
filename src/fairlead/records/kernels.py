"""The loops over records, compiled by numba: walk the varints of a batch, then copy keys, values and headers.

There are two passes. `scan` checks every length against its record and its batch, and notes where things are. Then
`copy_bytes` and `copy_headers` copy what `scan` has checked, so they check nothing. Places are addresses in memory that
the caller keeps alive: batches lie in several buffers (the object's bytes, and one for each compressed batch), and
numba counts references at every use of an array, which costs ten times as much as reading a varint. No byte is read at
or beyond the `end` that is handed down.

Compiled code is kept beside this file or in the user's cache folder; if neither can be written (a read-only
installation without a home), each process compiles it again, which takes about two seconds.
"""

# numba says of its decorators' results neither what they take nor what they give
# mypy: disable-error-code="no-untyped-call, call-arg, var-annotated, import-untyped, untyped-decorator, return-value"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

OK = -1
"""`scan` found nothing wrong."""

_BATCHES = types.Array(types.int64, 2, "C", readonly=True)
_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_INTS = types.Array(types.int32, 1, "C", readonly=True)
_OUT_BYTES = types.uint8[::1]
_OUT_LONGS = types.int64[::1]
_OUT_INTS = types.int32[::1]


def compiled(signature: Any, **options: Any) -> Callable[[Any], Any]:
    """Compile a function when it is defined; with a cache for the processes to come, where numba can write one."""

    def compile_now(function: Any) -> Any:
        try:
            return njit(signature, cache=True, nogil=True, **options)(function)
        except RuntimeError:  # numba: "cannot cache function: no locator available", nothing is writable
            return njit(signature, nogil=True, **options)(function)

    return compile_now


@intrinsic
def _byte(typing_context: Any, address: Any) -> Any:
    """The byte at an address, as uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.uint64(types.int64), generate


@intrinsic
def _memcpy(typing_context: Any, to: Any, source: Any, length: Any) -> Any:
    """memcpy between addresses: making slices would cost as much as copying a hundred bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        to_pointer, source_pointer = (builder.inttoptr(argument, pointer) for argument in arguments[:2])
        cgutils.raw_memcpy(builder, to_pointer, source_pointer, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@njit(inline="always")
def _varint(position: Any, end: Any) -> Any:
    """A zigzag varint and the position after it; the position is -1 if the varint is cut or longer than 64 bits."""
    if position >= end:
        return 0, -1
    byte = _byte(position)
    position += 1
    value = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while byte >= np.uint64(0x80):
        if position >= end or shift > np.uint64(63):
            return 0, -1
        byte = _byte(position)
        position += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return 0, -1
        value |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position


@njit(inline="always")
def _field(position: Any, end: Any) -> Any:
    """Length (-1 for null) and position of a field's bytes; the position is -1 if they do not fit before `end`."""
    length, position = _varint(position, end)
    if position < 0:
        return 0, -1
    if length < 0:
        return -1, position
    if length > end - position:
        return 0, -1
    return length, position


@compiled(types.UniTuple(types.int64, 3)(types.int64, types.int64, types.int64))
def _skip_headers(position: Any, end: Any, count: Any) -> Any:
    """Bytes of the headers' keys and of their values; -1 if the headers do not end at `end`."""
    key_bytes = value_bytes = np.int64(0)
    for _ in range(count):
        length, position = _field(position, end)
        if position < 0:
            return -1, -1, -1
        key_bytes += max(length, 0)
        position += max(length, 0)
        length, position = _field(position, end)
        if position < 0:
            return -1, -1, -1
        value_bytes += max(length, 0)
        position += max(length, 0)
    if position != end:
        return -1, -1, -1
    return key_bytes, value_bytes, position


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
            length, position = _varint(position, batch_end)
            if position < 0 or length < 1 or length > batch_end - position:
                return b
            end = position + length
            time_delta, position = _varint(position + 1, end)
            if position < 0:
                return b
            offset_delta, position = _varint(position, end)
            if position < 0 or offset_delta < 0 or offset_delta > last_delta:
                return b
            key_length, position = _field(position, end)
            if position < 0:
                return b
            key_at[n] = position
            key_there[n] = key_length >= 0
            position += max(key_length, 0)
            value_length, position = _field(position, end)
            if position < 0:
                return b
            value_at[n] = position
            value_there[n] = value_length >= 0
            position += max(value_length, 0)
            header_count, position = _varint(position, end)
            if position < 0 or header_count < 0 or header_count > end - position:
                return b
            header_at[n] = position
            if header_count > 0:
                key_bytes, value_bytes, position = _skip_headers(position, end, header_count)
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
            _memcpy(out + start, at[n], length)


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
            length, position = _field(position, batch_end)
            length = max(length, 0)
            _memcpy(keys + key_ends[h], position, length)
            key_ends[h + 1] = key_ends[h] + length
            position += length
            length, position = _field(position, batch_end)
            value_there[h] = length >= 0
            length = max(length, 0)
            _memcpy(values + value_ends[h], position, length)
            value_ends[h + 1] = value_ends[h] + length
            position += length
            h += 1
