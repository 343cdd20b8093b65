"""The origin rule: a partner speaks for its own stream and for nobody else, and brings no more than it may."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.streamlog.world import (
    applied,
    committed,
    frame,
    fresh,
    made,
    opened,
    produced,
    repair_frame,
    replicated,
    rows_of,
    values_at,
)

from fairlead.model.errors import InvalidValue, NotAllowed
from fairlead.model.names import SLICES, slice_of
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.frame import FrameOutcome, apply_frame
from fairlead.streamlog.applying.topics import ANOTHER_OWNER
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.ownership import hand_over, take_over
from fairlead.streamlog.requests.topics import delete_topic, set_configs, set_partitions, take_as
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.writer import ShardLog

A, B, C, D = (letter * 16 for letter in (b"a", b"b", b"c", b"d"))
LINK = b"l" * 16
PARTNER = Admission(frozenset({A}))
NOT_ITS_OWN = "conflict: the upstream is a partner, and the topic is none of its own (-origins)"


def taken(log: ShardLog, sent: Frame, admission: Admission = PARTNER) -> FrameOutcome:
    """What became of a frame of an upstream that may bring so much."""
    (answer,) = committed(log, lambda draft: apply_frame(draft, sent, admission))
    outcome = answer.result()
    assert isinstance(outcome, FrameOutcome)
    return outcome


def brought(source: ShardLog, replica: ShardLog, admission: Admission = PARTNER) -> None:
    """All slices of the source, from their beginnings."""
    for slice in range(SLICES):
        taken(replica, frame(source, replica.announced.state.stream_id, slice, 0), admission)


def reasons(log: ShardLog) -> dict[str, set[str]]:
    """What is noted of each topic on the link."""
    found: dict[str, set[str]] = {}
    for note in log.announced.state.behind(LINK):
        found.setdefault(note.topic, set()).add(note.reason)
    return found


def in_the_name_of(sent: Frame, topic: Topic, origin: bytes | None) -> Frame:
    """The frame's rows as if they spoke of that topic: with its name, incarnation and owner."""
    old = next(iter(sent.topics.values()))
    rows = []
    for row in sent.rows:
        text = bytes(row.batch)
        if row.kind != Kind.BATCH:
            text = text.replace(old.incarnation.hex().encode(), topic.incarnation.hex().encode())
            text = text.replace(f'"name":"{old.name}"'.encode(), f'"name":"{topic.name}"'.encode())
            text = text.replace(A.hex().encode(), topic.owner.hex().encode())
        rows.append(row._replace(batch=text, origin=origin))
    return replace(sent, rows=rows, topics=dict.fromkeys(sent.topics, FrameTopic(topic.incarnation, topic.name)))


def test_a_partner_brings_its_own_topics_and_no_relayed_ones() -> None:
    """Nothing of the others is applied; they are shown, ask for no repair, and hold nothing up."""
    third, partner, replica = fresh(C), fresh(A), fresh(B)
    produced(third, made(third, "theirs", 2).number, b"1")
    replicated(third, partner, link=b"m" * 16)
    mine = made(partner, "ships")
    produced(partner, mine.number, b"a")
    brought(partner, replica)
    copy = replica.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(replica, copy.number) == {0: b"a"}
    assert replica.announced.state.by_name("theirs") is None
    assert reasons(replica) == {"theirs": {NOT_ITS_OWN}}
    assert all(note.conflict for note in replica.announced.state.behind(LINK))
    positions = replica.announced.state.positions(LINK)
    assert {position.commit for position in positions.values()} == {partner.announced.end}
    again = opened(replica.announced.storage, B)
    assert again.announced.state.behind(LINK) == replica.announced.state.behind(LINK)


def test_a_batch_that_came_before_its_topic_was_refused_asks_for_no_repair_for_ever() -> None:
    """The repair brings the create row, and that is what is refused."""
    third, partner, replica = fresh(C), fresh(A), fresh(B)
    topic = made(third, "theirs")
    produced(third, topic.number, b"1")
    replicated(third, partner, link=b"m" * 16)
    relayed = partner.announced.state.by_name("theirs")
    assert relayed is not None
    whole = frame(partner, B, slice_of("theirs"), 0)
    taken(replica, replace(whole, rows=whole.rows[1:]))
    assert reasons(replica) == {"theirs": {"unknown-topic"}}
    taken(replica, repair_frame(partner, B, relayed.number, 0, 0))
    assert reasons(replica) == {"theirs": {NOT_ITS_OWN}}


