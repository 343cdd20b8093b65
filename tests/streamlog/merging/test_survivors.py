"""Merging keeps what the log means: state, records, order of causes; it drops only what has expired or is deleted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.streamlog.world import (
    DAY_MS,
    SETTINGS,
    FakeClock,
    SeededRandomness,
    batch_of,
    committed,
    fresh,
    installed,
    made,
    opened,
    produced,
    rows_in,
    rows_of,
)
from tests.support.batches import produce
from tests.support.rows import batch_row, control_row, entry_row

from fairlead.model.errors import StorageUnavailable
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.histories import Histories
from fairlead.streamlog.merging.job import MergeJob
from fairlead.streamlog.numbers import slices_of_numbers
from fairlead.streamlog.objects import format
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.objects.manifest import CheckpointEntry
from fairlead.streamlog.payloads import CursorPayload, PositionPayload, StartPayload, TopicPayload
from fairlead.streamlog.reading.slices import read_slices
from fairlead.streamlog.requests.cursors import commit_cursor, delete_cursor, publish_cursors, put_published
from fairlead.streamlog.requests.cuts import cut, end_keep
from fairlead.streamlog.requests.topics import create_topic, delete_topic, set_configs, set_partitions
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.state.effects import replay
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import LogObject, PartitionState
from fairlead.streamlog.writing.entries import delete_entry, put_entry
from fairlead.streamlog.writing.writer import ShardLog

TINY = replace(SETTINGS, merge_commits_min=4, segment_bytes_max=60_000, merge_idle_seconds=3600.0)


@dataclass
class World:
    """A log with a life, and what its topics should hold."""

    seed: int
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.log = fresh(clock=self.clock, settings=TINY)
        self.ids = SeededRandomness(self.seed)
        self.values: dict[tuple[int, int], dict[int, tuple[int, bytes]]] = {}
        """By (topic number, partition): offset → (when, value)."""

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.pass_ms(self.random.randrange(1000))
            self._step()

    def _step(self) -> None:
        names = [topic.name for topic in self.log.announced.state.topics()]
        action = self.random.random()
        if not names or action < 0.1:
            name = f"topic-{self.random.randrange(12)}"
            committed(self.log, lambda d: create_topic(d, name, self.random.randint(1, 2)))
        elif action < 0.14:
            self._delete(self.random.choice(names))
        elif action < 0.16:
            self._revive()
        elif action < 0.2:
            committed(self.log, lambda d: set_partitions(d, self.random.choice(names), self.random.randint(1, 4)))
        elif action < 0.24:
            change = {"message.timestamp.type": self.random.choice([None, "CreateTime", "LogAppendTime"])}
            committed(self.log, lambda d: set_configs(d, self.random.choice(names), change))
        elif action < 0.3:
            self._cursor(self.random.choice(names))
        elif action < 0.33:
            self._cut(self.random.choice(names))
        elif action < 0.38:
            key = f"key-{self.random.randrange(4)}"
            value = self.random.random()
            committed(self.log, lambda d: put_entry(d, key, value) if value < 0.6 else delete_entry(d, key))
        else:
            self._produce(self.random.choice(names))

    def _delete(self, name: str) -> None:
        number = self.log.announced.state.number_of(name)
        committed(self.log, lambda d: delete_topic(d, name))
        self.values = {key: value for key, value in self.values.items() if key[0] != number}

    def _revive(self) -> None:
        """An incarnation that was deleted is taken again, under another number."""
        state = self.log.announced.state
        found = [(key, known.name) for key, known in state.tombstones.items() if state.by_name(known.name) is None]
        if found:
            incarnation, name = self.random.choice(found)
            committed(self.log, lambda d: create_topic(d, name, incarnation=incarnation))

    def _cursor(self, name: str) -> None:
        number = self.log.announced.state.number_of(name)
        assert number is not None
        chance = self.random.random()
        if chance < 0.3:
            committed(self.log, lambda d: delete_cursor(d, "g", number, 0))
        elif chance < 0.5:
            committed(self.log, lambda d: publish_cursors(d, [("g", number, 0)]))
        elif chance < 0.7:
            foreign = Cursor(self.random.randrange(9), 0, "", 1, self.random.randrange(99), b"o" * 16)
            committed(self.log, lambda d: put_published(d, "g", number, 0, foreign))
        else:
            committed(self.log, lambda d: commit_cursor(d, "g", number, 0, self.random.randrange(9)))

    def _cut(self, name: str) -> None:
        """A partition is cut; what was dead before is copied meanwhile, perhaps."""
        topic = self.log.announced.state.by_name(name)
        assert topic is not None
        partition = self.random.randrange(topic.partitions)
        state = self.log.announced.state.partition(topic.number, partition)
        at = self.random.randint(max(0, state.start - 2), state.end)
        keep = self.random.choice([None, b"k" * 16, b"K" * 16])
        end = committed(self.log, lambda d: cut(d, topic.number, partition, at, "test", 1, keep))[0].result()
        held = self.values.get((topic.number, partition), {})
        self.values[topic.number, partition] = {offset: value for offset, value in held.items() if offset < end}
        kept = [found.keep for found in self.log.announced.state.cuts_of(topic.number, partition) if found.keep]
        if kept and self.random.random() < 0.5:
            committed(self.log, lambda d: end_keep(d, topic.number, partition, kept[0]))

    def _produce(self, name: str) -> None:
        topic = self.log.announced.state.by_name(name)
        assert topic is not None
        partition = self.random.randrange(topic.partitions)
        values = [self.random.randbytes(self.random.randrange(200)) for _ in range(self.random.randint(1, 3))]
        batch = batch_of(*values)
        if self.random.random() < 0.3:
            producer = self.random.randrange(3)
            known = self.log.announced.state.producer(topic.number, partition, producer)
            sequence = known.batches[-1].last_sequence + 1 if known else 0
            batch = batch_of(*values, producer_id=producer, epoch=0, sequence=sequence)
        answer = committed(self.log, lambda d: produce(d, topic.number, partition, batch))[0].result()
        held = self.values.setdefault((topic.number, partition), {})
        for place, value in enumerate(values):
            held[answer.base_offset + place] = (answer.appended_at, value)

    def merge(self, jobs: int = 100) -> int:
        for done in range(jobs):
            job = self.log.upkeep.plan()
            if job is None:
                return done
            installed(self.log, run_job.run(self.log.announced.storage, self.ids, job))
        return jobs


def tables(log: ShardLog) -> Any:
    """The state as comparable values."""
    found, meta = snapshot.dump(log.announced.state)
    plain = {name: table.tolist() if isinstance(table, np.ndarray) else list(table) for name, table in found.items()}
    del plain["producer"], plain["producer.batch"]  # in any order, as the values below, and of deleted topics too
    state = log.announced.state
    for name in [name for name in plain if name.startswith("cursor")]:
        del plain[name]
    plain["cursors"] = sorted(state.cursor_table.all())
    plain["producers"] = sorted(item for item in state.producers.items() if state.partition_count(item[0][0]))
    names = ("tombstone.incarnation", "tombstone.name", "tombstone.via", "tombstone")
    *lists, numbers = (plain.pop(name) for name in names)
    triples = [numbers[place : place + 3] for place in range(0, len(numbers), 3)]
    plain[names[0]] = sorted(zip(*lists, triples, strict=True))  # kept as a dict: its order means nothing
    return {**plain, **meta, "appended_at": 0}


def replayed(log: ShardLog) -> Any:
    """The state that the log's rows alone give."""
    storage = log.announced.storage
    assert isinstance(storage, MemoryStorage)
    copy = MemoryStorage()
    copy.replace({name: data for name, data in storage.snapshot().items() if "/checkpoint/" not in name})
    return tables(opened(copy, settings=TINY))


