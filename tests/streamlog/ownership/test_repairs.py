"""What is missing of the history on which an owner's epoch stands is asked for until it is here."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.streamlog.ownership.sites import (
    TOPIC,
    A,
    B,
    C,
    answer_of,
    end_of,
    fresh,
    id_of,
    link_of,
    noted,
    repaired,
    sent,
    taken_over,
    topic_of,
    values_of,
    wrote,
)
from tests.streamlog.world import applied, frame, made, repair_frame

from fairlead.cluster.topic_filter import LinkTopics
from fairlead.gateway.links.passing import passing_partitions
from fairlead.model.names import slice_of
from fairlead.streamlog.applying.admission import ANYBODY
from fairlead.streamlog.applying.claims import hear
from fairlead.streamlog.frames.frame import Frame, Repair
from fairlead.streamlog.requests.topics import delete_topic
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.writing.writer import ShardLog


def test_a_note_stands_as_long_as_the_source_itself_lacks_what_is_missing() -> None:
    """C hears of the owner B from A, which does not have B's history either: C's own records, cut off at both. When A
    has them they do not come to C by the link, since they are C's; so the repair must be tried again."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(c)
    sent(c, a)
    wrote(c, b"0", b"1")
    sent(c, b)
    epoch = taken_over(a).epoch
    while taken_over(b).epoch < epoch:
        """The higher one wins."""
    sent(a, c)
    assert end_of(c) == 0
    answer_of(a, lambda draft: hear(draft, B, [payload_of(topic_of(b))], ANYBODY))
    sent(a, c)
    repaired(a, c)
    assert end_of(a) == end_of(c) == 0
    assert [note.reason for note in noted(a, c)] == ["ownership"]
    applied(a, repair_frame(b, A, topic_of(b).number, 0, 0, link=link_of(b, a)))
    sent(a, c)
    repaired(a, c)
    assert values_of(c) == values_of(b) == {0: b"0", 1: b"1"}
    assert noted(a, c) == []
    assert topic_of(c).owner == B


def test_a_topic_whose_later_owner_came_damaged_comes_back_after_a_deletion_by_the_owner_of_before() -> None:
    """B owns the topic and deletes it. That A had taken it over came before, by a row that did not hold together."""
    a, b = _parted()
    _sent_damaged(a, b)
    answer_of(b, lambda draft: delete_topic(draft, TOPIC))
    assert [(note.partition, note.reason) for note in noted(a, b)] == [(0, "crc")]
    repaired(a, b)
    assert [note.partition for note in noted(a, b)] == [0]
    repaired(a, b)
    assert noted(a, b) == []
    assert topic_of(b).owner == A
    assert values_of(b) == values_of(a) == {0: b"0", 1: b"1"}


def test_the_same_where_the_deletion_comes_by_another_link_or_once_more_by_the_same_one() -> None:
    """To C, by B's link and not by A's. The deletion of before comes again by A's link, alone: it says nothing of what
    stands behind it."""
    a, b = _parted()
    c = fresh(C)
    sent(b, c)
    answer_of(b, lambda draft: delete_topic(draft, TOPIC))
    _sent_damaged(a, c)
    sent(b, c)
    assert [note.partition for note in noted(a, c)] == [0]
    applied(c, _deletion_of_before(a, b, c))
    assert [note.partition for note in noted(a, c)] == [0]
    while noted(a, c):
        repaired(a, c)
    assert values_of(c) == values_of(a)


@pytest.mark.parametrize("in_a_repair", [False, True])
def test_a_deletion_that_was_read_before_what_hides_an_owner_does_not_end_it(in_a_repair: bool) -> None:
    """C hears of it by A's link alone: in a frame from below its position, or in a repair that had read less."""
    a, b = _parted()
    c = fresh(C)
    sent(b, c)
    answer_of(b, lambda draft: delete_topic(draft, TOPIC))
    _sent_damaged(a, c)
    before = _deletion_of_before(a, b, c)
    repair = Repair(topic_of(a).number, 0, before.to_commit, last=True, end=0) if in_a_repair else None
    applied(c, replace(before, repair=repair))
    assert c.announced.state.by_name(TOPIC) is None
    assert [note.partition for note in noted(a, c)] == [0]
    while noted(a, c):
        repaired(a, c)
    assert values_of(c) == values_of(a)


def test_the_last_frame_of_a_repair_does_not_end_what_hides_an_owner_if_others_did_not_come() -> None:
    a, b = _parted()
    _sent_damaged(a, b)
    answer_of(b, lambda draft: delete_topic(draft, TOPIC))
    brings = repair_frame(a, B, topic_of(a).number, 0, 1, link=link_of(a, b))
    applied(b, replace(brings, rows=[]))
    assert [note.partition for note in noted(a, b)] == [0]


def test_what_came_damaged_of_a_topic_that_its_source_has_deleted_too_is_missing_no_more() -> None:
    """The source took the deletion from here, so it does not come back by the link: the repair tells of it."""
    a, b = fresh(A), fresh(B)
    number = made(a).number
    wrote(a, b"0")
    sent(a, b)
    taken_over(b)
    sent(b, a)
    again = frame(a, B, slice_of(TOPIC), 0, 1, link=link_of(a, b))
    applied(b, replace(again, rows=[row._replace(batch=b"?") for row in again.rows]))
    answer_of(b, lambda draft: delete_topic(draft, TOPIC))
    sent(b, a)
    ((asked, note),) = passing_partitions(a.announced.state, LinkTopics(), "all", noted(a, b))
    assert asked == number
    applied(b, repair_frame(a, B, asked, note.partition, note.end, link=link_of(a, b)))
    assert noted(a, b) == []
    assert b.announced.state.by_name(TOPIC) is None


def _parted() -> tuple[ShardLog, ShardLog]:
    """A and B, which has taken A's topic over and handed it back; B has not heard of the second."""
    a, b = fresh(A), fresh(B)
    made(a)
    wrote(a, b"0")
    sent(a, b)
    taken_over(b)
    sent(b, a)
    taken_over(a)
    wrote(a, b"1")
    return a, b


def _deletion_of_before(source: ShardLog, deleter: ShardLog, replica: ShardLog) -> Frame:
    """A frame of the link from `source`, from the beginning of its log, that tells of the topic's deletion alone."""
    (deleted,) = [row for row in frame(deleter, C, slice_of(TOPIC), 0).rows if row.kind == Kind.TOPIC_DELETED]
    found = frame(source, id_of(replica), slice_of(TOPIC), 0, 1, link=link_of(source, replica))
    named = {deleted.topic: found.topics[topic_of(source).number]}
    return replace(found, rows=[deleted._replace(commit=0)], topics=named)


def _sent_damaged(source: ShardLog, replica: ShardLog) -> None:
    """All that the link has not brought yet, and the rows that make the topic do not hold together."""
    link = link_of(source, replica)
    position = replica.announced.state.position((link, 0, slice_of(TOPIC)))
    part = frame(source, id_of(replica), slice_of(TOPIC), 0 if position is None else position.commit, link=link)
    rows = [row._replace(batch=b"?") if row.kind == Kind.TOPIC else row for row in part.rows]
    applied(replica, replace(part, rows=rows))