def test_what_the_owner_lists_a_partner_may_bring_too() -> None:
    """And one's own brings all."""
    third, partner = fresh(C), fresh(A)
    produced(third, made(third, "theirs").number, b"1")
    replicated(third, partner, link=b"m" * 16)
    for admission in (Admission(frozenset({A, C})), Admission()):
        replica = fresh(B)
        brought(partner, replica, admission)
        copy = replica.announced.state.by_name("theirs")
        assert copy is not None
        assert values_at(replica, copy.number) == {0: b"1"}
        assert reasons(replica) == {}


@pytest.mark.parametrize("is_said_to_be_the_owners", [True, False])
@pytest.mark.parametrize("owner", [B, C])
def test_a_partner_changes_nothing_of_another_owner(owner: bytes, is_said_to_be_the_owners: bool) -> None:
    """Rows that name the topic and its owner, as only the owner could write them, or as the partner's own: a batch that
    fits at its end, a deletion of records, settings, partitions, a deletion. Each sets the topic aside on this link."""
    replica, victim = fresh(B), fresh(owner)
    log = replica if owner == B else victim
    number = made(log, "theirs").number
    produced(log, number, b"1")
    if owner != B:
        replicated(victim, replica, link=b"m" * 16)
    topic = replica.announced.state.by_name("theirs")
    assert topic is not None
    partner = fresh(A)
    mine = made(partner)
    produced(partner, mine.number, b"a")
    produced(partner, mine.number, b"b")
    committed(partner, lambda d: delete_records(d, mine.number, 0, 1))
    committed(partner, lambda d: set_partitions(d, "ships", 7), lambda d: set_configs(d, "ships", {"a": "b"}))
    committed(partner, lambda d: delete_topic(d, "ships"))
    whole = frame(partner, B, slice_of("ships"), 0)
    assert Kind.START in {row.kind for row in whole.rows}
    for row in whole.rows:
        origin = owner if is_said_to_be_the_owners else None
        taken(replica, in_the_name_of(replace(whole, rows=[row], from_commit=0), topic, origin))
    assert replica.announced.state.by_name("theirs") == topic
    assert values_at(replica, topic.number) == {0: b"1"}
    assert reasons(replica) == {"theirs": {NOT_ITS_OWN}}
    if owner != B:
        produced(victim, number, b"2")
        replicated(victim, replica, link=b"m" * 16)
        assert values_at(replica, topic.number) == {0: b"1", 1: b"2"}


def test_a_partner_writes_nothing_of_another_origin_into_its_own_topic() -> None:
    """As a record of ours it would never come back to us, and consumers would take it for ours."""
    partner, replica = fresh(A), fresh(B)
    produced(partner, made(partner).number, b"a")
    whole = frame(partner, B, slice_of("ships"), 0)
    rows = [row if row.kind != Kind.BATCH else row._replace(origin=B) for row in whole.rows]
    taken(replica, replace(whole, rows=rows))
    assert reasons(replica) == {"ships": {NOT_ITS_OWN}}
    assert [row.kind for row in rows_of(replica) if row.kind == Kind.BATCH] == []


@pytest.mark.parametrize("origin", [None, B])
def test_a_partner_appends_nothing_to_our_topic(origin: bytes | None) -> None:
    """A batch that follows what is here, and no row of the topic before it by which it would be set aside."""
    partner, replica = fresh(A), fresh(B)
    topic = made(replica, "theirs")
    produced(replica, topic.number, b"1")
    number = made(partner).number
    produced(partner, number, b"a")
    produced(partner, number, b"b")
    whole = frame(partner, B, slice_of("ships"), 0)
    (row,) = [row for row in whole.rows if row.base_offset == 1]
    taken(replica, in_the_name_of(replace(whole, rows=[row]), topic, origin))
    assert values_at(replica, topic.number) == {0: b"1"}
    assert reasons(replica) == {"theirs": {NOT_ITS_OWN}}


