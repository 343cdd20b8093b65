"""What two logs of a partition hold both, by their epoch histories, beside logs whose every record is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.streamlog.ownership.histories import FROM_NOTHING, beginning_of, start_of_next_epoch
from fairlead.streamlog.parting import history_below, parting
from fairlead.streamlog.payloads import History

Log = tuple[int, ...]
"""The epoch of each record, by offset: all records of one epoch are one owner's, so equal epochs at an offset are equal
records."""


def history_of(log: Sequence[int], begins: int = 0) -> History:
    """The epoch history of a log whose history is known from the offset `begins` on."""
    return tuple(
        (epoch, offset) for offset, epoch in enumerate(log) if offset >= begins and epoch not in log[begins:offset]
    )


@st.composite
def owners_logs(draw: st.DrawFn) -> list[Log]:
    """Logs of owners that each began with a part of one before: a tree of histories with unique epochs."""
    logs: list[Log] = [(0,) * draw(st.integers(0, 6))]
    newest = 0
    for _ in range(draw(st.integers(1, 5))):
        parent = draw(st.sampled_from(logs))
        newest = max(newest, *parent, 0) + draw(st.integers(1, 3))
        logs.append((*parent[: draw(st.integers(0, len(parent)))], *(newest,) * draw(st.integers(0, 5))))
    return logs


def common(one: Log, other: Log) -> int:
    """How many first records are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def parted(one: Log, other: Log, begins: int = 0) -> int:
    """D of two logs, of the first of which the history is known from `begins` on."""
    return parting(history_of(one, begins), len(one), history_of(other), len(other))


@given(st.data())
def test_logs_part_where_their_records_do(data: st.DataObject) -> None:
    """Of any two owners, and of replicas that hold a part: exactly the records that both hold lie below D."""
    logs = data.draw(owners_logs())
    one, other = (log[: data.draw(st.integers(0, len(log)))] for log in data.draw(st.permutations(logs))[:2])
    assert parted(one, other) == parted(other, one) == common(one, other)


@given(st.data())
def test_a_cut_leaves_a_copy_of_the_other_log(data: st.DataObject) -> None:
    """What is left at both sides has the same history, and parts nowhere any more."""
    one, other = data.draw(st.permutations(data.draw(owners_logs())))[:2]
    at = parted(one, other)
    left, right = (history_below(history_of(log), at) for log in (one, other))
    assert left == right
    assert parting(left, at, history_of(other), len(other)) == at


@given(st.data())
def test_a_history_that_begins_late_never_cuts_what_both_hold(data: st.DataObject) -> None:
    """A copy that began with a START row may not know what came before; nothing that is the same is cut for it."""
    one, other = data.draw(st.permutations(data.draw(owners_logs())))[:2]
    both = common(one, other)
    begins = data.draw(st.integers(0, len(one)))
    if begins < both:
        assert parted(one, other, begins) == both
    elif begins < len(one):
        assert parted(one, other, begins) >= both


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [
        pytest.param(((), 0), (((0, 0),), 130), 0, id="the new owner held nothing"),
        pytest.param((((0, 0),), 130), (((0, 0),), 100), 100, id="a late tail"),
        pytest.param((((0, 0), (5, 100)), 120), (((0, 0), (9, 110)), 150), 100, id="both took over"),
        pytest.param((((3, 0),), 60), (((5, 100),), 130), 60, id="older than what the owner knows: no cut"),
        pytest.param((((3, 0),), 130), (((5, 100),), 130), 100, id="but not beyond where the owner's epoch begins"),
        pytest.param((((3, 0), (4, 50)), 90), (((5, 100),), 130), 90, id="several older ones"),
        pytest.param((((3, 0), (7, 50)), 90), (((5, 100),), 130), 50, id="a later epoch that the owner lacks"),
    ],
)
def test_where_histories_part(one: tuple[History, int], other: tuple[History, int], at: int) -> None:
    """The cases of the rule one by one."""
    assert parting(*one, *other) == parting(*other, *one) == at


@given(st.data())
def test_what_is_superseded_is_in_no_log_of_the_owner(data: st.DataObject) -> None:
    """A row of an older epoch is superseded exactly if the owner's log has another record there, or none yet; a row
    below that is in the owner's log, as all of its epoch are that any log holds."""
    logs = data.draw(owners_logs())
    owner, other = data.draw(st.permutations(logs))[:2]
    topic_epoch = max(max(log, default=0) for log in logs) + 1
    own_log = (*history_of(owner), (topic_epoch, len(owner)))
    for offset, epoch in enumerate(other):
        until = start_of_next_epoch(epoch, own_log)
        assert until is not None
        assert (offset < until) == (owner[offset : offset + 1] == (epoch,))


def test_rows_of_the_owners_epoch_are_never_superseded() -> None:
    """Nor are those of a later one, which nobody here can judge."""
    assert start_of_next_epoch(7, ((0, 0), (7, 100))) is None
    assert start_of_next_epoch(9, ((0, 0), (7, 100))) is None


def test_a_row_from_before_the_owners_history_counts_below_it() -> None:
    """Nobody can tell whether the owner had it."""
    assert start_of_next_epoch(3, ((5, 100), (7, 130))) == 100
    assert start_of_next_epoch(3, ((7, 130),)) == 130


def test_a_partition_that_the_owner_did_not_know_begins_with_it() -> None:
    """The old owner had raised their number unseen: all of what it wrote there has no place in the owner's log."""
    assert beginning_of([(5, ((0, 0),))], 1) == FROM_NOTHING
    assert start_of_next_epoch(0, ((7, 0),)) == 0
