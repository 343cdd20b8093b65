"""Deleted records are gone for readers at once and for ever: at the owner, at every replica, however late they hear."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streamlog.world import (
    FakeClock,
    SeededRandomness,
    applied,
    batch_of,
    committed,
    frame,
    fresh,
    installed,
    made,
    opened,
    produced,
    repair_frame,
    replicated,
    rows_of,
    values_at,
)
from tests.support.batches import produce

from fairlead.model.errors import NotAllowed, NotOwner, OffsetOutOfRange, UnknownPartition, UnknownTopic
from fairlead.model.names import slice_of
from fairlead.model.settings import Settings
from fairlead.protocol.batch import read_header
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.requests.deletion import TO_THE_END, delete_records
from fairlead.streamlog.requests.topics import delete_topic, set_configs
from fairlead.streamlog.rows import NO_COMMIT, Kind, Row
from fairlead.streamlog.set_aside.cure import set_aside
from fairlead.streamlog.values import PartitionState, Topic
from fairlead.streamlog.writing.writer import ShardLog

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
MERGING = Settings(merge_commits_min=1, merge_idle_seconds=0.0, checkpoint_interval_seconds=0.0)
TTL_MS = 10_000
_merges = itertools.count(1)
"""Seeds: two merges at one end of a log, with time between them, give no name twice."""


def deleted(log: ShardLog, topic: Topic, offset: int, partition: int = 0) -> int:
    """Where the log begins for clients after the deletion."""
    found = committed(log, lambda draft: delete_records(draft, topic.number, partition, offset))[0].result()
    assert isinstance(found, int)
    return found


def merged(log: ShardLog) -> None:
    """All that there is to merge is merged."""
    ids = SeededRandomness(next(_merges))
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, ids, job))


def state_of(log: ShardLog, name: str = "ships", partition: int = 0) -> PartitionState:
    topic = log.announced.state.by_name(name)
    assert topic is not None
    return log.announced.state.partition(topic.number, partition)


def values_of(log: ShardLog, name: str = "ships") -> dict[int, bytes | None]:
    topic = log.announced.state.by_name(name)
    assert topic is not None
    return values_at(log, topic.number)


def with_batches(log: ShardLog, *counts: int) -> Topic:
    """A topic with a batch of so many records each; the values are the offsets."""
    topic, next_offset = made(log), 0
    for count in counts:
        produced(log, topic.number, *[b"%d" % (next_offset + more) for more in range(count)])
        next_offset += count
    return topic


def test_an_offset_inside_a_batch_is_where_the_log_begins_for_clients() -> None:
    """As in Kafka: a Fetch below it is out of range, one at it gets the whole batch, of which clients skip the rest."""
    log = fresh()
    topic = with_batches(log, 10, 10, 10)
    assert deleted(log, topic, 15) == 15
    assert values_of(log) == {offset: b"%d" % offset for offset in range(15, 30)}
    for offset in (0, 10, 14):
        with pytest.raises(OffsetOutOfRange, match=rf"offset {offset} is outside \[15, 30\]"):
            log.reader.fetch(topic.number, 0, offset, 1000)
    found = log.reader.fetch(topic.number, 0, 15, 1)
    assert (found.log_start, found.high_watermark, read_header(found.batches[0]).base_offset) == (15, 30, 10)
    assert log.reader.offset_for_time(topic.number, 0, 0) == (15, 0)
    assert log.reader.fetch(topic.number, 0, 30, 1).log_start == 15
    assert produced(log, topic.number, b"30").log_start == 15


def test_the_offset_never_goes_back_and_is_never_beyond_the_end() -> None:
    """What deletes nothing writes nothing; -1 is the end."""
    log = fresh()
    topic = with_batches(log, 10)
    assert deleted(log, topic, 5) == 5
    end = log.announced.end
    assert [deleted(log, topic, offset) for offset in (0, 4, 5)] == [5, 5, 5]
    for offset in (11, -2, 2**62):
        with pytest.raises(OffsetOutOfRange):
            deleted(log, topic, offset)
    assert log.announced.end == end
    assert (deleted(log, topic, TO_THE_END), values_of(log)) == (10, {})
    produced(log, topic.number, b"10")
    assert values_of(log) == {10: b"10"}


def test_only_the_owner_deletes_and_not_what_is_compacted() -> None:
    """Nor what is not there."""
    log, replica = fresh(A), fresh(B)
    topic = with_batches(log, 10)
    replicated(log, replica)
    copy = replica.announced.state.by_name("ships")
    assert copy is not None
    with pytest.raises(NotOwner, match="6161"):
        deleted(replica, copy, 5)
    committed(log, lambda draft: set_configs(draft, "ships", {"cleanup.policy": "compact"}))
    with pytest.raises(NotAllowed, match=r"cleanup\.policy"):
        deleted(log, topic, 5)
    committed(log, lambda draft: set_configs(draft, "ships", {"cleanup.policy": "compact,delete"}))
    assert deleted(log, topic, 5) == 5
    with pytest.raises(UnknownPartition):
        deleted(log, topic, 5, partition=1)
    committed(log, lambda draft: delete_topic(draft, "ships"))
    with pytest.raises(UnknownTopic):
        deleted(log, topic, 5)
    assert log.announced.state.deleted_to() == {}


def test_a_merge_drops_whole_batches_and_the_log_alone_knows_where_it_begins() -> None:
    """The batch that holds the offset stays as it is. A restart, with the checkpoint or without, finds the same."""
    log = fresh(settings=MERGING)
    topic = with_batches(log, 10, 10, 10)
    deleted(log, topic, 15)
    merged(log)
    assert [row.base_offset for row in rows_of(log) if row.kind == Kind.BATCH] == [10, 20]
    expected = PartitionState(10, 30, 0, ((0, 0),), 15)
    assert state_of(log) == expected
    storage = log.announced.storage
    assert isinstance(storage, MemoryStorage)
    without = MemoryStorage()
    without.replace({name: data for name, data in storage.snapshot().items() if "/checkpoint/" not in name})
    assert without.snapshot().keys() != storage.snapshot().keys()
    for again in (opened(storage), opened(without)):
        assert state_of(again) == expected
        assert min(values_of(again)) == 15
    assert check_all(storage) == []


def test_a_restart_before_the_merge_finds_the_deletion() -> None:
    """It is a row like others."""
    log = fresh()
    deleted(log, with_batches(log, 10, 10), 15)
    assert state_of(opened(log.announced.storage)) == PartitionState(0, 20, 0, ((0, 0),), 15)


def test_a_replica_that_holds_the_records_hides_them() -> None:
    """And drops them when it merges; it forwards the row, so the next one in the chain does too."""
    a, b, c = fresh(A), fresh(B, settings=MERGING), fresh(C)
    topic = with_batches(a, 10, 10, 10)
    replicated(a, b)
    replicated(b, c)
    deleted(a, topic, 15)
    replicated(a, b)
    replicated(b, c)
    for log in (b, c):
        assert (state_of(log).log_start, min(values_of(log)), log.announced.state.gaps()) == (15, 15, [])
    merged(b)
    assert state_of(b).start == 10
    late = fresh(b"d" * 16)
    replicated(b, late)
    assert (state_of(late), late.announced.state.gaps()) == (PartitionState(10, 30, 0, ((0, 0),), 15), [])


def test_a_replica_that_lags_gets_no_gap_for_what_was_deleted() -> None:
    """It held [0, 10), the rest was deleted and merged away before it came. The batch that holds the offset comes."""
    a, b = fresh(A, settings=MERGING), fresh(B)
    topic = with_batches(a, 10)
    replicated(a, b)
    for first in (10, 20):
        produced(a, topic.number, *[b"%d" % (first + more) for more in range(10)])
    deleted(a, topic, 25)
    merged(a)
    replicated(a, b)
    assert (state_of(b), b.announced.state.gaps()) == (PartitionState(20, 30, 0, ((0, 0),), 25), [])
    assert min(values_of(b)) == 25


def test_a_deletion_before_its_batch_has_come_shows_no_log_that_begins_beyond_its_end() -> None:
    """The row that a merge leaves says what was deleted beyond it. A client sees the end, then the offset."""
    a, b = fresh(A, settings=MERGING), fresh(B)
    topic = with_batches(a, 10, 10)
    commit = a.announced.end
    merged(a)
    produced(a, topic.number, *[b"%d" % (20 + more) for more in range(10)])
    deleted(a, topic, 25)
    start = StartPayload("deleted-records", 30, ((0, 0),), deleted_to=25)
    told = frame(a, B, slice_of("ships"), 0, commit)
    row = next(row for row in rows_of(a) if row.kind == Kind.START)
    row = row._replace(base_offset=20, batch=payloads.encode(start))
    applied(b, replace(told, rows=[told.rows[0], row]))
    assert (state_of(b).log_start, state_of(b).end) == (20, 20)
    replicated(a, b)
    assert (state_of(b).log_start, min(values_of(b))) == (25, 25)


def test_a_later_expiry_does_not_undo_a_deletion() -> None:
    """A slow link finds both rows, or one that says both: else its replica, whose records live longer, would keep what
    was deleted."""
    clock = FakeClock()
    a, b = fresh(A, settings=MERGING, clock=clock), fresh(B)
    a.upkeep.set_retention(TTL_MS)
    topic = with_batches(a, 10, 10)
    replicated(a, b)
    deleted(a, topic, 5)
    clock.pass_ms(3 * TTL_MS)
    merged(a)
    assert state_of(a) == PartitionState(20, 20, 0, ((0, 0),), 5)
    assert values_of(a) == {}
    produced(a, topic.number, b"20")
    merged(a)
    replicated(a, b)
    assert sorted(values_of(b)) == [*range(5, 21)]
    late = fresh(C)
    replicated(a, late)
    assert (sorted(values_of(late)), late.announced.state.gaps()) == ([20], [])


@pytest.mark.parametrize("deleted_to", [5, 15, 20])
def test_a_row_of_expiry_that_carries_a_deletion_deletes(deleted_to: int) -> None:
    """Whatever its reason, and whether the replica holds the records or not."""
    a, b, behind = fresh(A), fresh(B), fresh(C)
    topic = with_batches(a, 10)
    replicated(a, behind)
    produced(a, topic.number, *[b"%d" % (10 + more) for more in range(10)])
    replicated(a, b)
    carried = StartPayload("ttl", 20, ((0, 0),), deleted_to=deleted_to)
    for log in (b, behind):
        applied(log, with_start(frame(a, log.announced.state.stream_id, slice_of("ships"), 1), 20, carried))
    assert (state_of(b).log_start, sorted(values_of(b))) == (deleted_to, [*range(deleted_to, 20)])
    assert sorted(values_of(behind)) == [*range(deleted_to, 10)]
    gaps = [] if deleted_to == 20 else [(10, 20)]
    assert [(gap.start, gap.end) for gap in behind.announced.state.gaps()] == gaps


def with_start(found: Frame, base_offset: int, payload: StartPayload) -> Frame:
    """The frame with a START row alone."""
    row = found.rows[0]
    start = Row(
        Kind.START,
        row.topic,
        0,
        base_offset,
        -1,
        0,
        20,
        0,
        None,
        None,
        NO_COMMIT,
        row.appended_at,
        -1,
        0,
        0,
        0,
        row.commit,
        row.row,
        payloads.encode(payload),
    )
    return replace(found, rows=[start])


def test_a_repair_brings_a_deletion_that_was_refused() -> None:
    """The partition was behind when it came: its row says nothing of offsets beyond the replica's end."""
    a, b = fresh(A), fresh(B)
    topic = with_batches(a, 10)
    deleted(a, topic, 5)
    beginning = frame(a, B, slice_of("ships"), 0)
    without_topic = [row for row in beginning.rows if row.kind != Kind.TOPIC]
    (outcome,) = applied(b, replace(beginning, rows=without_topic))
    assert outcome.behind == 2
    applied(b, repair_frame(a, B, topic.number, 0, 0))
    assert (state_of(b).log_start, b.announced.state.behind(b"l" * 16)) == (5, [])


