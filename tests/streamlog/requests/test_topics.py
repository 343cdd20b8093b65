"""Changes of topics: at their owner only, never fewer partitions; and what arrives of them over a link."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.streamlog.world import applied, committed, frame, fresh, made, opened, produced, replicated, values_at

from fairlead.model.errors import InvalidValue, NotOwner
from fairlead.model.names import slice_of
from fairlead.streamlog import payloads
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.payloads import TopicDeletedPayload
from fairlead.streamlog.requests.topics import create_topic, delete_topic, set_configs, set_partitions
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.streamlog.writing.writer import ShardLog

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
LINK, OTHER_LINK = b"l" * 16, b"m" * 16


@pytest.mark.parametrize("partitions", [0, 1, 2])
def test_partitions_become_more_or_it_is_refused(partitions: int) -> None:
    """Records of a partition that went would be lost."""
    log = fresh(A)
    made(log, partitions=2)
    with pytest.raises(InvalidValue):
        committed(log, lambda d: set_partitions(d, "ships", partitions))[0].result()


@pytest.mark.parametrize(
    "change",
    [
        lambda d: delete_topic(d, "ships"),
        lambda d: set_partitions(d, "ships", 9),
        lambda d: set_configs(d, "ships", {"cleanup.policy": "compact"}),
    ],
)
def test_a_topic_is_changed_at_its_owner_only(change: DraftRequest[object]) -> None:
    """At a replica the change would be lost, or the two would differ."""
    a, b = fresh(A), fresh(B)
    made(a)
    replicated(a, b)
    with pytest.raises(NotOwner):
        committed(b, change)[0].result()
    assert b.announced.state.by_name("ships") is not None


def topic_frame(a: ShardLog, **changes: object) -> Frame:
    """The frame that brings the topic `ships` of A, with other words in its TOPIC row."""
    f = frame(a, B, slice_of("ships"), 0)
    payload = payloads.decode_topic(f.rows[0].batch)
    row = f.rows[0]._replace(batch=payloads.encode(replace(payload, **changes)))  # type: ignore[arg-type]
    return replace(f, rows=[row])


@pytest.mark.parametrize("changes", [{"partitions": 0}, {"partitions": 1_000_000}, {"incarnation": b"x" * 16}])
def test_a_create_row_that_makes_no_sense_is_behind(changes: dict[str, object]) -> None:
    """It is no topic, or not the one that the frame names: nothing is made of it."""
    a, b = fresh(A), fresh(B)
    made(a)
    assert applied(b, topic_frame(a, **changes))[0].behind == 1
    assert b.announced.state.by_name("ships") is None


def test_a_newer_row_with_fewer_partitions_takes_none_away() -> None:
    """Clients know of them, whoever sent the row; what else it says holds."""
    a, b = fresh(A), fresh(B)
    made(a, partitions=3)
    replicated(a, b)
    before = b.announced.state.by_name("ships")
    applied(b, topic_frame(a, partitions=2, version=9))
    assert before is not None
    assert b.announced.state.by_name("ships") == before._replace(version=9)


def test_a_topic_that_made_room_at_its_sender_stays_here() -> None:
    """Only a deletion by its owner deletes."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    f = frame(a, B, slice_of("ships"), 0)
    for yielded in (True, False):
        batch = payloads.encode(TopicDeletedPayload("ships", topic.incarnation, yielded))
        applied(b, replace(f, rows=[f.rows[0]._replace(kind=int(Kind.TOPIC_DELETED), batch=batch)]))
        assert (b.announced.state.by_name("ships") is not None) == yielded


def test_partitions_that_are_added_to_a_topic_in_conflict_are_set_aside_too() -> None:
    """Their records belong to the other history."""
    a, b, other = fresh(A), fresh(B), fresh(A)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    twin = committed(other, lambda d: create_topic(d, "ships", 1, incarnation=topic.incarnation))[0].result()
    produced(other, twin.number, b"another")
    replicated(other, b, link=OTHER_LINK)
    committed(other, lambda d: set_partitions(d, "ships", 2))
    replicated(other, b, link=OTHER_LINK)
    assert sorted(note.partition for note in b.announced.state.behind(OTHER_LINK) if note.conflict) == [0, 1]


def test_a_deletion_that_arrives_frees_the_name_for_whoever_waits() -> None:
    """As one that is made here does."""
    a, c, b = fresh(A), fresh(C), fresh(B)
    waiting, holder = made(a), made(c)
    produced(c, holder.number, b"c")
    produced(a, waiting.number, b"a")
    replicated(c, b, link=OTHER_LINK)
    replicated(a, b, link=LINK)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"c"}
    committed(c, lambda d: delete_topic(d, "ships"))
    replicated(c, b, link=OTHER_LINK)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert copy.incarnation == waiting.incarnation


def test_a_topic_that_grows_by_one_partition_at_a_time_keeps_no_room_for_all_that_it_was() -> None:
    """A row of 200 bytes for each of 4,096 partitions took 240 MB; each keeps its log, also after a restart."""
    log = fresh()
    made(log, "wide", 1)
    other = made(log, "other", 3)
    produced(log, other.number, b"x", partition=2)
    number = next(topic.number for topic in log.announced.state.topics() if topic.name == "wide")
    for count in range(2, 301):
        produced(log, number, b"%d" % count, partition=count - 2)
        committed(log, partial(set_partitions, name="wide", partitions=count))
    assert len(log.announced.state.partition_table.start) < 3 + 4 * 300
    for state in (log.announced.state, opened(log.announced.storage).announced.state):
        assert [state.partition(number, p).end for p in range(300)] == [1] * 299 + [0]
        assert state.partition(other.number, 2).end == 1
