"""A copy by key is checked: every record once, each partition in order, a key in one partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from benchmarks.load.content import WrongContent
from benchmarks.load.keyed_consume import KeyedCheck

KEYS, RECORDS = 2, 6
"""Of one topic; sequence n has key n mod 2, and its partition is its key."""


def taken(*rounds: Sequence[tuple[int, int]]) -> KeyedCheck:
    """A check that has seen these (partition, sequence)."""
    check = KeyedCheck(1, 2, KEYS, RECORDS)
    for found in rounds:
        partitions, sequences = np.array(found).T
        nowhere = np.zeros(len(found), np.int64)
        check.take(nowhere, partitions, nowhere, sequences)
    return check


def test_partitions_may_arrive_in_any_order_among_each_other() -> None:
    taken([(1, 1), (1, 3), (0, 0)], [(0, 2), (1, 5), (0, 4)]).end(RECORDS)


def test_a_record_that_is_missing_is_found_at_the_end() -> None:
    with pytest.raises(WrongContent, match="5 records once and 0 more often, of 6"):
        taken([(0, 0), (0, 2), (0, 4), (1, 1), (1, 3)]).end(RECORDS)


@pytest.mark.parametrize("second", [[(0, 2)], [(0, 0)]])
def test_a_record_that_comes_again_or_too_late_is_out_of_order(second: list[tuple[int, int]]) -> None:
    with pytest.raises(WrongContent, match="of a partition after record 2"):
        taken([(0, 0), (0, 2)], second)


def test_order_is_looked_at_within_one_answer_too() -> None:
    with pytest.raises(WrongContent, match="record 0 of a partition after record 2"):
        taken([(0, 2), (0, 0)])


def test_a_key_in_two_partitions_is_wrong() -> None:
    with pytest.raises(WrongContent, match="one key are in two partitions"):
        taken([(0, 0)], [(1, 2)])
    with pytest.raises(WrongContent, match="one key are in two partitions"):
        taken([(0, 0), (1, 2)])


def test_a_record_of_another_topic_is_wrong() -> None:
    check = KeyedCheck(2, 1, KEYS, RECORDS)
    with pytest.raises(WrongContent, match="another topic"):
        check.take(*(np.array([value]) for value in (0, 0, 1, 0)))
