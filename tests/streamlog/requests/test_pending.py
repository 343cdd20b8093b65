"""What is put aside for an owner that cannot be reached: in its order, once, in a topic made for it."""

from __future__ import annotations

from functools import partial

import pytest
from tests.streamlog.ownership.sites import A, B, answer_of, fresh, sent, topic_of
from tests.streamlog.requests.test_claim import steps, values_of_topic
from tests.streamlog.world import batch_of, made, opened

from fairlead.model.errors import NotAllowed, OutOfOrderSequence, TryAgain
from fairlead.model.names import TOPIC_NAME_LENGTH_MAX
from fairlead.protocol.batch import check_produced, read_header
from fairlead.streamlog.requests.claimed import PIECES_MAX, SEQUENCES, OfTail, Piece
from fairlead.streamlog.requests.pending import (
    Place,
    Standing,
    close,
    is_pending_of,
    names,
    put_aside,
    put_aside_at,
    standing,
)
from fairlead.streamlog.requests.produce import produce
from fairlead.streamlog.requests.topics import set_partitions
from fairlead.streamlog.writing.writer import ShardLog

PENDING = "ships.pending.harbour"


@pytest.fixture
def owner() -> ShardLog:
    found = fresh(A)
    made(found, "ships", 2)
    return found


@pytest.fixture
def copy(owner: ShardLog) -> ShardLog:
    found = fresh(B)
    sent(owner, found)
    return found


def aside(site: ShardLog, sequence: int, *, epoch: int = 0, producer: int = 7, enters: bool = False) -> bool:
    """Put a batch of one record aside, whose value is its sequence. Raises what that raises."""
    topic = topic_of(site)
    name, _ = names(topic.name, topic.incarnation, "harbour")
    batch = check_produced(batch_of(b"%d" % sequence, producer_id=producer, epoch=epoch, sequence=sequence))
    place = Place(topic, name, "harbour", "/mapr/harbour/s")
    was_there = answer_of(site, partial(put_aside, place=place, partition=0, batch=batch, enters=enters))
    assert isinstance(was_there, bool)
    return was_there


def stands(site: ShardLog, sequence: int, *, epoch: int = 0, producer: int = 7) -> Standing:
    header = read_header(batch_of(b"x", producer_id=producer, epoch=epoch, sequence=sequence))
    return standing(site.announced.state, topic_of(site, PENDING), 0, header)


def closed(site: ShardLog) -> None:
    answer_of(site, partial(close, number=topic_of(site, PENDING).number, partition=0))


def test_a_pending_topic_is_made_with_its_first_batch(copy: ShardLog) -> None:
    """It is ours, and says for which topic and where; another topic of that name is not taken for it."""
    topic = topic_of(copy)
    assert not aside(copy, 10, enters=True)
    pending = topic_of(copy, PENDING)
    assert (pending.owner, pending.partitions, put_aside_at(pending)) == (B, topic.partitions, "harbour")
    assert is_pending_of(pending, topic, "harbour")
    assert not is_pending_of(pending, topic, "ship")
    assert put_aside_at(topic) is None


def test_another_topic_of_that_name_is_left_alone(copy: ShardLog) -> None:
    made(copy, PENDING)
    with pytest.raises(NotAllowed, match="has the name of the topic in which writes would be put aside"):
        aside(copy, 0, enters=True)


def test_it_grows_with_its_topic(owner: ShardLog, copy: ShardLog) -> None:
    aside(copy, 0, enters=True)
    answer_of(owner, lambda draft: set_partitions(draft, "ships", 3))
    sent(owner, copy)
    topic = topic_of(copy)
    batch = check_produced(batch_of(b"x"))
    place = Place(topic, PENDING, "harbour", "/mapr/harbour/s")
    answer_of(copy, partial(put_aside, place=place, partition=2, batch=batch, enters=True))
    assert topic_of(copy, PENDING).partitions == 3


def test_a_name_that_is_too_long_is_cut() -> None:
    found = names("t" * 240, b"i" * 16, "harbour")
    assert len(set(found)) == 2
    assert all(len(name) <= TOPIC_NAME_LENGTH_MAX for name in found)


