"""What counts as the turn of a round."""

from __future__ import annotations

import pytest
from benchmarks.cases.replicator import turns_of


def test_the_longest_gap_of_each_round_is_its_turn() -> None:
    """Also where there is a stall; what is left of a round at the end does not count."""
    moments = [0.0, 1.0, 1.9, 2.3, 3.0, 3.1, 3.9, 4.5, 5.5, 5.9, 6.3]
    assert turns_of(moments, 2.0) == pytest.approx([1.0, 0.8, 1.0])


def test_a_round_without_arrivals_has_no_turn_of_its_own() -> None:
    """The gap belongs to the round in which it begins."""
    assert turns_of([0.0, 0.5, 3.0, 4.0], 1.0) == [2.5, 0.0, 0.0, 1.0]