def test_a_partner_deletes_no_records_of_its_topic_in_our_name() -> None:
    """What a row says of deletions counts as its origin's, too."""
    partner, replica = fresh(A), fresh(B)
    number = made(partner).number
    produced(partner, number, b"a")
    brought(partner, replica)
    committed(partner, lambda d: delete_records(d, number, 0, 1))
    later = frame(partner, B, slice_of("ships"), partner.announced.end - 1)
    assert [row.kind for row in later.rows] == [Kind.START]
    taken(replica, replace(later, rows=[later.rows[0]._replace(origin=B)]))
    assert reasons(replica) == {"ships": {NOT_ITS_OWN}}
    copy = replica.announced.state.by_name("ships")
    assert copy is not None
    assert replica.announced.state.partition(copy.number, 0).deleted_to == 0


@pytest.mark.parametrize("is_partner", [True, False])
def test_a_partner_adds_no_partitions_to_a_topic_that_was_its_own(is_partner: bool) -> None:
    """It raised their number before it heard who has taken the topic over: clients of one's own know of them."""
    a, b = fresh(A), fresh(B)
    number = made(a).number
    replicated(a, b)
    committed(b, lambda d: take_over(d, "ships", owner_at="/mapr/b/s", writer_epoch_id=b.epoch.id))
    committed(a, lambda d: set_partitions(d, "ships", 7))
    topic = a.announced.state.topic(number)
    assert topic is not None
    assert topic.partitions == 7
    brought(a, b, PARTNER if is_partner else ANYBODY)
    here = b.announced.state.by_name("ships")
    assert here is not None
    assert (here.owner, here.partitions) == (B, 1 if is_partner else 7)


def test_a_topic_that_was_handed_to_the_partner_is_its_own() -> None:
    """The row that says so was written by the owner before it. A partner that never changes the topic again would
    otherwise never bring it, nor what it writes."""
    b, a, c = fresh(B), fresh(A), fresh(C)
    number = made(b).number
    produced(b, number, b"of b")
    committed(b, lambda d: hand_over(d, number, to=A, owner_at="/mapr/a/s", writer_epoch_id=b.epoch.id))
    replicated(b, a)
    brought(a, c)
    topic = c.announced.state.by_name("ships")
    assert topic is not None
    here = a.announced.state.by_name("ships")
    assert here is not None
    assert reasons(c) == {"ships": {"ownership"}}
    taken(c, repair_frame(a, C, here.number, 0, 0))
    assert (topic.owner, values_at(c, topic.number)) == (A, {0: b"of b"})
    assert not reasons(c)


@pytest.mark.parametrize("with_record", [False, True])
def test_no_topic_yields_its_name_to_a_partner(with_record: bool) -> None:
    """The smaller id, and the first record, win among one's own; a partner could take any name that way."""
    partner, replica = fresh(A), fresh(B)
    mine, theirs = made(replica), made(partner)
    if with_record:
        produced(partner, theirs.number, b"a")
    brought(partner, replica)
    assert replica.announced.state.by_name("ships") == mine
    assert reasons(replica) == {"ships": {"conflict: another topic holds the name ships"}}


def test_a_partner_buries_nothing_that_was_never_here() -> None:
    """It would keep out a topic of somebody else that is still to come."""
    partner, replica, other = fresh(A), fresh(B), fresh(C)
    to_come = made(other, "ports")
    produced(other, to_come.number, b"c")
    made(partner)
    committed(partner, lambda draft: delete_topic(draft, "ships"))
    whole = frame(partner, B, slice_of("ships"), 0)
    taken(replica, in_the_name_of(replace(whole, rows=whole.rows[-1:]), to_come, C))
    assert not replica.announced.state.tombstones
    replicated(other, replica, link=b"m" * 16)
    assert replica.announced.state.by_name("ports") is not None


def test_a_topic_that_a_partner_deletes_waits_for_its_name_on_no_link_any_more() -> None:
    """Also not on one that has ended since, as a side copy does: nobody would say there that it is gone, and whoever
    took it by another name would have an empty topic for ever."""
    partner, replica = fresh(A), fresh(B)
    made(replica)
    theirs = made(partner)
    produced(partner, theirs.number, b"a")
    side = b"s" * 16
    for link in (side, LINK):
        taken(replica, frame(partner, B, slice_of("ships"), 0, link=link))
    assert len(replica.announced.state.all_notes()) == 2
    committed(partner, lambda draft: delete_topic(draft, "ships"))
    brought(partner, replica)
    assert not replica.announced.state.all_notes()
    with pytest.raises(InvalidValue, match="no topic waits here"):
        committed(replica, lambda draft: take_as(draft, "ships", "ships-of-a"))[0].result()