def without_producers(found: Any) -> Any:
    """The state, but for what the log forgets of a producer when its batches expire."""
    return {**found, "producers": []}


def stored(log: ShardLog) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Offsets of every record batch in the log by partition, as a reader of slices finds them."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for part in read_slices(
        log.announced.storage,
        log.announced.objects(0, log.announced.end),
        dict.fromkeys(range(16), 0),
        dead=DeadRows(log.announced.state.dead_from()),
    ):
        for row in part.columns.rows():
            if row.kind == Kind.BATCH and log.announced.state.partition_count(row.topic):
                found.setdefault((row.topic, row.partition), []).append((row.base_offset, row.last_offset))
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 40), min_size=1, max_size=5))
@example(seed=6627, lives=[1, 22, 40, 34])
def test_merging_changes_nothing_that_can_be_seen(seed: int, lives: list[int]) -> None:
    """State and records are the same with merging and without, with checkpoint and without."""
    world, untouched = World(seed), World(seed)
    for steps in lives:
        world.live(steps)
        untouched.live(steps)
        world.merge()
    assert tables(world.log) == tables(untouched.log)
    assert tables(opened(world.log.announced.storage, clock=world.clock, settings=TINY)) == tables(world.log)
    assert replayed(world.log) == tables(world.log)
    assert stored(world.log) == stored(untouched.log)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 40), min_size=2, max_size=6))
