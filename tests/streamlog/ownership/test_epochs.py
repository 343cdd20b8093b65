"""The topic epochs of owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import NotAllowed
from fairlead.streamlog.ownership.epochs import CLASSES, next_epoch
from fairlead.streamlog.ranges import EPOCH_MAX

WRITERS = WRITER, RESTORED, ELSEWHERE = b"w" * 16, b"r" * 16, b"e" * 16
IDS = st.binary(min_size=16, max_size=16)


@given(st.integers(-1, EPOCH_MAX - CLASSES), IDS)
def test_an_epoch_follows_the_newest_one_closely(newest: int, writer: bytes) -> None:
    """Each change uses up few of the numbers that there are."""
    assert newest < next_epoch(newest, writer) <= newest + CLASSES


@given(st.integers(0, 5000), st.integers(0, 5000), IDS)
def test_an_epoch_tells_who_made_it(one: int, other: int, writer: bytes) -> None:
    """Whatever epochs were known before: two writers' epochs never meet, if they differ once."""
    assert next_epoch(one, writer) % CLASSES == next_epoch(other, writer) % CLASSES


def test_two_writers_that_know_the_same_make_different_epochs() -> None:
    """A hands over to B while B, which cannot hear A, takes over; or a writer is restored from a backup, and makes the
    same change from other ends."""
    assert len({next_epoch(0, writer) for writer in WRITERS}) == len(WRITERS)


def test_the_changes_of_one_writer_have_different_epochs() -> None:
    """Whatever they are: the later one follows the former."""
    assert next_epoch(next_epoch(0, WRITER), WRITER) == next_epoch(0, WRITER) + CLASSES


def test_no_epoch_follows_the_last() -> None:
    """Another cluster would refuse it, and so would a replay."""
    with pytest.raises(NotAllowed, match="use another topic"):
        next_epoch(EPOCH_MAX, WRITER)
