"""The fault tests of the mirror notice what they are there to notice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.crash.mirrors.checking import Seen, Verdict, compare
from tests.crash.mirrors.load import Topic


def seen(*numbers: int, content: int = 0, tombstone: bool = False) -> list[Seen]:
    """Records of two keys."""
    return [Seen(number, content, b"%d" % (number % 2), tombstone) for number in numbers]


def found(there: Sequence[Seen], here: Sequence[Seen], *, compacted: bool = False, old: bool = False) -> Verdict:
    verdict = Verdict()
    compare(Topic("t", 1, compacted, old), 0, there, here, verdict)
    return verdict


def test_what_is_equal_is_well() -> None:
    assert found(seen(0, 1, 2), seen(0, 1, 2)) == Verdict(records=3)


def test_what_comes_again_is_counted_with_where_the_order_goes_back() -> None:
    again = found(seen(0, 1, 2, 3), seen(0, 1, 2, 1, 2, 3))
    assert again == Verdict(records=4, doubled=2, steps={"t-0": ["2 → 1"]})
    assert found(seen(0, 1), seen(0, 1, 1), old=True).doubled_old == 1


def test_what_the_source_has_twice_is_to_come_twice() -> None:
    there = seen(0, 1, 2, 1, 2, 3)
    assert found(there, there) == Verdict(records=6, twice=2)
    assert found(there, seen(0, 1, 2, 3)).lost == ["t-0: 1", "t-0: 2"]
    again = found(there, seen(0, 1, 2, 1, 2, 1, 2, 3))
    assert (again.doubled, again.steps) == (2, {"t-0": ["2 → 1"]})


@pytest.mark.parametrize(
    ("here", "lost", "wrong"),
    [
        (seen(0, 2), ["t-0: 1"], []),
        (seen(0, 1, 2, 7), [], ["t-0: 7 is only at the destination"]),
        (seen(0, 1) + seen(2, content=1), [], ["t-0: 2 is another record"]),
        (seen(0, 2, 1), [], ["t-0: out of order"]),
    ],
)
def test_losses_and_changes_are_named(here: Sequence[Seen], lost: list[str], wrong: list[str]) -> None:
    verdict = found(seen(0, 1, 2), here)
    assert (verdict.lost, verdict.wrong) == (lost, wrong)


@pytest.mark.parametrize(
    ("here", "lost", "wrong"),
    [
        (seen(0, 1, 2, 3, 4, 5), [], []),
        (seen(0, 1, 2, 3, 4), ["t-0: 5"], []),
        (seen(4) + seen(5, content=1), [], ["t-0: 5 is another record"]),
    ],
)
def test_of_a_compacted_topic_the_newest_of_each_key_counts(
    here: Sequence[Seen], lost: list[str], wrong: list[str]
) -> None:
    verdict = found(seen(4, 5), here, compacted=True)
    assert (verdict.lost, verdict.wrong) == (lost, wrong)


def test_what_compaction_has_removed_may_be_at_the_destination_only_as_a_tombstone() -> None:
    assert found([], seen(4, tombstone=True), compacted=True).wrong == []
    assert found([], seen(4), compacted=True).wrong == ["t-0: 4 was removed at the source"]