@example(seed=36, lives=[16, 36, 29])  # a second cut makes dead what told the epochs of what the first one keeps
@example(seed=41, lives=[30, 40, 35, 20])  # a topic that was deleted later gets partitions, and they get records
def test_expiry_removes_a_prefix_and_no_more(seed: int, lives: list[int]) -> None:
    """What is younger than the time-to-live stays, offsets go on, and the log alone knows where partitions begin."""
    world = World(seed)
    ttl_ms = 20_000
    world.log.upkeep.set_retention(ttl_ms)
    for steps in lives:
        world.live(steps)
        world.clock.pass_ms(world.random.choice([0, 5_000, 15_000]))
        world.merge(world.random.choice([1, 3, 100]))
    world.merge()
    cut_off = world.clock.wall - ttl_ms
    found = stored(world.log)
    for (number, partition), held in world.values.items():
        state = world.log.announced.state.partition(number, partition)
        assert not held or state.end == max(held) + 1
        young = {offset for offset, (when, _) in held.items() if when >= cut_off}
        offsets = {o for first, last in found.get((number, partition), []) for o in range(first, last + 1)}
        assert young <= offsets
        assert offsets == set(range(min(offsets, default=state.end), state.end))
        assert state.start <= min(young, default=state.end)
        assert set(range(state.start, state.end)) <= offsets
    assert without_producers(replayed(world.log)) == without_producers(tables(world.log))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 30))
def test_after_the_time_to_live_no_data_is_left(seed: int, more: int) -> None:
    """But a start row for each partition, with the end and the reason; new records follow it."""
    world = World(seed)
    world.live(40)
    world.log.upkeep.set_retention(10_000)
    world.clock.pass_ms(4_000_000)
    world.merge()
    assert stored(world.log) == {}
    ends = {key: max(held) + 1 for key, held in world.values.items() if held}
    starts = {
        (row.topic, row.partition): payloads.decode_start(row.batch)
        for row in rows_of(world.log)
        if row.kind == Kind.START
    }
    assert {key: start.log_end for key, start in starts.items() if key in ends} == ends
    assert all(start.reason == "ttl" and start.history == ((0, 0),) for start in starts.values())
    for (number, partition), end in ends.items():
        assert world.log.announced.state.partition(number, partition) == PartitionState(end, end, 0, ((0, 0),))
    world.live(more)
    assert without_producers(replayed(world.log)) == without_producers(tables(world.log))


