"""What the benchmarks' records hold, and that a check sees what is wrong."""

from __future__ import annotations

import lz4.frame
import numpy as np
import pytest
from benchmarks.load.content import Content, SequenceCheck, WrongContent, topic_names


@pytest.fixture(scope="module")
def content() -> Content:
    return Content(100)


def test_a_value_says_who_made_it(content: Content) -> None:
    values = content.values(65_535, [0, 7, 1_000_000], [2**40, 0, 5])
    producers, topics, sequences = content.read(values)
    assert producers.tolist() == [65_535] * 3
    assert topics.tolist() == [0, 7, 1_000_000]
    assert sequences.tolist() == [2**40, 0, 5]


def test_messages_are_the_rows_as_bytes(content: Content) -> None:
    messages = content.messages(1, 2, 3, 4)
    assert b"".join(messages) == content.values(1, 2, [3, 4, 5, 6]).tobytes()
    assert all(type(message) is bytes and len(message) == 100 for message in messages)


@pytest.mark.parametrize("position", [0, 7, 8, 16, 99])
def test_one_changed_byte_is_seen(content: Content, position: int) -> None:
    values = content.values(0, 0, np.arange(10))
    values[4, position] ^= 1
    with pytest.raises(WrongContent, match="1 of 10"):
        content.read(values)


def test_values_of_another_length_are_seen(content: Content) -> None:
    with pytest.raises(WrongContent, match="of 99 bytes"):
        content.read(np.zeros((1, 99), np.uint8))


def test_lz4_makes_them_about_half_as_long(content: Content) -> None:
    plain = b"".join(content.messages(0, 0, 0, 10_000))
    assert 1.7 < len(plain) / len(lz4.frame.compress(plain)) < 2.3


def test_small_records_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 100"):
        Content(99)


def test_large_records_are_made() -> None:
    large = Content(6_000_000)
    assert large.read(large.values(0, 0, [1]))[2].tolist() == [1]


def test_many_topics_are_said_in_short() -> None:
    assert topic_names({"format": "/s:t{:03d}", "count": 2, "first": 9}) == ["/s:t009", "/s:t010"]
    assert topic_names(["a", "b"]) == ["a", "b"]


def take(check: SequenceCheck, records: list[tuple[int, int, int]]) -> None:
    producers, topics, sequences = np.array(records, np.int64).T
    check.take(topics, producers, topics, sequences)


def take_one_by_one(check: SequenceCheck, records: list[tuple[int, int, int]]) -> None:
    for record in records:
        take(check, [record])


def test_sequences_of_several_producers_and_topics_may_mix() -> None:
    check = SequenceCheck(2, producers=(4, 9))
    take(check, [(9, 0, 0), (4, 0, 0), (9, 0, 1), (9, 1, 0), (4, 0, 1)])
    take(check, [(4, 0, 2), (9, 1, 1)])
    assert check.records == 7
    assert check.spread() == (0, 3)


@pytest.mark.parametrize(
    "sequences",
    [
        pytest.param([0, 1, 1], id="twice"),
        pytest.param([0, 2], id="one is missing"),
        pytest.param([0, 2, 1], id="out of order"),
        pytest.param([1], id="the first is missing"),
    ],
)
def test_a_broken_sequence_is_seen_within_and_across_chunks(sequences: list[int]) -> None:
    records = [(0, 1, sequence) for sequence in sequences]
    with pytest.raises(WrongContent, match="was due"):
        take(SequenceCheck(2), records)
    with pytest.raises(WrongContent, match="was due"):
        take_one_by_one(SequenceCheck(2), records)


def test_a_record_in_another_topic_is_seen() -> None:
    one = np.array([1])
    with pytest.raises(WrongContent, match="another topic"):
        SequenceCheck(2).take(np.array([0]), one * 0, one, one * 0)


def test_an_unknown_producer_or_topic_is_seen() -> None:
    for record in ((3, 0, 0), (0, 2, 0)):
        with pytest.raises(WrongContent, match="unknown"):
            take(SequenceCheck(2), [record])


def test_a_sequence_may_go_on_from_an_earlier_load() -> None:
    check = SequenceCheck(1, first=5)
    take(check, [(0, 0, 5), (0, 0, 6)])
    assert check.records == 2
