"""Of which producers it is certain that nothing unanswered is at the owner."""

from __future__ import annotations

import pytest

from fairlead.broker.forwarding.known import End, KnownProducers, Way
from fairlead.protocol.batch import BatchHeader, build_batch, read_header
from fairlead.streamlog.requests.pending import Standing
from fairlead.streamlog.state.producers import ProducerBatch, ProducerState

TOPIC = b"i" * 16
NEW, OLD = 7, 8
"""Producers that got their ids from this run, and from one before."""


def batch(sequence: int, *, producer: int = NEW, epoch: int = 0) -> BatchHeader:
    """The header of a batch of one record."""
    made = build_batch([(None, b"x")], producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return read_header(made)


def way(
    known: KnownProducers,
    header: BatchHeader,
    standing: Standing = Standing.ELSEWHERE,
    copy: ProducerState | None = None,
    *,
    cut_off: bool | None = True,
) -> Way:
    return known.way((TOPIC, 0, header.producer_id), header, standing, copy, cut_off=cut_off)


def went(known: KnownProducers, header: BatchHeader, end: End | None, *, aside: bool = False) -> None:
    """A batch was passed on or put aside, and had that end; None: none yet."""
    key = TOPIC, 0, header.producer_id
    known.begins(key, header, aside=aside)
    if end is not None:
        known.ends(key, header, end, aside=aside)


@pytest.fixture
def known() -> KnownProducers:
    found = KnownProducers()
    found.given(NEW)
    return found


def test_the_first_batch_of_an_id_from_here_is_put_aside(known: KnownProducers) -> None:
    """That of another may have been sent to the owner by a run before."""
    assert way(known, batch(0)) is Way.ENTERS
    assert way(known, batch(0, producer=OLD)) is Way.TO_OWNER
    assert way(known, batch(0), cut_off=False) is Way.TO_OWNER


def test_a_batch_whose_answer_was_lost_waits_for_the_owner(known: KnownProducers) -> None:
    """And what is behind it too, until the owner has said of the newest of them that it is there."""
    went(known, batch(0), End.UNKNOWN)
    went(known, batch(1), End.UNKNOWN)
    assert way(known, batch(0)) is Way.TO_OWNER
    went(known, batch(0), End.APPENDED)
    assert way(known, batch(1)) is Way.TO_OWNER
    went(known, batch(1), End.APPENDED)
    assert way(known, batch(2)) is Way.ENTERS


def test_a_new_epoch_goes_aside_whatever_the_one_before_left(known: KnownProducers) -> None:
    """Its client has given up what had no answer. The epoch must have begun in this run, with its first batch."""
    went(known, batch(0), End.UNKNOWN)
    assert way(known, batch(0, epoch=1)) is Way.ENTERS
    assert way(known, batch(4, producer=OLD)) is Way.TO_OWNER
    assert way(known, batch(3, producer=OLD, epoch=1)) is Way.TO_OWNER
    assert way(known, batch(0, producer=OLD, epoch=2)) is Way.ENTERS


def test_five_answers_make_a_producer_known(known: KnownProducers) -> None:
    """A client has no more under way than that, and sends those again first that the run before had not answered."""
    for sequence in range(10, 14):
        went(known, batch(sequence, producer=OLD), End.APPENDED)
        went(known, batch(sequence, producer=OLD), End.APPENDED)
        assert way(known, batch(sequence + 1, producer=OLD)) is Way.TO_OWNER
    went(known, batch(14, producer=OLD), End.APPENDED)
    assert way(known, batch(15, producer=OLD)) is Way.ENTERS


def test_an_answered_batch_that_comes_again_is_not_put_aside(known: KnownProducers) -> None:
    """The client's connection broke before it heard of it. Our copy of the topic may have it as well."""
    went(known, batch(0), End.APPENDED)
    assert way(known, batch(0)) is Way.TO_OWNER
    assert way(known, batch(1)) is Way.ENTERS
    copy = ProducerState(0, 0, (ProducerBatch(1, 1, 40),))
    assert way(known, batch(1), copy=copy) is Way.TO_OWNER


def test_nothing_goes_to_the_owner_while_a_batch_of_the_producer_is_going_aside(known: KnownProducers) -> None:
    went(known, batch(0), None, aside=True)
    assert way(known, batch(0), cut_off=False) is Way.WAIT
    assert way(known, batch(1)) is Way.GOES_ON
    went(known, batch(0), None)
    went(known, batch(0), End.APPENDED, aside=True)
    assert way(known, batch(1)) is Way.GOES_ON, "the first of two is there"


def test_where_a_log_failed_its_outcome_is_not_guessed(known: KnownProducers) -> None:
    """What a batch became that was being put aside, the log says when it is opened anew; until then it goes nowhere."""
    went(known, batch(0), End.UNKNOWN, aside=True)
    assert way(known, batch(0), cut_off=False) is Way.WAIT


def test_what_the_pending_topic_says_comes_first(known: KnownProducers) -> None:
    """A producer goes on where it is, and back to the owner only once that is closed."""
    assert way(known, batch(5), Standing.DUPLICATE, cut_off=False) is Way.IS_THERE
    assert way(known, batch(5), Standing.BEHIND) is Way.BEHIND
    assert way(known, batch(5), Standing.NEXT) is Way.GOES_ON
    assert way(known, batch(5), Standing.AHEAD, cut_off=False) is Way.CLOSE
    assert way(known, batch(5), Standing.NEXT, cut_off=None) is Way.GOES_ON, "after a start nobody knows"
    assert way(known, batch(0), cut_off=None) is Way.TO_OWNER
    assert way(known, batch(5), Standing.FOLLOWS, cut_off=False) is Way.FOLLOWS
    assert way(known, batch(5), Standing.FOLLOWS) is Way.FOLLOWS


def test_what_is_forgotten_makes_its_producer_unknown() -> None:
    """There is room for so many; a batch under way is not forgotten."""
    known = KnownProducers(known_max=2)
    for producer in (1, 2):
        known.given(producer)
        went(known, batch(0, producer=producer), None if producer == 1 else End.UNKNOWN)
    for producer in (3, 4, 5):
        way(known, batch(0, producer=producer))
    assert way(known, batch(0, producer=2)) is Way.TO_OWNER
    known.ends((TOPIC, 0, 1), batch(0, producer=1), End.APPENDED, aside=False)


def test_the_newest_of_two_batches_without_an_answer_is_waited_for(known: KnownProducers) -> None:
    """In whatever order their answers are lost: once the older one is there, the newer one may be too."""
    went(known, batch(0), End.APPENDED)
    went(known, batch(2), End.UNKNOWN)
    went(known, batch(1), End.UNKNOWN)
    went(known, batch(1), End.APPENDED)
    assert way(known, batch(2)) is Way.TO_OWNER
    went(known, batch(2), End.APPENDED)
    assert way(known, batch(3)) is Way.ENTERS


def test_an_answer_that_is_lost_of_an_epoch_before_says_nothing_of_this_one(known: KnownProducers) -> None:
    """The owner refuses that epoch once it has seen the new one, and nothing of the new one was sent."""
    went(known, batch(0), None)
    assert way(known, batch(0, epoch=1)) is Way.TO_OWNER
    known.ends((TOPIC, 0, NEW), batch(0), End.UNKNOWN, aside=False)
    assert way(known, batch(0, epoch=1)) is Way.ENTERS


def test_a_producer_whose_first_batch_went_elsewhere_is_not_known(known: KnownProducers) -> None:
    """What it sent before may be at the owner, by way of another site."""
    went(known, batch(3), End.APPENDED)
    assert way(known, batch(4)) is Way.TO_OWNER