def test_segments_are_sorted_so_that_a_slice_is_one_range() -> None:
    """By slice, topic, partition, offset; commit and place are kept."""
    world = World(3)
    world.live(120)
    world.merge()
    data = [segment for segment in world.log.announced.manifest.segments if segment.kind == "data"]
    assert data
    for segment in data:
        columns = format.read_whole(world.log.announced.storage.get(segment.name), segment.name)
        keys = list(
            zip(
                *(
                    column.tolist()
                    for column in (
                        slices_of_numbers(columns.topic),
                        columns.topic,
                        columns.partition,
                        columns.base_offset,
                    )
                ),
                strict=True,
            )
        )
        assert keys == sorted(keys)
        assert set(columns.kind.tolist()) == {Kind.BATCH}


def test_a_topic_with_compact_does_not_expire() -> None:
    """Until compaction exists; its neighbours do, and the job is not planned for ever."""
    clock = FakeClock()
    log = fresh(clock=clock, settings=TINY)
    world = World(1, clock)
    world.log = log
    kept, gone = made(log, "kept").number, made(log, "gone").number
    committed(log, lambda d: set_configs(d, "kept", {"cleanup.policy": "compact"}))
    for _ in range(5):
        produced(log, kept, b"k")
        produced(log, gone, b"g")
    world.merge()
    log.upkeep.set_retention(1000)
    clock.pass_ms(60_000)
    assert 0 < world.merge(50) < 50
    assert stored(log) == {(kept, 0): [(offset, offset) for offset in range(5)]}


@pytest.mark.parametrize("stopped", ["before the change", "after the change"])
def test_a_topic_that_is_compacted_no_more_expires_after_a_restart_too(stopped: str) -> None:
    """Whether it was changed before the log was opened or behind that. What stays is not written anew for that."""
    clock, eager = FakeClock(), replace(TINY, merge_commits_min=1)
    log = fresh(clock=clock, settings=eager)
    world = World(1, clock)
    world.log = log
    first, second = made(log, "first").number, made(log, "second").number
    for name in ("first", "second"):
        committed(log, lambda d, name=name: set_configs(d, name, {"cleanup.policy": "compact"}))  # type: ignore[misc]
    log.upkeep.set_retention(1000)
    for number in (first, second):
        produced(log, number, b"0")
        clock.pass_ms(60_000)
        world.merge()
    clock.pass_ms(60_000)
    world.merge()
    assert stored(log) == {(first, 0): [(0, 0)], (second, 0): [(0, 0)]}
    spared = {segment.name for segment in log.announced.manifest.segments if segment.kind == "data"}

    def expire() -> None:
        committed(log, lambda d: set_configs(d, "first", {"cleanup.policy": None}))

    if stopped == "after the change":
        expire()
    clock.pass_ms(1000)
    world.log = log = opened(log.announced.storage, clock=clock, settings=eager, seed=9)
    log.upkeep.set_retention(1000)
    if stopped == "before the change":
        expire()
    clock.pass_ms(1000)
    assert 0 < world.merge(50) < 50
    assert stored(log) == {(second, 0): [(0, 0)]}
    assert log.announced.state.partition(first, 0).start == 1
    assert len(spared & {segment.name for segment in log.announced.manifest.segments}) == 1


def test_records_of_a_deleted_topic_go_when_space_is_short_or_time_has_passed() -> None:
    """The tombstone stays, and the TOPIC row too while it is of another segment: rows between the two may need it."""
    clock = FakeClock()
    world = World(1, clock)
    log = world.log
    number = made(log, "gone").number
    other = made(log, "other").number
    for _ in range(6):
        produced(log, number, bytes(100))
        produced(log, other, b"x")
    world.merge()
    committed(log, lambda d: delete_topic(d, "gone"))
    assert log.upkeep.plan() is None
    clock.pass_ms(700_000)
    assert world.merge() > 0
    rows = rows_of(log)
    assert {row.kind for row in rows if row.topic == number} == {Kind.TOPIC, Kind.TOPIC_DELETED}
    assert stored(log) == {(other, 0): [(offset, offset) for offset in range(6)]}
    assert log.upkeep.plan() is None


