"""What is remembered of a partition: bounded, and as the books have it."""

from __future__ import annotations

import pytest

from fairlead.mirror.books.book import Position, position_record, read_book
from fairlead.mirror.books.points import Barrier, Segment, barrier_record, block_record
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.groups import history
from fairlead.mirror.groups.barriers import BARRIERS_MAX, Barriers
from fairlead.mirror.groups.history import BLOCK, BLOCKS_MAX, History
from fairlead.mirror.groups.tracks import placed
from fairlead.mirror.groups.translating import bounded, inverse
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Place

PART = Part("a", bytes(range(16)), "t", 3)
ROUTE = Route(3, 4, by_key=False, keep_order=False)


def test_the_newest_of_two_stretches_counts() -> None:
    """A partition that went back makes what lay behind invalid."""
    found = History()
    for source in range(200):
        found.add(Segment(source * 10, source * 10, 9, source * 9))
    found.add(Segment(500, 9_000, 5, 0))
    assert [each.source for each in found][-2:] == [490, 500]
    assert found.below(100_000) == Segment(500, 9_000, 5, 0)
    assert found.below(499) == Segment(490, 490, 9, 441)


def test_a_history_is_bounded_and_the_first_and_longest_stay() -> None:
    """Whatever its length."""
    found = History()
    for number in range(BLOCK * BLOCKS_MAX * 5):
        found.add(Segment(number * 10, number * 10, 9 if number == 1000 else 1, 0))
        assert len(found) <= BLOCK * BLOCKS_MAX
    kept = [each.source for each in found]
    assert kept[0] == 0
    assert 10_000 in kept
    assert kept == sorted(kept)


def test_books_have_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after blocks were joined or cut."""
    monkeypatch.setattr(history, "BLOCK", 3)
    monkeypatch.setattr(history, "BLOCKS_MAX", 4)
    found, records = History(), list[tuple[bytes | None, bytes | None]]()
    for number in [*range(40), 20, *range(30, 60)]:
        found.add(Segment(number * 10, number * 7, number, number))
        records += [block_record(PART, *each) for each in found.take_changed().items()]
        assert list(History(read_book(records, "t").points.get(PART))) == list(found)
    found.clear()
    records += [block_record(PART, *each) for each in found.take_changed().items()]
    assert not read_book(records, "t").points


def test_a_position_without_its_place_is_read_as_before() -> None:
    """As programs of before have written it."""
    old = b'{"v":1,"offset":7,"epoch":2,"name":"t","to":"u","gone":0}'
    key = position_record(PART, Position(0, 0, "t", "u"))[0]
    assert read_book([(key, old)], "books").positions == {PART: Position(7, 2, "t", "u")}


def test_a_destination_that_lost_its_end_is_not_believed() -> None:
    """What the books say of it is no more."""
    position = Position(50, 1, "t", "u", at=40, since=30, sent=9)
    assert placed(position, ROUTE, {Place("u", 3): 40}) == position
    moved = placed(position, ROUTE, {Place("u", 3): 35})
    assert (moved.at, moved.since) == (35, 50)
    assert placed(position, ROUTE, {}) == position
    assert placed(Position(5, 1, "t", "u"), ROUTE, {Place("u", 3): 8}).at == 8


def test_where_a_partition_has_records_of_both_sides_a_group_stays_before_what_it_has_not_read() -> None:
    """50 of ours, one of theirs, 15 of ours. A group that has read all of ours has read theirs, or not."""
    mirrored = History({0: [Segment(0, 0, 50, 0)]})
    position = Position(65, 0, "t", "t", at=66, since=50, sent=65)
    assert bounded(66, 0, position, mirrored) == 50
    assert bounded(50, 0, position, mirrored) == 50
    assert bounded(60, 51, position, mirrored) == 60
    assert bounded(66, 66, position, mirrored) == 66


def test_what_a_facing_mirror_has_brought_is_found_the_other_way_round() -> None:
    """Its source is our destination."""
    position = Position(80, 0, "t", "t", at=120, since=70, sent=20)
    found = History({0: [Segment(0, 40, 0, 0), Segment(50, 70, 1, 0)]})
    assert [inverse(offset, position, found) for offset in (39, 40, 69, 70, 71, 109, 110, 115, 120, 500)] == [
        *(None, 0, 0, 50, 51, 51, 70, 75, 80, 80)
    ]


def test_the_newest_moment_that_a_group_has_passed_everywhere_is_its_place() -> None:
    """A partition that came later was not there before."""
    barriers = Barriers()
    for number in range(10):
        barriers.add(Barrier((number * 10, number * 5), (number * 7, number * 8)))
    barriers.add(Barrier((100, 50, 5), (70, 80, 3)))
    assert barriers.passed([55, 1_000, 0]) == Barrier((50, 25), (35, 40))
    assert barriers.passed([1_000, 1_000, 4]) == Barrier((90, 45), (63, 72))
    assert barriers.passed([1_000, 1_000, 5]) == Barrier((100, 50, 5), (70, 80, 3))
    assert barriers.passed([9, 0, 0]) == Barrier((0, 0), (0, 0))
    assert Barriers().passed([5]) is None


def test_moments_are_bounded_and_in_the_books() -> None:
    """The newest closely. A moment in which nothing moved is none."""
    barriers, records = Barriers(), list[tuple[bytes | None, bytes | None]]()
    first = PART._replace(partition=0)
    for number in range(BARRIERS_MAX * 4):
        barriers.add(Barrier((number // 2,), (number,)))
        barriers.add(Barrier((number // 2,), (number,)))
        records += [barrier_record(first, *each) for each in barriers.take_changed().items()]
        assert len(barriers) <= BARRIERS_MAX
    again = Barriers(read_book(records, "t").barriers[first])
    for offset in (0, 40, 100, 255, 300):
        assert again.passed([offset]) == barriers.passed([offset])
    assert barriers.passed([254]) == Barrier((254,), (509,))