@pytest.mark.parametrize("times", [1, 2])
def test_frames_may_come_again(times: int) -> None:
    """A link that reads its source anew changes nothing, though the batches are gone here."""
    a, b = fresh(A), fresh(B, settings=MERGING)
    topic = with_batches(a, 10, 10)
    deleted(a, topic, 15)
    for _ in range(times):
        (outcome,) = applied(b, frame(a, B, slice_of("ships"), 0))
        assert (outcome.behind, outcome.conflicts) == (0, 0)
        merged(b)
    assert state_of(b) == PartitionState(10, 20, 0, ((0, 0),), 15)
    assert len([row for row in rows_of(b) if row.kind == Kind.START]) <= 2


def test_a_partner_deletes_no_records_of_others() -> None:
    """The origin rule: a topic whose rows do not count is set aside on that link, and keeps its records."""
    a, b = fresh(A), fresh(B)
    with_batches(a, 10)
    replicated(a, b)
    hostile = with_start(frame(a, B, slice_of("ships"), 1), 0, StartPayload("deleted-records", 10, (), deleted_to=10))
    partner = Admission(origins=frozenset({C}))
    outcome = committed(b, lambda draft: apply_frame(draft, hostile, partner))[0].result()
    assert (outcome.conflicts, state_of(b).deleted_to, len(values_of(b))) == (1, 0, 10)


