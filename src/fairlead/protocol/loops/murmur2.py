"""The hash by which Kafka's clients choose a partition for a key, compiled by numba."""

# numba says of its decorators' results neither what they take nor what they give
# mypy: disable-error-code="no-untyped-call, call-arg, var-annotated, import-untyped, untyped-decorator, return-value"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from fairlead.protocol.loops.memory import byte_at, compiled

_INTS = types.Array(types.int32, 1, "C", readonly=True)
_THERE = types.Array(types.boolean, 1, "C", readonly=True)


@compiled(types.int32(types.int64, types.int64))
def murmur2(at: Any, length: Any) -> Any:
    """The hash by which Kafka's clients choose a partition (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    m = np.uint32(0x5BD1E995)
    h = np.uint32(0x9747B28C) ^ np.uint32(length)
    end = at + (length & ~3)
    while at < end:
        k = np.uint32(
            byte_at(at)
            | byte_at(at + 1) << np.uint64(8)
            | byte_at(at + 2) << np.uint64(16)
            | byte_at(at + 3) << np.uint64(24)
        )
        k = np.uint32(k * m)
        k = np.uint32((k ^ k >> np.uint32(24)) * m)
        h = np.uint32(h * m) ^ k
        at += 4
    left = length & 3
    if left == 3:
        h ^= np.uint32(byte_at(at + 2) << np.uint64(16))
    if left >= 2:
        h ^= np.uint32(byte_at(at + 1) << np.uint64(8))
    if left >= 1:
        h = np.uint32((h ^ np.uint32(byte_at(at))) * m)
    h = np.uint32((h ^ h >> np.uint32(13)) * m)
    return np.int32(np.uint32(h ^ h >> np.uint32(15)))


@compiled(types.void(types.int64, _INTS, _THERE, types.int32[::1]))
def hashes(keys: Any, ends: Any, there: Any, out: Any) -> None:
    """Of each key of an Arrow column: the hash without its sign, which modulo the partitions is the choice of Java;
    -1 where there is no key."""
    for n in range(len(out)):
        out[n] = murmur2(keys + ends[n], np.int64(ends[n + 1]) - np.int64(ends[n])) & 0x7FFFFFFF if there[n] else -1