def test_a_topic_of_somebody_else_waits_for_its_name_though_a_partner_deletes_it() -> None:
    partner, replica, other = fresh(A), fresh(B), fresh(C)
    produced(replica, made(replica).number, b"b")
    waiting = made(other)
    produced(other, waiting.number, b"c")
    replicated(other, replica, link=b"m" * 16)
    before = dict(replica.announced.state.all_notes())
    assert before
    made(partner)
    committed(partner, lambda draft: delete_topic(draft, "ships"))
    whole = frame(partner, B, slice_of("ships"), 0)
    taken(replica, in_the_name_of(replace(whole, rows=whole.rows[-1:]), waiting, C))
    assert replica.announced.state.all_notes() == before


def test_no_upstream_gives_a_topic_another_owner_in_the_same_epoch() -> None:
    """Also one's own: each change of owner has an epoch of its own, so such a row is a fault or a lie."""
    source, replica = fresh(A), fresh(B)
    made(source)
    replicated(source, replica)
    committed(source, lambda draft: set_configs(draft, "ships", {"cleanup.policy": "compact"}))
    later = frame(source, B, slice_of("ships"), source.announced.end - 1)
    lie = later.rows[0]._replace(batch=bytes(later.rows[0].batch).replace(A.hex().encode(), D.hex().encode()))
    applied(replica, replace(later, rows=[lie]))
    topic = replica.announced.state.by_name("ships")
    assert topic is not None
    assert topic.owner == A
    assert reasons(replica) == {"ships": {f"conflict: {ANOTHER_OWNER}"}}


def test_a_partner_brings_no_more_topics_and_partitions_than_it_may() -> None:
    """The frame is refused whole and the position stays, so nothing is missing once there is room."""
    partner, replica = fresh(A), fresh(B)
    other_slice = next(f"p{n}" for n in range(99) if slice_of(f"p{n}") != slice_of("t1"))
    for number in range(3):
        made(replica, f"mine{number}", 9)
    made(partner, "t1", 2)
    made(partner, other_slice, 2)
    for limits, said in (
        ((1, None), "topics in a shard, 1 are allowed"),
        ((None, 3), "3 are allowed; raise partner_partitions_max"),
    ):
        few = replace(PARTNER, topics_max=limits[0], partitions_max=limits[1])
        other = fresh(B)
        with pytest.raises(NotAllowed, match=said):
            brought(partner, other, few)
    enough = replace(PARTNER, topics_max=2, partitions_max=4)
    brought(partner, replica, enough)
    assert replica.announced.state.owned_by(A) == (2, 4)
    committed(partner, lambda draft: set_partitions(draft, "t1", 3))
    with pytest.raises(NotAllowed, match="5 partitions"):
        brought(partner, replica, enough)
    assert replica.announced.state.owned_by(A) == (2, 4)
    committed(partner, lambda draft: delete_topic(draft, other_slice))
    later = frame(partner, B, slice_of(other_slice), 0)
    taken(replica, later, enough)
    brought(partner, replica, enough)
    assert replica.announced.state.owned_by(A) == (1, 3)
    assert opened(replica.announced.storage, B).announced.state.owned_by(A) == (1, 3)


def test_a_partner_leaves_no_more_notes_than_it_may() -> None:
    """One row of 200 bytes leaves a note for each of 4,096 partitions."""
    third, partner, replica = fresh(C), fresh(A), fresh(B)
    made(third, "theirs", 4096)
    replicated(third, partner, link=b"m" * 16)
    with pytest.raises(NotAllowed, match="partner_notes_max"):
        brought(partner, replica, replace(PARTNER, notes_max=4095))
    assert reasons(replica) == {}
    brought(partner, replica, replace(PARTNER, notes_max=4096))
    assert len(replica.announced.state.behind(LINK)) == 4096