def test_a_producer_goes_on_where_it_was_put_aside(copy: ShardLog) -> None:
    """In its order, and each batch once, also once the log is opened anew. Who was not put aside does not come in by
    going on."""
    with pytest.raises(TryAgain):
        aside(copy, 10)
    aside(copy, 10, enters=True)
    assert aside(copy, 10)
    with pytest.raises(TryAgain):
        aside(copy, 12)
    copy = opened(copy.announced.storage, B, seed=9)
    assert (stands(copy, 10), stands(copy, 11), stands(copy, 12)) == (Standing.DUPLICATE, Standing.NEXT, Standing.AHEAD)
    assert not aside(copy, 11)
    assert stands(copy, 9) is Standing.BEHIND
    with pytest.raises(OutOfOrderSequence, match=f"what comes after it is in {PENDING}"):
        aside(copy, 9)
    assert stands(copy, 0, producer=8) is Standing.ELSEWHERE


def test_a_new_epoch_goes_on_from_its_first_batch(copy: ShardLog) -> None:
    aside(copy, 10, enters=True)
    assert (stands(copy, 0, epoch=1), stands(copy, 1, epoch=1)) == (Standing.NEXT, Standing.AHEAD)
    aside(copy, 0, epoch=1)
    assert stands(copy, 11) is Standing.BEHIND


def test_once_it_is_closed_a_producer_goes_to_the_owner(copy: ShardLog) -> None:
    """And is not taken for one that goes on here when another opens it again."""
    aside(copy, 10, enters=True)
    closed(copy)
    assert (stands(copy, 11), stands(copy, 12), stands(copy, 10)) == (
        Standing.FOLLOWS,
        Standing.ELSEWHERE,
        Standing.DUPLICATE,
    )
    assert stands(copy, 0, epoch=1) is Standing.ELSEWHERE
    aside(copy, 0, producer=8, enters=True)
    assert stands(copy, 11) is Standing.FOLLOWS
    assert stands(copy, 1, producer=8) is Standing.NEXT
    aside(copy, 15, enters=True)
    assert stands(copy, 16) is Standing.NEXT


def test_an_owner_that_is_told_takes_what_follows(owner: ShardLog) -> None:
    """It still finds duplicates, and refuses what is older or was not said to follow."""

    def produced(sequence: int, *, follows: bool = False) -> int:
        batch = check_produced(batch_of(b"x", producer_id=7, epoch=0, sequence=sequence))
        request = partial(produce, number=topic_of(owner).number, partition=0, batch=batch, follows_pending=follows)
        offset = answer_of(owner, request).base_offset
        assert isinstance(offset, int)
        return offset

    assert produced(0) == 0
    with pytest.raises(OutOfOrderSequence):
        produced(5)
    assert produced(5, follows=True) == 1
    assert produced(5, follows=True) == 1
    assert produced(6) == 2
    for sequence in range(7, 12):
        produced(sequence)
    with pytest.raises(OutOfOrderSequence):
        produced(4, follows=True)


def test_what_was_put_aside_is_claimed_at_the_owner_again_and_again(owner: ShardLog, copy: ShardLog) -> None:
    """Each record once, also what came after a claim."""
    for sequence in (0, 1):
        aside(copy, sequence, enters=True)
    sent(copy, owner)
    assert steps(owner, PENDING) == 2
    for sequence in (2, 3):
        aside(copy, sequence)
    sent(copy, owner)
    assert steps(owner, PENDING) == 2
    assert steps(owner, PENDING) == 0
    assert values_of_topic(owner) == [b"0", b"1", b"2", b"3"]


def test_a_claim_forgets_what_the_pending_topic_does_not_have_any_more() -> None:
    """Not while there are few notes, but before numbers come again: a note would stand for other records then."""
    some = OfTail([Piece(0, 0, 0, 10), Piece(0, 50, 20, 10), Piece(0, 90, 40, 10)])
    some.forget_below(45)
    assert len(some.pieces) == 3
    many = OfTail([Piece(0, 100 * each, 20 * each, 10) for each in range(PIECES_MAX)])
    many.forget_below(100_005)
    assert many.pieces[0] == Piece(0, 500_000, 100_000, 10)
    old = OfTail([Piece(0, 0, 0, 10), Piece(0, 50, SEQUENCES - 20, 10), Piece(0, 90, 5, 10)])
    old.forget_below(SEQUENCES // 8 * 3)
    assert [piece.base for piece in old.pieces] == []
    wrapped = OfTail([Piece(0, 50, SEQUENCES - 20, 10), Piece(0, 90, 5, 10)])
    wrapped.forget_below(SEQUENCES - 5)
    assert len(wrapped.pieces) == 2, "those from there on count on from 0"
