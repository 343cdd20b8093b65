"""A topic that its owner hands over: no gap, no double, and nobody writes what another one may write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.streamlog.ownership.sites import (
    TOPIC,
    A,
    B,
    C,
    answer_of,
    end_of,
    fresh,
    handed_over,
    handing_over,
    history_of,
    link_of,
    noted,
    passed,
    path_of,
    repaired,
    sent,
    sent_again,
    taken_over,
    topic_of,
    values_of,
    writing,
    wrote,
)
from tests.streamlog.world import applied, committed, frame, made, opened, values_at

from fairlead.model.errors import InvalidValue, NotOwner, OwnerPending
from fairlead.model.names import slice_of
from fairlead.protocol.batch import set_offset
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.ownership.standing import pending_partitions
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.topics import delete_topic, set_configs, set_partitions
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.writer import ShardLog


def two_sites(partitions: int = 1) -> tuple[ShardLog, ShardLog]:
    """A, which owns the topic, and B, which has a copy of its two records."""
    a, b = fresh(A), fresh(B)
    made(a, partitions=partitions)
    wrote(a, b"0", b"1")
    sent(a, b)
    return a, b


def test_a_topic_that_moves_along_sites_has_one_history() -> None:
    """Each owner goes on where the one before it stopped; all hold the same at the end."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(a)
    assert wrote(a, b"a0", b"a1") == 0
    handed_over(a, b)
    sent(a, b)
    sent(b, c)
    assert wrote(b, b"b2") == 2
    handed_over(b, c)
    for source, replica in ((b, a), (b, c)):
        sent(source, replica)
    assert wrote(c, b"c3") == 3
    sent(c, b)
    sent(b, a)
    expected = {0: b"a0", 1: b"a1", 2: b"b2", 3: b"c3"}
    assert [values_at(site, topic_of(site).number) for site in (a, b, c)] == [expected] * 3
    assert history_of(a) == history_of(b) == history_of(c)
    assert [topic.owner_at for topic in map(topic_of, (a, b, c))] == [path_of(C)] * 3
    assert noted(b, a) == noted(a, b) == noted(b, c) == noted(c, b) == []


def test_what_was_handed_over_is_written_by_the_old_owner_no_more_in_the_same_commit() -> None:
    """A request that comes after the hand-over sees it, though neither is durable; one before it is in the history
    that the row names."""
    a, _ = two_sites()
    answers = committed(a, writing((b"before",)), handing_over(a, B), writing((b"after",)))
    assert answers[0].result().base_offset == 2
    assert answers[1].result().since == ((3, ((0, 0),)),)
    with pytest.raises(NotOwner, match=f"owned by {path_of(B)}; this copy is read-only"):
        answers[2].result()


def test_only_the_owner_changes_a_topic() -> None:
    """Elsewhere records, settings, partitions and its deletion are refused, and the error says where to go."""
    a, b = two_sites()
    handed_over(a, b)
    number = topic_of(a).number
    answers = committed(
        a,
        lambda draft: set_partitions(draft, "ships", 9),
        lambda draft: set_configs(draft, "ships", {"retention.ms": "1"}),
        lambda draft: delete_topic(draft, "ships"),
        lambda draft: delete_records(draft, number, 0, 1),
        handing_over(a, C),
    )
    for answer in answers:
        with pytest.raises(NotOwner, match=path_of(B)):
            answer.result()


def test_new_owner_waits_for_its_start_offset() -> None:
    """Behind at hand-over: A writes [2, 4), and B lacks them when the TOPIC row passes. What B wrote at 2 would be
    another history, so it waits until a repair has brought the rest."""
    a, b = two_sites()
    cut_off = a.announced.end
    wrote(a, b"2", b"3")
    lost = a.announced.end
    handed_over(a, b)
    passed(a, b, cut_off, lost)
    topic = topic_of(b)
    assert (topic.owner, end_of(b)) == (B, 2)
    assert list(pending_partitions(topic, b.announced.state)) == [(0, 2, 4)]
    with pytest.raises(OwnerPending, match="this copy ends at 2, the owner before it wrote up to 4"):
        wrote(b, b"x")
    with pytest.raises(OwnerPending):
        committed(b, lambda draft: delete_records(draft, topic.number, 0, 1))[0].result()
    repaired(a, b)
    assert (end_of(b), noted(a, b)) == (4, [])
    assert wrote(b, b"b4") == 4
    assert list(pending_partitions(topic, b.announced.state)) == []


