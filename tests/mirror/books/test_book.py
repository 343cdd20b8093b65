"""What a mirror writes of itself, and reads again."""

from __future__ import annotations

import pytest

from fairlead.mirror.books.book import Book, Holder, Position, holder_record, newer_holder, position_record, read_book
from fairlead.mirror.lanes import LANES, Part, lane_of, streams_used
from fairlead.model.errors import BadRequest

PART = Part("cluster-a", bytes(range(16)), "t", 3)
POSITION = Position(17, 2, "t", "a_t", 5)
HOLDER = Holder("id", "host", 1, 2, 3, released=False)


def test_positions_are_read_as_they_were_written() -> None:
    """The newest of each partition counts; the holder is there too."""
    old = position_record(PART, Position(3, 1, "t", "a_t"))
    book = read_book([old, holder_record(HOLDER), position_record(PART, POSITION)], "topic")
    assert book == Book({PART: POSITION}, HOLDER)


def test_a_source_without_topic_ids_is_known_by_names() -> None:
    """Brokers before 2.8 have none."""
    part = Part("cluster-a", bytes(16), "t", 3)
    assert read_book([position_record(part, POSITION)], "topic").positions == {part: POSITION}


def test_a_topic_that_was_made_again_is_another_one() -> None:
    """Its name has positions, its id has none."""
    book = Book({PART: POSITION}, None)
    assert book.made_again(PART._replace(topic_id=bytes(15) + b"x"))
    assert not book.made_again(PART._replace(partition=4))
    assert not book.made_again(PART._replace(topic="other"))


@pytest.mark.parametrize("record", [(None, b"{}"), (b"key", b"{}"), (position_record(PART, POSITION)[0], b'{"v":2}')])
def test_a_record_of_another_program_stops_the_mirror(record: tuple[bytes | None, bytes]) -> None:
    """It never guesses."""
    with pytest.raises(BadRequest, match="topic"):
        read_book([record], "some-topic")


def test_a_later_turn_holds_the_mirror_and_of_equal_ones_the_first() -> None:
    """So two that start at once agree."""
    same_turn = Holder("other", "host", 1, 2, 3, released=False)
    later = Holder("other", "host", 1, 2, 4, released=False)
    assert newer_holder(HOLDER, same_turn) is HOLDER
    assert newer_holder(HOLDER, later) is later
    assert newer_holder(later, HOLDER) is later


def test_a_partition_has_one_lane_for_ever() -> None:
    """The number is in no record, so it must not change between versions."""
    assert [lane_of(PART._replace(partition=number)) for number in range(6)] == [11, 8, 12, 15, 4, 7]
    assert {lane_of(PART._replace(partition=number)) for number in range(1_000)} == set(range(LANES))


def test_of_more_streams_than_partitions_some_have_nothing_to_do() -> None:
    """And no more than there are lanes have."""
    assert streams_used(8, 3) == 3
    assert streams_used(100, 1_000) == LANES
    assert streams_used(2, 0) == 1
