"""Which of a producer's batches may go on after one of them failed on its way."""

from __future__ import annotations

import pytest

from fairlead.broker.forwarding.order import Order
from fairlead.model.errors import TryAgain
from fairlead.protocol.batch import NO_PRODUCER, BatchHeader, build_batch, read_header

TOPIC, HERE, THERE = b"i" * 16, b"h" * 16, b"t" * 16
LAST = 2**31 - 1


def batch(sequence: int, *, producer: int = 7, epoch: int = 0) -> BatchHeader:
    """The header of a batch of one record."""
    records = [(None, b"x")]
    made = build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return read_header(made)


def failed(order: Order, *headers: BatchHeader) -> None:
    """Batches that were under way together, and failed in their order."""
    for header in headers:
        order.begins(TOPIC, 0, header, HERE)
    for header in headers:
        order.ends(TOPIC, 0, header, comes_again=True)


def passes(order: Order, header: BatchHeader, owner: bytes = HERE) -> bool:
    """It may go."""
    try:
        order.check(TOPIC, 0, header, owner)
    except TryAgain:
        return False
    return True


def test_those_behind_the_first_that_failed_wait_for_it() -> None:
    """Once it comes again, all may go."""
    order = Order()
    failed(order, batch(5), batch(6))
    assert not passes(order, batch(6))
    assert not passes(order, batch(7))
    assert passes(order, batch(5))
    assert passes(order, batch(6))


def test_one_that_was_refused_here_comes_first_elsewhere_too() -> None:
    """It was handed to the owner that the topic had; those behind it find another owner, which knows no producer."""
    order = Order()
    order.refused(TOPIC, 0, batch(5), HERE)
    assert not passes(order, batch(6), THERE)
    assert passes(order, batch(5), THERE)
    assert passes(order, batch(6), THERE)


def test_one_that_came_before_it_goes_by() -> None:
    """It failed too, and its answer was read later."""
    order = Order()
    failed(order, batch(5))
    assert passes(order, batch(4))
    assert not passes(order, batch(6))


def test_sequences_begin_again_after_the_last() -> None:
    """Kafka's count to 2**31 - 1."""
    order = Order()
    failed(order, batch(LAST))
    assert not passes(order, batch(0))
    assert passes(order, batch(LAST - 1))
    assert passes(order, batch(LAST))


def test_a_new_epoch_and_other_producers_are_free() -> None:
    """A client that gives a batch up begins a new epoch. Producers without ids keep order by themselves."""
    order = Order()
    failed(order, batch(5))
    assert passes(order, batch(6, producer=8))
    order.check(TOPIC, 1, batch(6), HERE)
    assert passes(order, batch(0, epoch=1))
    assert passes(order, batch(1, epoch=1))
    failed(order, batch(-1, producer=NO_PRODUCER))
    assert passes(order, batch(-1, producer=NO_PRODUCER))


@pytest.mark.parametrize("comes_again", [True, False])
def test_the_next_owner_is_asked_once_the_one_before_has_answered(comes_again: bool) -> None:
    """Nobody knows what it says; if the client sends it again, that goes first."""
    order = Order()
    order.begins(TOPIC, 0, batch(5), HERE)
    assert passes(order, batch(6), HERE)
    assert not passes(order, batch(6), THERE)
    order.ends(TOPIC, 0, batch(5), comes_again=comes_again)
    assert passes(order, batch(6), THERE) != comes_again
    assert passes(order, batch(5), THERE)


def test_little_is_remembered() -> None:
    """A client could name another producer in each batch."""
    order = Order()
    for producer in range(10_001):
        failed(order, batch(5, producer=producer))
    assert passes(order, batch(6, producer=0)), "the oldest is forgotten"
    assert not passes(order, batch(6, producer=10_000))
