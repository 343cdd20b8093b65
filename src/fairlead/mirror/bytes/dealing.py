"""The loops that deal records out to partitions by their keys, compiled by numba: `sort`, then `deal`.

In: a plan as for `kernels.rebuild`. `sort` checks every record and says to which partition it goes; `deal` writes the
bodies of all partitions side by side, each partition's into a stretch of the buffer of its own. Within a partition the
records keep their order.
"""

# numba says of its decorators' results neither what they take nor what they give
# mypy: disable-error-code="no-untyped-call, call-arg, var-annotated, import-untyped, untyped-decorator, return-value"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from fairlead.mirror.bytes.kernels import (
    FULL,
    OK,
    RECORD_GROWTH_MAX,
    Plan,
    close,
    key_of,
    put_record,
    record_head,
    record_size,
)
from fairlead.protocol.loops.memory import compiled
from fairlead.protocol.loops.murmur2 import murmur2

_START, _END, _COUNT, _BASE_OFFSET, _LAST_DELTA = (int(column) for column in list(Plan)[:5])
_BASE_TIME, _HAS_APPEND, _APPEND_TIME, _LOW, _HIGH, _KEYLESS = (int(column) for column in list(Plan)[5:])

_ROWS = types.Array(types.int64, 2, "C", readonly=True)
_OUT_ROWS = types.int64[:, ::1]
_LONGS = types.int64[::1]
_INTS = types.int32[::1]


@compiled(
    types.UniTuple(types.int64, 2)(_ROWS, types.int64, _INTS, _LONGS, _LONGS, _LONGS, _LONGS, types.uint8[::1], _LONGS)
)
def sort(
    plan: Any,
    partitions: Any,
    partition: Any,
    rest: Any,
    rest_bytes: Any,
    time: Any,
    offset: Any,
    attributes: Any,
    room: Any,
) -> Any:
    """Note of each record its partition, where its fields lie, its time, offset and attributes; and add up in `room`
    how many bytes each partition needs at most.

    Returns how many records there are, and OK or the first malformed batch.
    """
    n = np.int64(0)
    for b in range(plan.shape[0]):
        position, batch_end = plan[b, _START], plan[b, _END]
        previous = np.int64(-1)
        for _ in range(plan[b, _COUNT]):
            end, bits, time_delta, offset_delta, position = record_head(position, batch_end)
            if end < 0 or offset_delta <= previous or offset_delta > plan[b, _LAST_DELTA]:
                return n, b
            previous = offset_delta
            key_length, key_at = key_of(position, end)
            if key_at < 0:
                return n, b
            at = plan[b, _BASE_OFFSET] + offset_delta
            fields, position = position, end
            if at < plan[b, _LOW] or at >= plan[b, _HIGH]:
                continue
            chosen = plan[b, _KEYLESS]
            if key_length >= 0:
                chosen = (np.int64(murmur2(key_at, key_length)) & 0x7FFFFFFF) % partitions
            partition[n] = chosen
            rest[n] = fields
            rest_bytes[n] = end - fields
            time[n] = plan[b, _APPEND_TIME] if plan[b, _HAS_APPEND] == 1 else plan[b, _BASE_TIME] + time_delta
            offset[n] = at
            attributes[n] = bits
            room[chosen] += end - fields + RECORD_GROWTH_MAX + 1
            n += 1
        if position != batch_end:
            return n, b
    return n, OK


_TO, _BODY, _RECORDS, _BASE, _MAX, _FIRST, _LAST = range(7)
PARTITION_COLUMNS = 7
"""Columns of `deal`'s table of partitions: its column 0 says where each one's stretch begins."""


@compiled(types.boolean(_OUT_ROWS, types.int64, _LONGS, types.int64, types.int64))
def _end(cuts: Any, bodies: Any, row: Any, out: Any, partition: Any) -> Any:
    """Write down a partition's body, and begin its next one."""
    start, end, count, first, last = row[_BODY] - out, row[_TO] - out, row[_RECORDS], row[_FIRST], row[_LAST]
    row[_BODY] = row[_TO]
    row[_RECORDS] = 0
    return close(cuts, bodies, start, end, count, row[_BASE], row[_MAX], first, last, partition)


@compiled(
    types.UniTuple(types.int64, 2)(
        types.int64,
        *(_INTS, _LONGS, _LONGS, _LONGS, _LONGS, types.uint8[::1]),
        *(_OUT_ROWS, types.int64, types.int64, _OUT_ROWS),
    )
)
def deal(
    count: Any,
    partition: Any,
    rest: Any,
    rest_bytes: Any,
    time: Any,
    offset: Any,
    attributes: Any,
    stretches: Any,
    out: Any,
    body_bytes_max: Any,
    cuts: Any,
) -> Any:
    """Write the records that `sort` found into their partitions' stretches, as bodies of at most `body_bytes_max`.

    `stretches` has a row per partition; its first column is an address, its others are 0.

    Returns how many bodies there are, and OK or FULL.
    """
    bodies = np.int64(0)
    for p in range(stretches.shape[0]):
        stretches[p, _BODY] = stretches[p, _TO]
    for n in range(count):
        p = partition[n]
        row = stretches[p]
        if row[_RECORDS] > 0:
            size = record_size(time[n] - row[_BASE], row[_RECORDS], rest_bytes[n])
            if row[_TO] - row[_BODY] + size > body_bytes_max:
                if not _end(cuts, bodies, row, out, p):
                    return bodies, FULL
                bodies += 1
        if row[_RECORDS] == 0:
            row[_BASE] = row[_MAX] = time[n]
            row[_FIRST] = offset[n]
        bits = np.uint64(attributes[n])
        row[_TO] = put_record(row[_TO], bits, time[n] - row[_BASE], row[_RECORDS], rest[n], rest_bytes[n])
        row[_MAX] = max(row[_MAX], time[n])
        row[_LAST] = offset[n]
        row[_RECORDS] += 1
    for p in range(stretches.shape[0]):
        if stretches[p, _RECORDS] > 0:
            if not _end(cuts, bodies, stretches[p], out, p):
                return bodies, FULL
            bodies += 1
    return bodies, OK
