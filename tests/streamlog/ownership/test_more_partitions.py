"""Partitions that one owner of a topic has added while another one's epoch began without them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.streamlog.ownership.sites import (
    TOPIC,
    A,
    B,
    C,
    answer_of,
    cuts_in,
    fresh,
    handed_over,
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
from tests.streamlog.world import applied, frame, made

from fairlead.model.names import slice_of
from fairlead.streamlog.applying.admission import ANYBODY
from fairlead.streamlog.applying.claims import hear
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.topics import set_partitions
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.writing.writer import ShardLog


def three_sites() -> tuple[ShardLog, ShardLog, ShardLog]:
    """A owns the topic; B and C have copies of its two records."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(a)
    wrote(a, b"0", b"1")
    sent(a, b)
    sent(a, c)
    return a, b, c


def grown(site: ShardLog, partitions: int) -> None:
    """The topic has so many partitions now, as its owner says."""
    answer_of(site, lambda draft: set_partitions(draft, TOPIC, partitions))


def test_old_owner_with_more_partitions() -> None:
    """A raised their number unseen. It keeps both, of which the second begins with B, so all that A wrote there is cut
    off; and B raises its number when it hears of them."""
    a, b, c = three_sites()
    answer_of(a, lambda draft: set_partitions(draft, TOPIC, 2))
    wrote(a, b"late", partition=1)
    taken_over(b)
    sent(b, a)
    assert (topic_of(a).owner, topic_of(a).partitions) == (B, 2)
    assert cuts_in(a) == [(1, 0)]
    sent_again(a, b)
    assert topic_of(b).partitions == 2
    assert wrote(b, b"b0", partition=1) == 0
    sent(b, a)
    sent(b, c)
    assert values_of(a, 1) == values_of(c, 1) == {0: b"b0"}


def test_a_third_site_waits_for_no_partition_of_an_owner_of_before() -> None:
    """A's rows of a partition that B did not know when it took the topic over come to C: they are superseded as all
    that A wrote late. A note would stand for ever, since no row will say that there is such a partition."""
    a, b, c = three_sites()
    grown(a, 2)
    wrote(a, b"late", partition=1)
    answer_of(a, lambda draft: delete_records(draft, topic_of(a).number, 1, -1))
    taken_over(b)
    sent(b, c)
    position = c.announced.state.position((link_of(a, c), 0, slice_of(TOPIC)))
    assert position is not None
    part = frame(a, C, slice_of(TOPIC), position.commit, link=link_of(a, c))
    of_partition = replace(part, rows=[row for row in part.rows if row.partition == 1])
    assert {row.kind for row in of_partition.rows} == {Kind.BATCH, Kind.START}
    assert applied(c, of_partition)[0].outdated == {topic_of(c).number}
    sent(a, c)
    assert topic_of(c).partitions == 1
    assert noted(a, c) == []


def test_a_partition_that_is_waited_for_is_superseded_by_a_new_owner() -> None:
    """C lacks the row that added a partition of which it was brought a record. Then B, which never had the partition,
    takes the topic over: C waits no more."""
    a, b, c = three_sites()
    grown(a, 2)
    wrote(a, b"late", partition=1)
    position = c.announced.state.position((link_of(a, c), 0, slice_of(TOPIC)))
    assert position is not None
    part = frame(a, C, slice_of(TOPIC), position.commit, link=link_of(a, c))
    applied(c, replace(part, rows=[row for row in part.rows if row.kind == Kind.BATCH]))
    assert [(note.partition, note.reason) for note in noted(a, c)] == [(1, "unknown-topic")]
    taken_over(b)
    sent(b, c)
    repaired(a, c)
    assert noted(a, c) == []


def test_an_owner_tells_of_partitions_that_the_row_which_made_it_one_lacks() -> None:
    """B got the topic from A, has added a partition and passed the topic on to C. A, which knows nothing of that, takes
    the topic back and gives it to B again, in a higher epoch: B has more partitions than A's row says, and A and C must
    hear of them from B, else they wait for ever when B writes them."""
    for how in (sent, _hears):
        a, b, c = three_sites()
        handed_over(a, b)
        sent(a, b)
        grown(b, 2)
        while topic_of(a).epoch <= topic_of(b).epoch or topic_of(a).owner != B:
            taken_over(a)
            handed_over(a, b)
        how(a, b)
        assert (topic_of(b).owner, topic_of(b).epoch, topic_of(b).partitions) == (B, topic_of(a).epoch, 2)
        wrote(b, b"more", partition=1)
        sent(b, a)
        sent(b, c)
        assert topic_of(a).partitions == topic_of(c).partitions == 2
        assert values_of(a, 1) == values_of(c, 1) == {0: b"more"}
        assert noted(b, a) == noted(b, c) == []


def _hears(source: ShardLog, destination: ShardLog) -> None:
    """The destination, a source of the other one, is told in an answer."""
    told = [payload_of(topic_of(source))]
    answer_of(destination, partial(hear, source=id_of(source), topics=told, admission=ANYBODY))