def merged(storage: MemoryStorage, rows: list[Row], **changes: Any) -> list[Row]:
    """Merge one object of these rows; the rows that stay, in the order of the log."""
    storage.put_if_absent("in", format.encode(rows, name="in", first=0, end=100))
    job = MergeJob(
        "meta", b"s" * 16, 0, 100, (LogObject("in", 0, 100, segment=False),), planned_at=10**9, whole_run=True
    )
    result = run_job.run(storage, SeededRandomness(1), replace(job, **changes))
    assert result.removed == ("in",)
    return rows_in(storage, [s.object for s in result.added])


def topic_row(number: int, commit: int, **changes: Any) -> Row:
    payload = replace(TopicPayload(f"t{number}", bytes(15) + bytes([number]), 1, b"o" * 16, 0, commit), **changes)
    return control_row(Kind.TOPIC, payloads.encode(payload), topic=number, commit=commit)


def start_row(number: int, commit: int, offset: int, gap_from: int | None = None) -> Row:
    payload = payloads.encode(StartPayload("link", offset, ((0, 0),), gap_from))
    return control_row(Kind.START, payload, topic=number, commit=commit, base_offset=offset)


MASKS = st.sampled_from([1, 2, 3, 4, 6, 7, 0xFFFF]) | st.integers(1, 2**16 - 1)
POSITIONS = st.tuples(st.sampled_from([b"l" * 16, b"m" * 16]), st.integers(0, 1), MASKS, st.none() | st.integers(0, 9))


@settings(max_examples=200, deadline=None)
@given(st.lists(POSITIONS, max_size=12), st.booleans())
@example(moves=[(b"l" * 16, 0, 7, 1), (b"l" * 16, 0, 3, None)], at_begin=True)
@example(moves=[(b"l" * 16, 0, 0xFFFF, 10), (b"l" * 16, 0, 8, 12)], at_begin=False)
def test_positions_of_any_masks_are_the_same_after_a_merge(
    moves: list[tuple[bytes, int, int, int | None]], at_begin: bool
) -> None:
    """A mask goes only when newer ones speak of each of its slices; no more rows stay than there are slices, and those
    that forget."""
    rows = [
        control_row(
            Kind.POSITION, payloads.encode(PositionPayload(link, shard, mask, at, b"e" * 16, 1, 1)), commit=place
        )
        for place, (link, shard, mask, at) in enumerate(moves)
    ]
    kept = merged(MemoryStorage(), rows, at_begin=at_begin, stream_id=b"s" * 16)
    before, after = ShardState(b"s" * 16), ShardState(b"s" * 16)
    for state, found in ((before, rows), (after, kept)):
        for row in found:
            replay(state, row)
    assert dict(before.all_positions()) == dict(after.all_positions())
    for link, shard, _, _ in moves:
        of = [payloads.decode_position(row.batch) for row in kept]
        assert len([each for each in of if (each.link, each.shard) == (link, shard)]) <= 16


def test_of_topic_rows_the_first_the_newest_and_those_that_others_need_stay() -> None:
    """A batch of partition 7 means nothing before the row that added the partition."""
    rows = [
        topic_row(1, 0),
        topic_row(1, 1, configs={"a": "1"}),
        topic_row(1, 2, partitions=8),
        topic_row(1, 3, partitions=8, configs={"a": "2"}),
        topic_row(1, 4, partitions=8, configs={"a": "3"}),
    ]
    assert [row.commit for row in merged(MemoryStorage(), rows)] == [0, 2, 4]


