"""Topic numbers: 16 * counter + slice, where the slice is that of the topic's name; and sets of slices.

A shard counts the topics of each slice separately and never uses a number twice, so a number says in which slice its
rows are sent, and the numbers of a shard stay dense.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairlead.model.names import SLICES

Numbers = NDArray[np.int64]
Integer = TypeVar("Integer", bound=np.integer[Any])
K = TypeVar("K")
ALL_SLICES: Final = (1 << SLICES) - 1
"""The mask of all slices."""


def slice_of_number(number: int) -> int:
    """The slice of a topic number."""
    return number % SLICES


def slices_of_numbers(numbers: NDArray[Integer]) -> NDArray[Integer]:
    """The slice of each of these numbers, in an array of the same type."""
    slices: NDArray[Integer] = np.bitwise_and(numbers, SLICES - 1)  # a seventh of the time of %
    return slices


def counter_of_number(number: int) -> int:
    """How many numbers of its slice come before this one."""
    return number // SLICES


def number_at(slice: int, counter: int) -> int:
    """The number that has this slice and counter."""
    return counter * SLICES + slice


def mask_of(slices: Iterable[int]) -> int:
    """A set of slices as a number: bit s for slice s."""
    mask = 0
    for each in slices:
        mask |= 1 << each
    return mask


def masks_alike(slices: Iterable[tuple[K, int]]) -> dict[K, int]:
    """The masks of the slices that stand alike, by where they stand, from (where it stands, slice) of each."""
    masks: dict[K, int] = {}
    for at, each in slices:
        masks[at] = masks.get(at, 0) | 1 << each
    return masks


@lru_cache(maxsize=1024)
def slices_of_mask(mask: int) -> tuple[int, ...]:
    """The slices of a mask, in order."""
    return tuple(each for each in range(SLICES) if mask >> each & 1)
