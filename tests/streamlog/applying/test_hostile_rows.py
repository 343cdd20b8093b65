"""Rows that a hostile source made: what cannot be replayed is never durable, and nobody else's topic is touched.

`tests/properties/test_hostile_frames.py` tries many more.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.streamlog.world import applied, batch_of, committed, frame, fresh, made, opened, produced, rows_of, values_at
from tests.support.batches import changed, produce

from fairlead.model.errors import CorruptBatch, FairleadError, InvalidValue
from fairlead.model.names import slice_of
from fairlead.protocol.batch import set_offset
from fairlead.streamlog import payloads
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.requests.topics import set_configs
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.writer import ShardLog

A, B = b"a" * 16, b"b" * 16
LINK = b"l" * 16
START = json.loads(payloads.encode(StartPayload("ttl", 5, ((0, 0),))))


def honest() -> Frame:
    """A topic and one batch of it."""
    a = fresh(A)
    produced(a, made(a).number, b"1")
    return frame(a, B, slice_of("ships"), 0)


def with_row(place: int, **fields: Any) -> Frame:
    """The honest frame, one row of which is another."""
    found = honest()
    rows = list(found.rows)
    rows[place] = rows[place]._replace(**fields)
    return replace(found, rows=rows)


def with_topic(**fields: Any) -> Frame:
    """The honest frame, whose TOPIC row says something else."""
    plain = json.loads(bytes(honest().rows[0].batch))
    return with_row(0, batch=json.dumps({**plain, **fields}).encode())


def with_start(at: int = 5, **fields: Any) -> Frame:
    """The honest frame with a START row for its batch."""
    return with_row(1, kind=Kind.START, base_offset=at, batch=json.dumps({**START, **fields}).encode())


def with_batch(at: int, epoch: int = 0) -> Frame:
    """The honest frame, whose batch stands elsewhere, in the row and in its header."""
    batch = set_offset(bytes(honest().rows[1].batch), at, epoch)
    return with_row(1, base_offset=at, last_offset=at, epoch=epoch, batch=batch)


def is_whole(log: ShardLog) -> ShardLog:
    """The log after a restart, with the same topics and ends."""
    again = opened(log.announced.storage, B)
    for topic in log.announced.state.topics():
        assert again.announced.state.topic(topic.number) == topic
        assert again.announced.state.partition(topic.number, 0) == log.announced.state.partition(topic.number, 0)
    return again


@pytest.mark.parametrize(
    "hostile",
    [
        with_topic(version=2**31),
        with_topic(epoch=2**31),
        with_topic(epoch=2**30),
        with_topic(version=-1),
        with_topic(partitions=0),
        with_topic(partitions=4097),
        with_topic(name="x" * 5000),
        with_topic(configs={str(n): "" for n in range(200)}),
        with_start(history=[[2**40, 0]]),
        with_start(history=[[-1, 0]]),
        with_start(history=[[1, 0], [0, 3]]),
        with_start(history=[[0, 3], [1, 0]]),
        with_start(history=[[0, 6]]),
        with_start(log_end=2**63),
        with_start(gap_from=-1),
        with_start(reason="x" * 5000),
        with_start(2**63 - 1, log_end=2**62 - 1),
        with_start(-1),
        with_batch(2**63 - 1),
        with_batch(2**62 - 1),
        with_batch(-1),
        with_batch(0, epoch=-1),
        with_batch(0, epoch=2**30),
        with_row(1, last_offset=2**40),
        with_row(1, max_timestamp=2**62),
    ],
)
def test_a_row_out_of_range_is_noted_and_never_written(hostile: Frame) -> None:
    """A version of 2**31 or a batch at 2**63 - 1 was durable, and the log could not be opened again."""
    log = fresh(B)
    applied(log, hostile)
    assert {note.reason for note in log.announced.state.behind(LINK)} <= {"crc", "unknown-topic"}
    assert log.announced.state.behind(LINK)
    again = is_whole(log)
    again.upkeep.checkpoint()
    is_whole(again)


@pytest.mark.parametrize("partition", [-1, -5, 4096, 2**31 - 1])
@pytest.mark.parametrize("kind", [Kind.BATCH, Kind.START])
def test_a_row_of_a_partition_that_no_topic_has_refuses_the_frame(kind: Kind, partition: int) -> None:
    """No note can speak of it; a draft would keep what the state then loses."""
    log = fresh(B)
    with pytest.raises(CorruptBatch, match=f"no topic has a partition {partition}"):
        applied(log, with_row(1, kind=kind, partition=partition))
    assert log.announced.end == 0


@pytest.mark.parametrize("kind", [0, 6, 7, 8, 9, 10, 255])
def test_a_row_of_a_kind_that_is_not_applied_refuses_the_frame(kind: int) -> None:
    """Passed over, it would be missing here for ever, since the position goes on. It stays where it is."""
    log = fresh(B)
    with pytest.raises(CorruptBatch, match=f"no rows of kind {kind}; is the source a newer version"):
        applied(log, with_row(1, kind=kind))
    assert (log.announced.end, log.announced.state.positions(LINK)) == (0, {})


def test_a_later_row_of_a_topic_does_not_give_it_another_name() -> None:
    """It would take the name, and so the clients, of a topic that is somebody else's."""
    a, b = fresh(A), fresh(B)
    mine = made(b, "mine")
    produced(b, mine.number, b"mine")
    topic = made(a)
    applied(b, frame(a, B, slice_of("ships"), 0))
    committed(a, lambda draft: set_configs(draft, "ships", {"cleanup.policy": "compact"}))
    later = frame(a, B, slice_of("ships"), a.announced.end - 1)
    plain = json.loads(bytes(later.rows[0].batch))
    row = later.rows[0]._replace(batch=json.dumps({**plain, "name": "mine"}).encode())
    named = {topic.number: later.topics[topic.number]._replace(name="mine")}
    applied(b, replace(later, rows=[row], topics=named, from_commit=0))
    found = b.announced.state.by_incarnation(topic.incarnation)
    assert found is not None
    assert (found.name, found.configs) == ("ships", {"cleanup.policy": "compact"})
    assert b.announced.state.by_name("mine") == mine
    assert values_at(is_whole(b), mine.number) == {0: b"mine"}