def test_gaps_stay_while_records_before_them_do() -> None:
    """They go when everything below them is gone."""
    rows = [
        topic_row(1, 0),
        start_row(1, 1, 5),
        batch_row(1, 5, commit=2),
        start_row(1, 3, 9, gap_from=6),
        batch_row(1, 9, commit=4, previous_end=9),
        start_row(1, 5, 20, gap_from=10),
    ]
    assert merged(MemoryStorage(), rows) == rows
    after = merged(MemoryStorage(), rows, cut_off_ms=1003)
    assert [(row.kind, row.commit) for row in after] == [(3, 0), (2, 2), (2, 3), (1, 4), (2, 5)]
    after = merged(MemoryStorage(), rows, cut_off_ms=1005)
    assert [(row.kind, row.commit, row.base_offset) for row in after] == [(3, 0, -1), (2, 4, 10), (2, 5, 20)]


def test_the_epoch_history_outlives_the_records() -> None:
    """It comes from the rows, from earlier start rows, and from the job."""
    rows = [batch_row(1, 0, commit=1), batch_row(1, 1, commit=2, epoch=3), batch_row(1, 2, commit=3, epoch=3)]
    [start] = merged(MemoryStorage(), rows, cut_off_ms=1003)[:1]
    assert payloads.decode_start(start.batch).history == ((0, 0), (3, 1))
    assert (start.commit, start.row, start.base_offset, start.epoch, start.appended_at) == (2, 0, 2, 3, 1002)
    known = Histories.given({(1, 0): ((0, 0), (1, 0), (3, 1), (5, 7))})
    [start] = merged(MemoryStorage(), rows, cut_off_ms=1003, histories=known)[:1]
    assert payloads.decode_start(start.batch).history == ((0, 0), (1, 0), (3, 1))


def test_a_start_row_goes_where_its_records_went() -> None:
    """It has their origin and the stream they came from: where they are not sent, it would declare a gap that another
    link fills."""
    origin, via = bytes([1]) * 16, bytes([2]) * 16
    rows = [batch_row(1, 0, commit=1), batch_row(1, 1, commit=2, origin=origin, via=via), batch_row(1, 2, commit=3)]
    [start] = merged(MemoryStorage(), rows, cut_off_ms=1003)[:1]
    assert (start.origin, start.via) == (origin, via)
    [start] = merged(MemoryStorage(), rows, cut_off_ms=1002)[:1]
    assert (start.origin, start.via) == (None, None)


def tombstone(number: int, commit: int) -> Row:
    payload = payloads.TopicDeletedPayload(f"t{number}", bytes(15) + bytes([number]))
    return control_row(Kind.TOPIC_DELETED, payloads.encode(payload), topic=number, commit=commit)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"at_begin": True, "links_passed": 100}, [17]),
        ({"at_begin": False, "links_passed": 100}, [1, 17]),
        ({"at_begin": True, "links_passed": 5}, [1, 17]),
        ({"at_begin": True, "links_passed": 100, "planned_at": 30 * DAY_MS}, [1, 17]),
    ],
)
def test_a_tombstone_goes_once_it_is_old_and_passed_and_nothing_lies_before(changes: Any, kept: list[int]) -> None:
    """But never the one with the highest number of its slice: no number is given out again."""
    changes = {"planned_at": 40 * DAY_MS, **changes}
    rows = [topic_row(1, 0), tombstone(1, 9), topic_row(17, 10), tombstone(17, 11)]
    assert [row.topic for row in merged(MemoryStorage(), rows, **changes)] == kept


def test_a_deleted_entry_leaves_nothing_at_the_begin_of_the_log() -> None:
    """Elsewhere its deletion must stay, for the value lies in an earlier run."""
    log = fresh(settings=TINY)
    committed(log, lambda d: put_entry(d, "k", 1))
    committed(log, lambda d: delete_entry(d, "k"))
    rows = rows_of(log)
    assert merged(MemoryStorage(), rows, at_begin=True) == []
    assert merged(MemoryStorage(), rows) == rows[-1:]


