"""Rows of an owner of whom this site has not heard, what one that follows ends, and epochs above all that is here."""

from __future__ import annotations

from dataclasses import replace

from tests.streamlog.ownership.sites import (
    TOPIC,
    A,
    B,
    C,
    D,
    answer_of,
    end_of,
    fresh,
    history_of,
    id_of,
    link_of,
    noted,
    repaired,
    sent,
    sent_again,
    taken_over,
    topic_of,
    values_of,
    wrote,
)
from tests.streamlog.ownership.test_takeover import parted, started, three_sites
from tests.streamlog.world import applied, frame, repair_frame

from fairlead.model.names import slice_of
from fairlead.streamlog.payloads import DELETED_RECORDS, BehindPayload, decode_topic
from fairlead.streamlog.requests.topics import create_topic, delete_topic
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import DELETED_HERE
from fairlead.streamlog.writing.writer import ShardLog

RESCAN = b"r" * 16
"""Id of the link from a source after it was put back: it has no positions yet."""


def told_alone(source: ShardLog, replica: ShardLog, owner: bytes) -> None:
    """The topic's newest row alone comes over the link, and names that owner."""
    whole = frame(source, id_of(replica), slice_of(TOPIC), 0, link=link_of(source, replica))
    row = [row for row in whole.rows if row.kind == Kind.TOPIC][-1]
    row = row._replace(batch=bytes(row.batch).replace(id_of(source).hex().encode(), owner.hex().encode()))
    applied(replica, replace(whole, rows=[row]))


def test_what_an_unknown_owner_has_deleted_is_not_deleted_from_the_log_of_the_one_before() -> None:
    """B has deleted its record at 2. C, which has A's records there, hears that before it hears of B: B's row speaks of
    another log. A's records stay, to be read and to be kept for the diverged topic, until C knows of B."""
    a, b, c = parted()
    sent(a, c)
    started(b, c, 3, topic_of(b).epoch, history=history_of(b), reason=DELETED_RECORDS, deleted_to=3)
    assert c.announced.state.partition(topic_of(c).number, 0).log_start == 0
    assert values_of(c) == {0: b"0", 1: b"1", 2: b"late2", 3: b"late3"}
    assert [note.reason for note in noted(b, c)] == ["ownership"]


def test_what_is_gone_of_an_unknown_owners_log_is_neither_a_gap_here_nor_a_conflict() -> None:
    """B's records [2, 9) have expired there. C cannot tell what lies below 9 before it knows where B began: what A
    still sends would have no place behind such a gap, and A's records in the place of B's would be a conflict."""
    for records_of_a in (2, 4):
        a, b, c = parted()
        if records_of_a == 4:
            sent(a, c)
        started(b, c, 9, topic_of(b).epoch, history=history_of(b), gap_from=2)
        assert (end_of(c), history_of(c), c.announced.state.gaps()) == (records_of_a, ((0, 0),), [])
        assert [note.reason for note in noted(b, c)] == ["ownership"]
        sent_again(b, c)
        repaired(b, c)
        assert noted(b, c) == []
        assert values_of(c) == {0: b"0", 1: b"1", 2: b"b2"}


def test_a_change_of_owner_ends_a_conflict_of_a_copy_that_lacks_nothing() -> None:
    """There is nothing to be brought where the new epoch begins; yet what follows must come, and not be dropped as that
    of a topic which is set aside."""
    _, b, c = three_sites()
    taken_over(b)
    wrote(b, b"b2")
    sent(b, c)
    told_alone(b, c, owner=D)
    assert [note.conflict for note in noted(b, c)] == [True]
    taken_over(b)
    sent(b, c)
    assert [note.conflict for note in noted(b, c)] == [False]
    repaired(b, c)
    wrote(b, b"b3")
    sent(b, c)
    assert noted(b, c) == []
    assert values_of(c) == {0: b"0", 1: b"1", 2: b"b2", 3: b"b3"}