def near_the_end() -> ShardLog:
    """A log whose topic `ships` has room for two more records."""
    log = fresh(B)
    number = made(log).number

    def start(draft: Draft) -> Row:
        payload = StartPayload("ttl", OFFSET_MAX - 2, ())
        return draft.add_control(Kind.START, payload, number=number, partition=0, base_offset=OFFSET_MAX - 2)

    committed(log, start)
    return log


def test_a_partition_whose_offsets_are_used_up_takes_no_more() -> None:
    """A producer's batch that would go beyond is refused, and the log goes on."""
    log = near_the_end()
    number = next(log.announced.state.topics()).number
    with pytest.raises(InvalidValue, match="its offsets are used up"):
        produced(log, number, b"1", b"2", b"3")
    assert produced(log, number, b"1", b"2").base_offset == OFFSET_MAX - 2
    with pytest.raises(InvalidValue, match="its offsets are used up"):
        produced(log, number, b"3")
    assert log.announced.state.partition(number, 0).end == OFFSET_MAX
    is_whole(log)


def added(draft: Draft, number: int, partition: int, base: int, last: int, epoch: int) -> Row:
    """A batch that nobody has checked."""
    return draft.add_batch(number, partition, base, last, epoch, None, None, 0, batch_of(b""), records=1, bits=0, crc=0)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda number: lambda d: added(d, number, 0, 2**63 - 1, 2**63 - 1, 0),
        lambda number: lambda d: added(d, number, 0, 5, 4, 0),
        lambda number: lambda d: added(d, number, 0, 0, 0, 2**30),
        lambda number: lambda d: added(d, number, 1, 0, 0, 0),
        lambda number: lambda d: d.add_control(Kind.START, StartPayload("", 2**62, ()), number=number, partition=0),
        lambda number: lambda d: d.add_control(Kind.START, StartPayload("", 0, ()), number=number, partition=0),
    ],
)
def test_a_row_that_cannot_be_replayed_fails_while_it_is_drafted(request_of: Any) -> None:
    """Whoever asks for it: the draft replays by the code of a start. What the request added before is taken back, and
    its neighbours in the commit are not."""
    log = fresh(B)
    number = made(log).number
    batch = batch_of(b"1")

    def after_another(draft: Draft) -> None:
        produce(draft, number, 0, batch)
        request_of(number)(draft)

    answers = committed(
        log,
        lambda draft: produce(draft, number, 0, batch),
        after_another,
        lambda draft: produce(draft, number, 0, batch),
    )
    assert isinstance(answers[1].error, FairleadError)
    assert [row.base_offset for row in rows_of(log) if row.kind == Kind.BATCH] == [0, 1]
    assert is_whole(log).announced.state.partition(number, 0).end == 2


def test_what_a_batch_says_of_its_times_is_what_its_row_says() -> None:
    """Look-ups by time believe the row."""
    hostile = honest()
    row = hostile.rows[1]
    log = fresh(B)
    later = row._replace(batch=set_offset(changed(bytes(row.batch), max_timestamp=77), 0, 0))
    applied(log, replace(hostile, rows=[hostile.rows[0], later]))
    assert [note.reason for note in log.announced.state.behind(LINK)] == ["crc"]