def test_a_pending_owner_waits_over_a_restart() -> None:
    """Whether it may write follows from the log alone."""
    a, b = two_sites()
    cut_off = a.announced.end
    wrote(a, b"2")
    lost = a.announced.end
    handed_over(a, b)
    passed(a, b, cut_off, lost)
    b = opened(b.announced.storage, B)
    with pytest.raises(OwnerPending):
        wrote(b, b"x")
    repaired(a, b)
    assert wrote(opened(b.announced.storage, B), b"b3") == 3


def test_a_new_owner_that_waits_hands_over_what_it_was_given() -> None:
    """It has written nothing, so the next owner begins where it would have; else [2, 3) would be in no history."""
    a, b, c = *two_sites(), fresh(C)
    cut_off = a.announced.end
    wrote(a, b"2")
    lost = a.announced.end
    given = handed_over(a, b)
    passed(a, b, cut_off, lost)
    assert handed_over(b, c).since == given.since == ((3, ((0, 0),)),)
    sent(b, c)
    sent(a, c)
    repaired(a, c)
    assert wrote(c, b"c3") == 3
    assert values_at(c, topic_of(c).number) == {0: b"0", 1: b"1", 2: b"2", 3: b"c3"}


def deleting(offset: int, partition: int = 0) -> DraftRequest[int]:
    """A request that deletes the topic's records below an offset."""

    def request(draft: Draft) -> int:
        topic = draft.state.by_name(TOPIC)
        assert topic is not None
        return delete_records(draft, topic.number, partition, offset)

    return request


def test_records_that_were_deleted_before_a_hand_over_stay_deleted() -> None:
    """B gets the hand-over without the deletion before it, and the deletion too late to count: the row of the hand-over
    says what was deleted, in each later version too, to those that hear of the topic first and after a restart."""
    a, b = fresh(A), fresh(B)
    made(a, partitions=2)
    for partition in (0, 1):
        wrote(a, b"0", b"1", b"2", partition=partition)
    sent(a, b)
    before = a.announced.end
    answer_of(a, deleting(2, partition=1))
    handed_over(a, b)
    assert topic_of(a).deleted_to == (0, 2)
    passed(a, b, before, before + 1)
    assert (values_of(b), values_of(b, 1)) == ({0: b"0", 1: b"1", 2: b"2"}, {2: b"2"})
    sent_again(a, b)
    assert min(values_of(b, 1)) == 2
    answer_of(b, lambda draft: set_configs(draft, TOPIC, {"retention.ms": "1000"}))
    c = fresh(C)
    last = b.announced.end
    applied(c, frame(b, C, slice_of(TOPIC), last - 1, last))
    sent(a, c)
    for site in (a, b, c, opened(b.announced.storage, B), opened(c.announced.storage, C)):
        assert (min(values_of(site)), min(values_of(site, 1)), topic_of(site).deleted_to) == (0, 2, (0, 2))


def test_what_an_owner_of_before_deleted_beyond_a_copy_hides_nothing_of_the_new_one() -> None:
    """B has heard that A deleted [0, 4), and only the first two of these records, when it takes the topic over: what it
    writes from 2 on is other records. C stands so too when it hears of B. Nothing that was acknowledged is hidden."""
    a, b = two_sites()
    c = fresh(C)
    sent(a, c)
    wrote(a, b"late2", b"late3")
    answer_of(a, deleting(4))
    for site in (b, c):
        passed(a, site, a.announced.end - 2, a.announced.end - 1)
    assert (end_of(b), end_of(c), values_of(b)) == (2, 2, {})
    assert taken_over(b).deleted_to == (2,)
    wrote(b, b"b2", b"b3", b"b4")
    sent(b, c)
    for site in (b, c, opened(b.announced.storage, B)):
        assert values_of(site) == {2: b"b2", 3: b"b3", 4: b"b4"}


def test_a_partition_that_is_there_is_written_while_another_waits() -> None:
    """Pending is a matter of each partition."""
    a, b = two_sites(partitions=2)
    cut_off = a.announced.end
    wrote(a, b"x", partition=1)
    lost = a.announced.end
    handed_over(a, b)
    passed(a, b, cut_off, lost)
    assert wrote(b, b"2") == 2
    with pytest.raises(OwnerPending, match="partition 1"):
        wrote(b, b"x", partition=1)


def test_a_hand_over_that_was_done_already_changes_nothing() -> None:
    """The job that moves many topics goes on after a crash, and does not know how far it came."""
    a, b = two_sites()
    before = handed_over(a, b)
    end = a.announced.end
    assert handed_over(a, b) == before
    assert a.announced.end == end
    sent(a, b)
    answer = committed(b, handing_over(b, B))[0]
    with pytest.raises(InvalidValue, match="owned here already"):
        answer.result()


