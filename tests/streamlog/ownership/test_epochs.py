"""The topic epochs of owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import NotAllowed
from fairlead.streamlog.ownership.epochs import CLASSES, ChangeOfOwner, next_epoch
from fairlead.streamlog.ranges import EPOCH_MAX

B, C = b"b" * 16, b"c" * 16
WRITER, RESTORED = b"w" * 16, b"r" * 16
IDS = st.binary(min_size=16, max_size=16)
KINDS: st.SearchStrategy[ChangeOfOwner] = st.sampled_from(["transfer", "takeover"])


@given(st.integers(-1, EPOCH_MAX - CLASSES), IDS, KINDS, IDS)
def test_an_epoch_follows_the_newest_one_closely(newest: int, owner: bytes, kind: ChangeOfOwner, writer: bytes) -> None:
    """Each change uses up few of the numbers that there are."""
    assert newest < next_epoch(newest, owner, kind, writer) <= newest + CLASSES


@given(st.integers(0, 5000), st.integers(0, 5000), IDS, KINDS, IDS)
def test_an_epoch_tells_who_has_it(one: int, other: int, owner: bytes, kind: ChangeOfOwner, writer: bytes) -> None:
    """Whatever epochs were known before: the same owner, kind and writer have the same class."""
    assert next_epoch(one, owner, kind, writer) % CLASSES == next_epoch(other, owner, kind, writer) % CLASSES


def test_a_transfer_and_a_takeover_by_the_same_stream_have_different_epochs() -> None:
    """A hands over to B while B, which cannot hear A, takes over. So do two takers, and a writer restored from a
    backup, which knows the same and takes over from other ends."""
    epochs = {
        next_epoch(0, B, "transfer", WRITER),
        next_epoch(0, B, "takeover", WRITER),
        next_epoch(0, C, "takeover", WRITER),
        next_epoch(0, B, "takeover", RESTORED),
    }
    assert len(epochs) == 4


def test_epochs_stay_as_they_are() -> None:
    """Sites of different versions, and processes, must find the same: these numbers are part of the format."""
    assert next_epoch(0, B, "transfer", WRITER) == 151
    assert next_epoch(151, B, "transfer", WRITER) == 151 + CLASSES


def test_no_epoch_follows_the_last() -> None:
    """Another cluster would refuse it, and so would a replay."""
    with pytest.raises(NotAllowed, match="use another topic"):
        next_epoch(EPOCH_MAX, B, "transfer", WRITER)
