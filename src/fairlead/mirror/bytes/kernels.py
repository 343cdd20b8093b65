"""The loops over records that are sent on, compiled by numba: `rebuild` and, for partitions by key, `sort` and `deal`.

In: a plan with a row per source batch, see `Plan`. Out: bodies of new batches, one behind the other in one buffer, and
a row per body in `cuts`, see `Cut`. A record's bytes from its key on are copied as they are; only its length and its
two deltas are written anew. What is malformed is noticed here: every length is checked against its record, and each
record's offset is above the one before. No byte is read outside a batch, none is written outside the buffer.
"""

# numba says of its decorators' results neither what they take nor what they give
# mypy: disable-error-code="no-untyped-call, call-arg, var-annotated, import-untyped, untyped-decorator, return-value"

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit, types

from fairlead.protocol.loops.memory import byte_at, compiled, copy, field, put_byte, put_varint, skip_headers, varint
from fairlead.protocol.loops.memory import varint_bytes as size_of

OK = -1
"""Nothing was wrong."""
FULL = -2
"""`cuts`, or the buffer, was too small; both are sized so that this cannot happen."""
RECORD_GROWTH_MAX = 20
"""Bytes by which a record may grow: ten of a time, five of an offset, five of its length."""


class Plan(IntEnum):
    """Columns of a plan: a source batch."""

    START = 0
    """Address of its records."""
    END = 1
    COUNT = 2
    BASE_OFFSET = 3
    LAST_DELTA = 4
    BASE_TIME = 5
    HAS_APPEND_TIME = 6
    """1: every record has the time `APPEND_TIME`."""
    APPEND_TIME = 7
    LOW = 8
    """Records below this offset are left out."""
    HIGH = 9
    """Records from this offset on are left out."""
    KEYLESS = 10
    """The partition of its records without a key; only `sort` reads it."""


class Cut(IntEnum):
    """Columns of a cut: a body."""

    START = 0
    """Where it begins in the buffer."""
    END = 1
    COUNT = 2
    BASE_TIME = 3
    MAX_TIME = 4
    FIRST_OFFSET = 5
    """The source's offset of its first record; `LAST_OFFSET` of its last."""
    LAST_OFFSET = 6
    PARTITION = 7


PLAN_COLUMNS, CUT_COLUMNS = len(Plan), len(Cut)

_START, _END, _COUNT, _BASE_OFFSET, _LAST_DELTA = (int(column) for column in list(Plan)[:5])
_BASE_TIME, _HAS_APPEND, _APPEND_TIME, _LOW, _HIGH, _KEYLESS = (int(column) for column in list(Plan)[5:])
_C_START, _C_END, _C_COUNT, _C_BASE, _C_MAX, _C_FIRST, _C_LAST, _C_PARTITION = (int(column) for column in Cut)

_ROWS = types.Array(types.int64, 2, "C", readonly=True)
_OUT_ROWS = types.int64[:, ::1]
_LONGS = types.int64[::1]


@njit(inline="always")
def record_head(position: Any, batch_end: Any) -> Any:
    """Of the record there: its end (-1: it is cut), attributes, its two deltas, and where its key's length stands."""
    length, position = varint(position, batch_end)
    if position < 0 or length < 1 or length > batch_end - position:
        return np.int64(-1), np.uint64(0), np.int64(0), np.int64(0), np.int64(0)
    end = position + length
    attributes = byte_at(position)
    time_delta, position = varint(position + 1, end)
    if position < 0:
        return np.int64(-1), attributes, np.int64(0), np.int64(0), np.int64(0)
    offset_delta, position = varint(position, end)
    if position < 0:
        return np.int64(-1), attributes, np.int64(0), np.int64(0), np.int64(0)
    return end, attributes, time_delta, offset_delta, position


@njit(inline="always")
def key_of(position: Any, end: Any) -> Any:
    """Length of the key (-1: null) and where it begins (-1: a field does not fit into the record)."""
    key_length, key_at = field(position, end)
    if key_at < 0:
        return key_length, np.int64(-1)
    value_length, position = field(key_at + max(key_length, 0), end)
    if position < 0:
        return key_length, np.int64(-1)
    header_count, position = varint(position + max(value_length, 0), end)
    if position < 0 or header_count < 0 or header_count > end - position:
        return key_length, np.int64(-1)
    if header_count > 0:
        _, _, position = skip_headers(position, end, header_count)
    return key_length, key_at if position == end else np.int64(-1)


