"""What a link brings of the partitions that its replica has noted behind."""

from __future__ import annotations

from dataclasses import replace

from tests.streamlog.ownership.sites import (
    TOPIC,
    A,
    B,
    C,
    answer_of,
    fresh,
    link_of,
    noted,
    sent,
    taken_over,
    topic_of,
    wrote,
)
from tests.streamlog.world import applied, frame, made, repair_frame

from fairlead.cluster.topic_filter import LinkTopics, TopicFilter
from fairlead.gateway.links.passing import passing_partitions
from fairlead.model.names import slice_of
from fairlead.streamlog.requests.cursors import commit_cursor, publish_cursors
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.writer import ShardLog

ALL = LinkTopics()
GROUP = "g"


def test_a_replica_gets_no_topic_by_what_a_group_has_committed_of_it_at_a_source_that_forwards_its_own() -> None:
    """C's topic, with a group at B. A's link from B brings what began at B: a commit of the group, and no topic. Once
    the topic has come from C, the repair brings the commit."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(c)
    wrote(c, b"0", b"1")
    sent(c, b)
    _committed(b, 1)
    sent(b, a, own=True)
    assert [note.reason for note in noted(b, a)] == ["cursor-of-unknown-topic"]
    assert passing_partitions(b.announced.state, ALL, "own", noted(b, a)) == []
    sent(c, a)
    ((number, wanted),) = passing_partitions(b.announced.state, ALL, "own", noted(b, a))
    assert wanted.end == 2
    applied(a, repair_frame(b, A, number, wanted.partition, wanted.end, link=link_of(b, a)))
    assert noted(b, a) == []
    found = a.announced.state.cursors(GROUP, topic_of(a).number, 0).theirs
    assert found is not None
    assert found.offset == 1


def test_a_topic_that_was_the_sources_own_is_brought_where_it_is_not_known() -> None:
    a, b = fresh(A), fresh(B)
    made(b)
    wrote(b, b"0")
    part = frame(b, A, slice_of(TOPIC), 0, link=link_of(b, a))
    applied(a, replace(part, rows=part.rows[1:]))
    assert len(passing_partitions(b.announced.state, ALL, "own", noted(b, a))) == 1
    c = fresh(C)
    sent(b, c)
    taken_over(c)
    sent(c, b)
    assert len(passing_partitions(b.announced.state, ALL, "own", noted(b, a))) == 1


def test_no_repair_brings_a_topic_that_the_link_leaves_out() -> None:
    """It was noted behind before the link's filter became narrower."""
    a, b = fresh(A), fresh(B)
    made(b)
    wrote(b, b"0")
    part = frame(b, A, slice_of(TOPIC), 0, link=link_of(b, a))
    applied(a, replace(part, rows=part.rows[1:]))
    for left_out, count in (("ports", 1), (TOPIC, 0)):
        passing = LinkTopics(TopicFilter(None, left_out))
        assert len(passing_partitions(b.announced.state, passing, "all", noted(b, a))) == count


def test_what_a_group_has_committed_brings_a_topic_that_was_the_sources_own() -> None:
    """No other link may bring it: the records went from here."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(b)
    wrote(b, b"0")
    _committed(b, 1)
    part = frame(b, A, slice_of(TOPIC), 0, link=link_of(b, a))
    applied(a, replace(part, rows=[row for row in part.rows if row.kind == Kind.CURSOR]))
    assert [note.reason for note in noted(b, a)] == ["cursor-of-unknown-topic"]
    assert len(passing_partitions(b.announced.state, ALL, "own", noted(b, a))) == 1
    sent(b, c)
    taken_over(c)
    sent(c, b)
    assert len(passing_partitions(b.announced.state, ALL, "own", noted(b, a))) == 1


def _committed(site: ShardLog, offset: int) -> None:
    """The group commits that offset, which is told to links."""
    number = topic_of(site).number
    answer_of(site, lambda draft: commit_cursor(draft, GROUP, number, 0, offset))
    answer_of(site, lambda draft: publish_cursors(draft, [(GROUP, number, 0)]))
