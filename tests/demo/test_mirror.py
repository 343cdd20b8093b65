"""What the mirror demo counts, without brokers: lost, doubled, order, offsets."""

from __future__ import annotations

import pytest
from examples.mirror.counting import copied, mirrored, moved
from examples.ships.compare import Held


def log(text: str, first: int = 0) -> list[tuple[int, bytes]]:
    """A partition whose records are letters."""
    return [(offset, letter.encode()) for offset, letter in enumerate(text, first)]


def held(**partitions: str) -> Held:
    """Topics of one partition each."""
    made = Held()
    for topic, text in partitions.items():
        for offset, letter in log(text):
            made.add((topic, 0, offset), topic.encode() + letter, 1)
    return made


def test_a_true_copy_has_every_record_once_in_order_at_its_offset() -> None:
    """Nothing to be said against it."""
    found = copied(log("abcd"), log("abcd"))
    assert (found.records, found.same_offset) == (4, 4)
    assert (found.lost, found.doubled, found.foreign, found.disordered, found.unexplained) == (0, 0, 0, 0, 0)
    assert found.back_to == ()


def test_what_comes_again_is_doubled_and_leaves_the_order_as_it_is() -> None:
    """A mirror that was killed goes on at its position: the order goes back there once, and later ones are moved."""
    found = copied(log("abcdef"), log("abcdcdef"))
    assert (found.doubled, found.back_to, found.disordered, found.lost) == (2, (2,), 0, 0)
    assert (found.same_offset, found.unexplained) == (4, 0)
    again = copied(log("abcdef"), log("abcbcdcdef"))
    assert (again.doubled, again.back_to, again.disordered) == (4, (1, 2), 0)
    assert copied(log("ab"), log("aab")).back_to == (0,)


def test_a_record_that_stands_behind_a_later_one_is_out_of_order() -> None:
    """Though nothing is lost and nothing doubled."""
    found = copied(log("abcd"), log("acbd"))
    assert (found.disordered, found.lost, found.doubled) == (1, 0, 0)


def test_lost_and_changed_records_are_told_apart() -> None:
    """A changed one is not the source's, so that one is lost too; what follows a lost one is moved by nothing known."""
    found = copied(log("abcd"), log("abd"))
    assert (found.lost, found.foreign, found.unexplained) == (1, 0, 1)
    found = copied(log("abcd"), log("abXd"))
    assert (found.lost, found.foreign, found.unexplained) == (1, 1, 0)


def test_records_that_cannot_be_told_from_one_another_are_no_measure() -> None:
    """A doubled one could be the other."""
    with pytest.raises(ValueError, match="same content"):
        copied(log("aba"), log("aba"))


def test_partitions_of_all_sources_are_compared_and_so_are_those_that_none_has() -> None:
    """A record in a wrong partition is lost in its own, and foreign where it is."""
    found = mirrored([held(one="abc"), held(two="xyz")], held(one="abbc", two="xyz", three="q"))
    assert found.partitions.keys() == {("one", 0), ("two", 0), ("three", 0)}
    assert (found.sum_of("records"), found.sum_of("lost"), found.sum_of("doubled")) == (6, 0, 1)
    assert (found.sum_of("foreign"), found.doubled_in, found.back_most) == (1, 1, 1)
    nothing = mirrored([held(one="abc")], Held())
    assert nothing.sum_of("lost") == 3


def test_a_mirror_may_go_back_to_its_position_and_no_further() -> None:
    """What it had recorded is not to come again; of a partition without a position nothing is said."""
    found = mirrored([held(one="abcdef", two="abc")], held(one="abcdcdef", two="ababc"))
    assert found.before({("one", 0): 2}) == 0
    assert found.before({("one", 0): 3}) == 1
    assert found.before({("one", 0): 3, ("two", 0): 1}) == 2


def letters(text: str) -> list[bytes]:
    return [letter.encode() for letter in text]


def test_a_group_that_moved_has_read_everything_and_nothing_twice() -> None:
    """It goes on right behind its commit."""
    found = moved(letters("abc"), letters("def"), letters("abcdef"), letters("abcdef"))
    assert (found.before, found.after, found.skipped, found.again, found.doubled) == (3, 3, 0, 0, 0)


def test_a_group_that_skips_or_reads_again_is_found() -> None:
    """A record between its commit and where it goes on; one before its commit; one that it was given twice there."""
    assert moved(letters("abc"), letters("ef"), letters("abcdef"), letters("abcdef")).skipped == 1
    assert moved(letters("abc"), letters("cdef"), letters("abcdef"), letters("abcdef")).again == 1
    assert moved(letters("abc"), letters("deef"), letters("abcdef"), letters("abcdef")).again == 1


def test_what_the_mirror_doubled_a_group_may_read_twice() -> None:
    """Both copies are records of the destination; it is not the group that went back."""
    found = moved(letters("abc"), letters("defcdef"), letters("abcdef"), letters("abcdefcdef"))
    assert (found.again, found.doubled, found.skipped) == (0, 1, 0)
    found = moved(letters("abc"), letters("defcdeff"), letters("abcdef"), letters("abcdefcdef"))
    assert (found.again, found.doubled) == (1, 1)
