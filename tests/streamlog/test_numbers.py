"""Topic numbers say in which slice their rows are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.model.names import SLICES
from fairlead.streamlog.numbers import counter_of_number, number_at, slice_of_number, slices_of_numbers


def test_a_number_is_made_of_its_slice_and_counter() -> None:
    """And tells both; for one number as for many, whatever their type."""
    places = [(slice, counter) for slice in range(SLICES) for counter in (0, 1, 77)]
    numbers = [number_at(*place) for place in places]
    assert len(set(numbers)) == len(places)
    assert [(slice_of_number(number), counter_of_number(number)) for number in numbers] == places
    for kind in ("uint32", "int64"):
        found: NDArray[Any] = slices_of_numbers(np.array(numbers, kind))
        assert (found.dtype.name, found.tolist()) == (kind, [slice for slice, _ in places])