@njit(inline="always")
def put_record(to: Any, attributes: Any, time_delta: Any, offset_delta: Any, rest: Any, rest_bytes: Any) -> Any:
    """Write a record with these deltas; `rest` is what follows them. Gives the address behind it."""
    to = put_varint(to, 1 + size_of(time_delta) + size_of(offset_delta) + rest_bytes)
    put_byte(to, attributes)
    to = put_varint(put_varint(to + 1, time_delta), offset_delta)
    copy(to, rest, rest_bytes)
    return to + rest_bytes


@njit(inline="always")
def record_size(time_delta: Any, offset_delta: Any, rest_bytes: Any) -> Any:
    """How many bytes `put_record` writes."""
    length = 1 + size_of(time_delta) + size_of(offset_delta) + rest_bytes
    return size_of(length) + length


@njit(inline="always")
def close(
    cuts: Any,
    row: Any,
    start: Any,
    end: Any,
    count: Any,
    base_time: Any,
    max_time: Any,
    first: Any,
    last: Any,
    partition: Any,
) -> Any:
    """Write down a body; False if there is no row left for it."""
    if row >= cuts.shape[0]:
        return False
    cuts[row, _C_START] = start
    cuts[row, _C_END] = end
    cuts[row, _C_COUNT] = count
    cuts[row, _C_BASE] = base_time
    cuts[row, _C_MAX] = max_time
    cuts[row, _C_FIRST] = first
    cuts[row, _C_LAST] = last
    cuts[row, _C_PARTITION] = partition
    return True


@compiled(types.UniTuple(types.int64, 2)(_ROWS, types.int64, types.int64, types.int64, _OUT_ROWS))
def rebuild(plan: Any, out: Any, out_bytes: Any, body_bytes_max: Any, cuts: Any) -> Any:
    """The records of all batches, in order, as bodies of at most `body_bytes_max`, at the address `out`.

    A record larger than that is a body of its own.

    Returns how many bodies there are, and OK, FULL or the first malformed batch.
    """
    bodies = np.int64(0)
    count = base_time = max_time = first = last = np.int64(0)
    to, body = out, out
    for b in range(plan.shape[0]):
        position, batch_end = plan[b, _START], plan[b, _END]
        previous = np.int64(-1)
        for _ in range(plan[b, _COUNT]):
            end, attributes, time_delta, offset_delta, position = record_head(position, batch_end)
            if end < 0 or offset_delta <= previous or offset_delta > plan[b, _LAST_DELTA]:
                return bodies, b
            previous = offset_delta
            _, key_at = key_of(position, end)
            if key_at < 0:
                return bodies, b
            offset = plan[b, _BASE_OFFSET] + offset_delta
            rest, rest_bytes, position = position, end - position, end
            if offset < plan[b, _LOW] or offset >= plan[b, _HIGH]:
                continue
            time = plan[b, _APPEND_TIME] if plan[b, _HAS_APPEND] == 1 else plan[b, _BASE_TIME] + time_delta
            if count > 0 and to - body + record_size(time - base_time, count, rest_bytes) > body_bytes_max:
                if not close(cuts, bodies, body - out, to - out, count, base_time, max_time, first, last, 0):
                    return bodies, FULL
                bodies += 1
                count, body = np.int64(0), to
            if count == 0:
                base_time = max_time = time
                first = offset
            if to - out + rest_bytes + RECORD_GROWTH_MAX + 1 > out_bytes:
                return bodies, FULL
            to = put_record(to, attributes, time - base_time, count, rest, rest_bytes)
            max_time = max(max_time, time)
            last = offset
            count += 1
        if position != batch_end:
            return bodies, b
    if count > 0:
        if not close(cuts, bodies, body - out, to - out, count, base_time, max_time, first, last, 0):
            return bodies, FULL
        bodies += 1
    return bodies, OK
