"""Topic numbers: 16 * counter + slice, where the slice is that of the topic's name.

A shard counts the topics of each slice separately and never uses a number twice, so a number says in which slice its
rows are sent, and the numbers of a shard stay dense.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairlead.model.names import SLICES

Integer = TypeVar("Integer", bound=np.integer[Any])


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