@pytest.mark.parametrize("base_offset", [0, 5, 10])
def test_nobody_deletes_our_own_records_over_a_link(base_offset: int) -> None:
    """Not even one's own cluster, whose rows come back in a ring."""
    a, b = fresh(A), fresh(B)
    topic = with_batches(a, 10)
    replicated(a, b)
    told = frame(a, B, slice_of("ships"), 0)
    hostile = with_start(told, base_offset, StartPayload("deleted-records", 10, ((0, 0),), deleted_to=10))
    (outcome,) = applied(a, hostile)
    assert outcome.refused_position is None, "the row is looked at"
    assert (a.announced.state.partition(topic.number, 0).deleted_to, len(values_of(a))) == (0, 10)


def test_deleting_after_a_gap_keeps_what_lies_between() -> None:
    """Of START rows a merge keeps more than the newest: one that deletes says nothing of gaps above it."""
    a, b = fresh(A), fresh(B, settings=MERGING)
    topic = with_batches(a, 10)
    replicated(a, b)
    gap = with_start(frame(a, B, slice_of("ships"), 1), 20, StartPayload("set-aside", 20, ((0, 0),), 10))
    applied(b, gap)
    for _ in range(2):
        produced(a, topic.number, *[b"x"] * 10)
    deleted(a, topic, 5)
    replicated(a, b)
    before = state_of(b), b.announced.state.gaps()
    merged(b)
    assert (state_of(b), b.announced.state.gaps()) == before
    assert state_of(opened(b.announced.storage, B)) == before[0]
    assert sorted(values_of(b)) == [*range(5, 10), *range(20, 30)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_whatever_happens_in_between_no_deleted_record_is_served(seed: int) -> None:
    """Produce, delete, expire and merge in any order: clients see what is neither deleted nor expired, and the log
    alone knows it too."""
    choose, clock = Random(seed), FakeClock()
    log = fresh(clock=clock, settings=MERGING)
    ttl_ms = choose.choice([0, TTL_MS])
    topic = made(log)
    gone, values = 0, dict[int, bytes | None]()
    for step in range(choose.randint(2, 20)):
        action = choose.random()
        if action < 0.5:
            batch = [b"%d of %d" % (place, step) for place in range(choose.randint(1, 4))]
            base = produced(log, topic.number, *batch).base_offset
            values.update({base + place: value for place, value in enumerate(batch)})
        elif action < 0.75:
            offset = choose.choice([TO_THE_END, choose.randint(0, len(values))])
            gone = max(gone, deleted(log, topic, offset))
        elif action < 0.85:
            clock.pass_ms(TTL_MS // 2)
        else:
            merged(log)
            gone = max(gone, state_of(log).start)
        if choose.random() < 0.3:
            log = opened(log.announced.storage, clock=clock, settings=MERGING)
        log.upkeep.set_retention(ttl_ms)
        assert values_of(log) == {offset: value for offset, value in values.items() if offset >= gone}
    merged(log)
    state = state_of(log)
    assert state_of(opened(log.announced.storage, clock=clock)) == state


def test_a_merge_that_was_planned_before_a_deletion_takes_nothing_of_it_back() -> None:
    """Its START rows carry what was deleted when it was planned."""
    log = fresh(settings=MERGING)
    topic = with_batches(log, 10, 10, 10)
    deleted(log, topic, 15)
    job = log.upkeep.plan()
    assert job is not None
    deleted(log, topic, 25)
    installed(log, run_job.run(log.announced.storage, SeededRandomness(1), job))
    assert state_of(log) == PartitionState(10, 30, 0, ((0, 0),), 25)
    assert state_of(opened(log.announced.storage)) == state_of(log)


def test_requests_of_one_commit_see_what_those_before_them_deleted() -> None:
    """Also if a batch came in between."""
    log = fresh()
    topic = with_batches(log, 10)
    answers = committed(
        log,
        lambda draft: delete_records(draft, topic.number, 0, 8),
        lambda draft: produce(draft, topic.number, 0, batch_of(b"10")).log_start,
        lambda draft: delete_records(draft, topic.number, 0, 5),
        lambda draft: delete_records(draft, topic.number, 0, TO_THE_END),
    )
    assert [answer.result() for answer in answers] == [8, 8, 8, 11]
    assert len([row for row in rows_of(log) if row.kind == Kind.START]) == 2


def harmed(log: ShardLog, kind: Kind, base_offset: int) -> tuple[MemoryStorage, str]:
    """A copy of the log's storage in which the commit of that row is damaged, and its name."""
    found = next(row for row in rows_of(log) if (row.kind, row.base_offset) == (kind, base_offset))
    name = log.announced.manifest.commit_name(found.commit)
    storage = log.announced.storage
    assert isinstance(storage, MemoryStorage)
    copy = MemoryStorage()
    copy.replace({**storage.snapshot(), name: b"nothing"})
    return copy, name


def test_a_deletion_outlives_records_that_are_set_aside() -> None:
    """A commit before it is lost: what it held beyond the deletion is a gap, which no row that deletes hides."""
    log = fresh()
    topic = with_batches(log, 10, 10, 10)
    deleted(log, topic, 5)
    produced(log, topic.number, b"30")
    for base_offset, lost in ((10, range(10, 20)), (20, range(20, 30))):
        storage, name = harmed(log, Kind.BATCH, base_offset)
        assert [problem.name for problem in check_all(storage)] == [name]
        list(set_aside(storage, [name], SeededRandomness(4711), 0))
        again = opened(storage)
        assert sorted(values_of(again)) == [offset for offset in range(5, 31) if offset not in lost]
        assert [(gap.start, gap.end) for gap in again.announced.state.gaps()] == [(lost.start, lost.stop)]


def test_a_deletion_that_is_set_aside_is_known_to_a_checkpoint() -> None:
    """Of two damaged objects the checkpoint covers one: what it knows is written into the log again."""
    log = fresh(settings=MERGING)
    topic = with_batches(log, 10, 10)
    deleted(log, topic, 5)
    merged(log)
    produced(log, topic.number, b"20")
    storage, name = harmed(log, Kind.BATCH, 20)
    control = next(s.name for s in log.announced.manifest.segments if s.kind == "control")
    storage.replace({**storage.snapshot(), control: b"nothing"})
    list(set_aside(storage, [control, name], SeededRandomness(4711), 0))
    assert check_all(storage) == []
    assert state_of(opened(storage)).log_start == 5