def damaged(source: ShardLog, replica: ShardLog) -> None:
    """All rows of the link come, and none holds together; a repair is asked for."""
    whole = frame(source, id_of(replica), slice_of(TOPIC), 0, link=link_of(source, replica))
    applied(replica, replace(whole, rows=[row._replace(batch=bytes(row.batch)[:-1]) for row in whole.rows]))
    assert [note.reason for note in noted(source, replica)] == ["crc"]


def test_a_topic_that_was_deleted_comes_back_though_the_row_that_brings_it_was_damaged() -> None:
    """B had taken it over before A, cut off, deleted it. A hears of that once; nothing else would bring it."""
    a, b, _ = three_sites()
    taken_over(b)
    wrote(b, b"b2")
    answer_of(a, lambda draft: delete_topic(draft, TOPIC))
    damaged(b, a)
    for _ in range(2):
        repaired(b, a)
    assert noted(b, a) == []
    assert values_of(a) == values_of(b)


def test_a_damaged_row_of_a_topic_that_stays_deleted_leaves_no_link_behind() -> None:
    """B has not heard that A has deleted the topic: there is nothing to bring."""
    a, b, c = three_sites()
    answer_of(a, lambda draft: delete_topic(draft, TOPIC))
    sent(a, c)
    damaged(b, c)
    repaired(b, c)
    assert noted(b, c) == []
    assert c.announced.state.by_name(TOPIC) is None


def test_the_next_epoch_is_above_every_epoch_of_the_copy() -> None:
    """Whatever a source has said of its history: a log whose epochs do not rise tells consumers wrong ends of them."""
    a, b, _ = three_sites()
    started(a, b, 9, epoch=0, history=((0, 0), (5000, 4)), gap_from=2)
    assert history_of(b) == ((0, 0), (5000, 4))
    taken_over(b)
    assert wrote(b, b"b9") == 9
    assert history_of(b) == ((0, 0), (5000, 4), (topic_of(b).epoch, 9))
    assert topic_of(b).epoch > 5000


def test_a_topic_that_lives_again_is_set_aside_on_no_link_as_deleted() -> None:
    """A had deleted it, and was put back to a copy from before: what it sends then waits for people. Then C hears from
    B, by another link, that B had taken it over before. What comes by A's link counts again, B's records too."""
    a, b, c = three_sites()
    copy = fresh(A)
    answer_of(copy, lambda draft: create_topic(draft, TOPIC, incarnation=topic_of(a).incarnation))
    wrote(copy, b"0", b"1")
    answer_of(a, lambda draft: delete_topic(draft, TOPIC))
    sent(a, c)
    applied(c, frame(copy, C, slice_of(TOPIC), 0, link=RESCAN))
    assert [note.topic for note in c.announced.state.deleted_here(RESCAN)] == [TOPIC]
    taken_over(b)
    sent(b, c)
    assert [(note.conflict, note.end) for note in c.announced.state.behind(RESCAN)] == [(False, 0)]
    sent(b, copy)
    wrote(b, b"b2")
    sent(b, copy)
    applied(c, repair_frame(copy, C, topic_of(copy).number, 0, 0, link=RESCAN))
    assert c.announced.state.behind(RESCAN) == []
    assert values_of(c) == values_of(b) == {0: b"0", 1: b"1", 2: b"b2"}


def test_whose_deletion_is_forgotten_is_set_aside_as_deleted_no_more() -> None:
    """A tombstone goes after some weeks, and its note stays. The topic is made again then, and must not be one of which
    all records are dropped."""
    a, _, _ = three_sites()
    b = fresh(B)
    topic = decode_topic(frame(a, B, slice_of(TOPIC), 0).rows[0].batch)
    noted_once = BehindPayload(link_of(a, b), TOPIC, topic.incarnation, 0, 0, DELETED_HERE, 0, create=topic)
    answer_of(b, lambda draft: draft.add_control(Kind.BEHIND, noted_once))
    assert [note.conflict for note in noted(a, b)] == [True]
    sent(a, b)
    repaired(a, b)
    assert noted(a, b) == []
    assert values_of(b) == values_of(a)
