"""The loop that writes Arrow columns as records of a batch, compiled by numba."""

# numba says of its decorators' results neither what they take nor what they give
# mypy: disable-error-code="no-untyped-call, call-arg, var-annotated, import-untyped, untyped-decorator, return-value"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from fairlead.protocol.loops.memory import compiled, copy, put_byte, put_varint, varint_bytes

_INTS = types.Array(types.int32, 1, "C", readonly=True)
_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_THERE = types.Array(types.boolean, 1, "C", readonly=True)
RECORD_OVERHEAD_MAX = 1 + 5 + 10 + 5 + 5 + 5 + 5
"""Of a record: attributes, length, two deltas, lengths of key and value, count of headers."""
HEADER_OVERHEAD_MAX = 5 + 5


@njit(inline="always")
def _length(ends: Any, there: Any, n: Any) -> Any:
    """Of a field; -1 if it is null."""
    return np.int64(ends[n + 1]) - np.int64(ends[n]) if there[n] else np.int64(-1)


@njit(inline="always")
def _put(to: Any, data: Any, ends: Any, length: Any, n: Any) -> Any:
    """Write a field, and give the address behind it."""
    to = put_varint(to, length)
    if length > 0:
        copy(to, data + ends[n], length)
        to += length
    return to


@njit(inline="always")
def _size(length: Any) -> Any:
    """How many bytes `_put` writes."""
    return varint_bytes(length) + max(length, 0)


@compiled(
    types.UniTuple(types.int64, 2)(
        *(types.int64, types.int64, types.int64, types.int64),
        *(_LONGS, _LONGS),
        *(types.int64, _INTS, _THERE),
        *(types.int64, _INTS, _THERE),
        *(_INTS, types.int64, _INTS, _THERE, types.int64, _INTS, _THERE),
    )
)
def encode(
    first: Any,
    until: Any,
    out: Any,
    body_bytes_max: Any,
    time: Any,
    offset: Any,
    keys: Any,
    key_ends: Any,
    key_there: Any,
    values: Any,
    value_ends: Any,
    value_there: Any,
    header_ends: Any,
    names: Any,
    name_ends: Any,
    name_there: Any,
    texts: Any,
    text_ends: Any,
    text_there: Any,
) -> Any:
    """Write the records [first, until) to the address `out`, as many as fit into `body_bytes_max`, and at least one.

    `keys`, `values`, `names` and `texts` (of headers) are addresses of Arrow's data, `*_ends` its offsets. Times and
    offsets become deltas to the first record's.

    Returns the first record that was not written, and the address behind the last one.
    """
    to = out
    for n in range(first, until):
        key_length, value_length = _length(key_ends, key_there, n), _length(value_ends, value_there, n)
        time_delta, offset_delta = time[n] - time[first], offset[n] - offset[first]
        length = 1 + varint_bytes(time_delta) + varint_bytes(offset_delta) + _size(key_length) + _size(value_length)
        headers = np.int64(header_ends[n + 1]) - np.int64(header_ends[n])
        length += varint_bytes(headers)
        for h in range(header_ends[n], header_ends[n + 1]):
            length += _size(_length(name_ends, name_there, h)) + _size(_length(text_ends, text_there, h))
        if n > first and to - out + varint_bytes(length) + length > body_bytes_max:
            return n, to
        to = put_varint(to, length)
        put_byte(to, np.uint64(0))
        to = put_varint(put_varint(to + 1, time_delta), offset_delta)
        to = _put(to, keys, key_ends, key_length, n)
        to = _put(to, values, value_ends, value_length, n)
        to = put_varint(to, headers)
        for h in range(header_ends[n], header_ends[n + 1]):
            to = _put(to, names, name_ends, _length(name_ends, name_there, h), h)
            to = _put(to, texts, text_ends, _length(text_ends, text_there, h), h)
    return until, to