@pytest.mark.parametrize("kind", [Kind.COMMITTED, Kind.CURSOR])
def test_a_deleted_cursor_leaves_its_version_at_the_begin_of_the_log_too(kind: Kind) -> None:
    """Other sites would take a commit after it for an older one than what they have."""
    said = (CursorPayload("g", offset, 0, "", 1, version) for version, offset in enumerate([3, 5, None], 1))
    rows = [
        control_row(kind, payloads.encode(payload), topic=5, partition=0, commit=place)
        for place, payload in enumerate(said, 1)
    ]
    (left,) = [row for row in merged(MemoryStorage(), [topic_row(5, 0), *rows], at_begin=True) if row.kind == kind]
    assert payloads.decode_cursor(left.batch) == CursorPayload("g", None, 0, "", 1, 3)


def test_outputs_are_cut_at_the_largest_size() -> None:
    """On row boundaries; together they are the run."""
    storage = MemoryStorage()
    rows = [batch_row(n % 3, n // 3, commit=n, value=bytes(2000)) for n in range(60)]
    storage.put_if_absent("in", format.encode(rows, name="in"))
    job = MergeJob(
        "meta", b"s" * 16, 0, 60, (LogObject("in", 0, 60, segment=False),), planned_at=0, segment_bytes_max=20_000
    )
    result = run_job.run(storage, SeededRandomness(1), job)
    assert len(result.added) > 5
    assert all(storage.size(segment.name) == segment.bytes < 30_000 for segment in result.added)
    assert rows_in(storage, [s.object for s in result.added]) == rows
    total = np.sum([[count.rows for count in segment.slices] for segment in result.added], axis=0)
    assert total[:4].tolist() == [20, 20, 20, 0]


def test_an_output_that_is_not_known_to_be_written_fails_the_job() -> None:
    """Another attempt writes under another name."""
    storage = MemoryStorage()
    storage.put_if_absent("in", format.encode([batch_row()], name="in"))
    storage.fail(Fault.UNKNOWN_LATE)
    job = MergeJob("meta", b"s" * 16, 0, 1, (LogObject("in", 0, 1, segment=False),), planned_at=0)
    with pytest.raises(StorageUnavailable):
        run_job.run(storage, SeededRandomness(1), job)


def test_a_damaged_checkpoint_does_not_stop_merging() -> None:
    """It is only a shortcut; the next one is made from the log."""
    world = World(5)
    world.live(30)
    world.merge()
    entry = world.log.announced.manifest.checkpoint
    assert entry is not None
    storage = world.log.announced.storage
    assert isinstance(storage, MemoryStorage)
    storage.damage(entry.name, lambda data: data[:-1])
    world.clock.pass_ms(3_600_000)
    world.live(10)
    world.merge()
    assert world.log.announced.manifest.checkpoint != entry
    assert tables(opened(storage, clock=world.clock, settings=TINY)) == tables(world.log)


@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        ({"checkpoint": CheckpointEntry("old", 5)}, True),
        ({"checkpoint": CheckpointEntry("newer", 6)}, False),
        ({"checkpoint": CheckpointEntry("old", 5), "make_checkpoint": True}, False),
        ({}, False),
    ],
)
def test_a_deletion_stays_until_the_checkpoint_knows_of_it(changes: dict[str, Any], stays: bool) -> None:
    """Else a start from that checkpoint would bring back what was deleted: an entry of `meta/`, or a topic."""
    job = MergeJob("meta", b"s" * 16, 0, 100, (), planned_at=10**12, at_begin=True, links_passed=100)
    deletions = [entry_row("stream/1", None, commit=5), topic_row(16, 5)._replace(kind=Kind.TOPIC_DELETED)]
    assert [replace(job, **changes).forgets(row) for row in deletions] == [not stays] * 2
