"""Byte ranges that lie side by side are one piece."""

from __future__ import annotations

import numpy as np

from fairlead.streamlog.objects.side_by_side import runs

STARTS = np.array([0, 10, 25, 30, 20])
ENDS = np.array([10, 20, 30, 35, 25])


def test_ranges_that_touch_are_one_run() -> None:
    """In the order in which they are given: one that goes back begins another."""
    assert runs(STARTS, ENDS).tolist() == [0, 2, 4, 5]
    assert runs(STARTS[:1], ENDS[:1]).tolist() == [0, 1]


def test_small_holes_are_read_along() -> None:
    """Up to so many bytes."""
    assert runs(STARTS, ENDS, hole_bytes=4).tolist() == [0, 2, 4, 5]
    assert runs(STARTS, ENDS, hole_bytes=5).tolist() == [0, 4, 5]


def test_neighbours_may_be_kept_apart() -> None:
    """Where they lie in different objects, or would be too large together."""
    assert runs(STARTS, ENDS, apart=np.array([True, False, False, False])).tolist() == [0, 1, 2, 4, 5]