def test_transfer_and_takeover_by_the_same_site_at_once() -> None:
    """A hands over to B from 3 on, while B, which does not hear A, takes over from 2 on. The higher epoch wins at both,
    and what B wrote in the lower one is cut off where A's history goes on."""
    a, b = two_sites()
    wrote(a, b"a2")
    given = handed_over(a, b)
    taken = taken_over(b)
    assert given.epoch != taken.epoch
    wrote(b, b"b2")
    sent(a, b)
    repaired(a, b)
    sent(b, a)
    assert topic_of(a).epoch == topic_of(b).epoch == max(given.epoch, taken.epoch)
    third = b"a2" if given.epoch > taken.epoch else b"b2"
    assert wrote(b, b"b3") == 3
    sent(b, a)
    expected = {0: b"0", 1: b"1", 2: third, 3: b"b3"}
    assert values_at(a, topic_of(a).number) == values_at(b, topic_of(b).number) == expected
    assert history_of(a) == history_of(b)


def test_transfer_that_never_arrives_is_taken_back() -> None:
    """The link is removed before the row passes, so nobody writes. A takes the topic over again, in a higher epoch; if
    the row comes to B after all, B hears of that and does not write."""
    a, b = two_sites()
    handed_over(a, b)
    with pytest.raises(NotOwner):
        wrote(a, b"x")
    taken_over(a)
    assert wrote(a, b"a2") == 2
    sent(a, b)
    assert values_at(b, topic_of(b).number) == {0: b"0", 1: b"1", 2: b"a2"}
    with pytest.raises(NotOwner, match=path_of(A)):
        wrote(b, b"x")


def test_a_new_owner_whose_records_died_with_the_old_one_takes_over() -> None:
    """It waits for ever otherwise: what it lacks is no part of the topic from then on."""
    a, b = two_sites()
    cut_off = a.announced.end
    wrote(a, b"2")
    lost = a.announced.end
    handed_over(a, b)
    passed(a, b, cut_off, lost)
    with pytest.raises(OwnerPending, match="or take the topic over"):
        wrote(b, b"x")
    assert taken_over(b).since == ((2, ((0, 0),)),)
    assert wrote(b, b"b2") == 2


def test_topic_there_and_back_with_one_idempotent_producer() -> None:
    """A, B, A again: A goes on after what B has taken of the producer, and knows again what B had answered. Without
    that A would answer OutOfOrderSequence, or append a repeated batch twice."""
    a, b = fresh(A), fresh(B)
    made(a)
    owner, other = a, b
    for sequence in range(6):
        given = {"producer_id": 7, "epoch": 0, "sequence": sequence}
        assert wrote(owner, b"%d" % sequence, **given) == sequence
        sent(owner, other)
        handed_over(owner, other)
        sent(owner, other)
        owner, other = other, owner
        assert wrote(owner, b"%d" % sequence, **given) == sequence
    assert values_at(owner, topic_of(owner).number) == {at: b"%d" % at for at in range(6)}


def of_the_new_owner(b: ShardLog, c: ShardLog, **fields: Any) -> Frame:
    """What B has for C, its last batch with other fields; a batch's own bytes say the same."""
    sent_by_b = frame(b, C, slice_of(TOPIC), 0, link=link_of(b, c))
    *before, last = sent_by_b.rows
    last = last._replace(**fields)
    last = last._replace(batch=set_offset(bytes(last.batch), last.base_offset, last.epoch))
    return replace(sent_by_b, rows=[*before, last])


def test_a_row_that_follows_another_epoch_than_what_is_here_is_set_aside() -> None:
    """Logs that end at one offset with records of different epochs hold different records there."""
    a, b = two_sites()
    c = fresh(C)
    handed_over(a, b)
    sent(a, b)
    sent(b, c)
    assert wrote(b, b"2") == 2
    applied(c, of_the_new_owner(b, c, previous_epoch=topic_of(b).epoch))
    assert end_of(c) == 2
    assert [(note.end, note.conflict) for note in noted(b, c)] == [(2, True)]


def test_a_record_of_an_epoch_does_not_stand_before_its_beginning() -> None:
    """What is missing below it is of the epoch before, whoever says otherwise."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(a)
    wrote(a, b"0")
    sent(a, b)
    sent(b, c)
    wrote(a, b"1")
    sent(a, b)
    handed_over(a, b)
    sent(a, b)
    assert wrote(b, b"2") == 2
    early = of_the_new_owner(b, c, base_offset=1, last_offset=1, previous_end=1, previous_epoch=0)
    applied(c, replace(early, rows=[row for row in early.rows if row.kind == Kind.TOPIC or row is early.rows[-1]]))
    assert values_of(c) == {0: b"0"}
    assert [(note.end, note.conflict) for note in noted(b, c)] == [(1, True)]
