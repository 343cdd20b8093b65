"""The ledger of the open loop: every record once, in order, with its content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from benchmarks.load.content import Content, WrongContent
from benchmarks.load.open_loop import Ledger
from confluent_kafka import Message


@dataclass
class Arrived:
    """A message as the ledger sees it."""

    content: bytes

    def value(self) -> bytes:
        return self.content


def arrived(content: bytes) -> Message:
    return cast(Message, Arrived(content))


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(Content(100), {"rate": 5, "seconds": 2, "producer": 7}, topics=3)


def test_records_go_round_the_topics_and_are_known_again(ledger: Ledger) -> None:
    assert [ledger.number_of(value) for value in ledger.values] == [(7, number) for number in range(10)]
    for number in (1, 0, 4, 2, 3, 7, 6, 9, 5, 8):  # in order within each topic
        ledger.note_consumed(arrived(ledger.values[number]), 1.0 + number)
    assert ledger.unconsumed == 0
    assert ledger.consumed == [1.0 + number for number in range(10)]


@pytest.mark.parametrize("numbers", [[0, 0], [0, 6], [3]])
def test_a_record_twice_or_too_early_is_seen(ledger: Ledger, numbers: list[int]) -> None:
    for number in numbers[:-1]:
        ledger.note_consumed(arrived(ledger.values[number]), 1.0)
    with pytest.raises(WrongContent, match="was due"):
        ledger.note_consumed(arrived(ledger.values[numbers[-1]]), 1.0)


def test_a_changed_record_is_seen(ledger: Ledger) -> None:
    with pytest.raises(WrongContent, match="differs"):
        ledger.note_consumed(arrived(ledger.values[0][:-1] + b"?"), 1.0)


def test_other_producers_are_passed_over(ledger: Ledger) -> None:
    ledger.note_consumed(arrived(Content(100).messages(6, 0, 0, 1)[0]), 1.0)
    assert ledger.unconsumed == 10


def test_a_second_acknowledgement_is_a_failure(ledger: Ledger) -> None:
    ledger.note_acknowledged(None, arrived(ledger.values[4]))
    assert (ledger.acknowledged[4] > 0, ledger.failures) == (True, [])
    ledger.note_acknowledged(None, arrived(ledger.values[4]))
    assert "acknowledged twice" in str(ledger.failures[0])
