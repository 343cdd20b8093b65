"""Rows by partition, without loops: topic number and partition are one sortable number, and values are found by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog.values import PartitionKey


def packed_key(number: int, partition: int) -> int:
    """Topic number and partition as one number."""
    return number << 32 | partition


def unpacked_key(key: int) -> PartitionKey:
    """Topic number and partition of a packed key."""
    return key >> 32, key & 0xFFFFFFFF


def packed_keys(topic: NDArray[np.uint32], partition: NDArray[np.int32]) -> NDArray[np.uint64]:
    """The packed key of each row."""
    return topic.astype(np.uint64) << np.uint64(32) | partition.astype(np.uint64)


def look_up(keys: Any, values: Any, wanted: NDArray[np.uint64], otherwise: int) -> NDArray[np.int64]:
    """`values` by sorted `keys`, `otherwise` where a key is not there."""
    if not len(keys):
        return np.full(len(wanted), otherwise, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], otherwise).astype(np.int64)


class Offsets:
    """Offsets by partition, as sorted arrays."""

    def __init__(self, offsets: Mapping[PartitionKey, int], otherwise: int) -> None:
        ordered = sorted((packed_key(*key), offset) for key, offset in offsets.items())
        self._keys = np.array([key for key, _ in ordered], np.uint64)
        self._offsets = np.array([offset for _, offset in ordered], np.int64)
        self._otherwise = otherwise

    def of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The offset of each packed key."""
        return look_up(self._keys, self._offsets, keys, self._otherwise)


def last_of_groups(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Which items are the last of their group, where groups lie together."""
    found = np.ones(len(keys[0]), np.bool_)
    found[:-1] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return found
