"""Merging a log that was cut: dead rows go, or stay for their copy, and never count as expired."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from tests.streamlog.merging.test_survivors import replayed, tables
from tests.streamlog.world import (
    DAY_MS,
    FakeClock,
    SeededRandomness,
    committed,
    fresh,
    installed,
    made,
    opened,
    produced,
    rows_of,
    values_at,
)

from fairlead.model.settings import Settings
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.job import MergeResult
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.reading.slices import read_partition, read_slices
from fairlead.streamlog.requests.cuts import cut, end_keep
from fairlead.streamlog.requests.topics import delete_topic, set_configs
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.writing.topic_expiry import expire
from fairlead.streamlog.writing.writer import ShardLog

K = b"k" * 16
QUICK = Settings(merge_commits_min=1, merge_idle_seconds=0.01, delete_grace_seconds=0, topic_expiry_interval_seconds=1)
LAZY = Settings(topic_expiry_interval_seconds=1)
"""Few commits wait for ten minutes before they are merged."""
SEEDS = count(1)


def of(clock: FakeClock, **configs: str) -> tuple[ShardLog, int]:
    """A log whose records live for ten days, and a topic of it."""
    log = fresh(clock=clock, settings=QUICK)
    log.upkeep.set_retention(10 * DAY_MS)
    number = made(log).number
    if configs:
        given = {name.replace("_", "."): value for name, value in configs.items()}
        committed(log, lambda draft: set_configs(draft, "ships", given))
    return log, number


def cut_at(log: ShardLog, number: int, offset: int, keep: bytes | None = None) -> None:
    committed(log, lambda d: cut(d, number, 0, offset, "takeover", 9, keep))[0].result()


def done(log: ShardLog) -> MergeResult | None:
    """The result of the next merge job."""
    job = log.upkeep.plan()
    return None if job is None else run_job.run(log.announced.storage, SeededRandomness(next(SEEDS)), job)


def merged(log: ShardLog) -> int:
    """Do every merge job there is; how many there were."""
    jobs = 0
    while (result := done(log)) is not None:
        installed(log, result)
        jobs += 1
        assert jobs < 50, "a job is planned again and again"
    return jobs


def batches(log: ShardLog, number: int) -> list[int]:
    """First offsets of all batches in the log, dead ones too."""
    return [row.base_offset for row in rows_of(log) if row.kind == Kind.BATCH and row.topic == number]


def sent(log: ShardLog) -> list[Row]:
    """What a link sends."""
    storage, objects = log.announced.storage, log.announced.objects(0, log.announced.end)
    dead = DeadRows(log.announced.state.dead_from())
    parts = read_slices(storage, objects, dict.fromkeys(range(16), 0), dead=dead)
    return [row for part in parts for row in part.columns.rows()]


def test_dead_rows_expire_without_start() -> None:
    """The last dead batch is older than the time-to-live: no START row tells of it, and nothing else is different."""
    clock = FakeClock()
    log, number = of(clock)
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    cut_at(log, number, 1)
    clock.pass_ms(9 * DAY_MS)
    produced(log, number, b"one")
    clock.pass_ms(2 * DAY_MS)
    assert merged(log)
    starts = [row for row in rows_of(log) if row.kind == Kind.START]
    assert [row.base_offset for row in starts] == [1]
    assert batches(log, number) == [1]
    assert values_at(log, number) == {1: b"one"}
    assert replayed(log) == tables(log)


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("when", ["before it is installed", "after its manifest is put"])
def test_merge_job_planned_before_the_cut(when: str, expires: bool) -> None:
    """It counts dead rows as alive, or as expired; whichever becomes durable first, the log says the same."""
    clock = FakeClock()
    log, number = of(clock)
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    if expires:
        clock.pass_ms(11 * DAY_MS)
    result = done(log)
    assert result is not None
    if when == "before it is installed":
        cut_at(log, number, 1)
        produced(log, number, b"one")
        installed(log, result)
    else:
        prepared = log.upkeep.prepare(result)
        cut_at(log, number, 1)
        produced(log, number, b"one")
        for _ in log.upkeep.raise_starts(prepared):
            pass
        log.upkeep.finish(prepared)
        for _ in log.upkeep.forget():
            pass
    state = log.announced.state.partition(number, 0)
    assert (state.start, state.end) == ((1, 2) if expires else (0, 2))
    alive = {1: b"one"} if expires else {0: b"0", 1: b"one"}
    assert values_at(log, number) == alive
    assert replayed(log) == tables(log)
    assert [row.base_offset for row in sent(log) if row.kind == Kind.START] == ([1] if expires else [])
    assert [row.base_offset for row in sent(log) if row.kind == Kind.BATCH] == sorted(alive)
    merged(log)
    assert replayed(log) == tables(log)
    assert values_at(log, number) == alive


def test_kept_rows_survive_every_merge_until_the_mark_is_cleared() -> None:
    """They do not expire either, and their segments are not merged again and again for that."""
    clock = FakeClock()
    log, number = of(clock)
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    cut_at(log, number, 1, K)
    clock.pass_ms(11 * DAY_MS)
    produced(log, number, b"one")
    assert merged(log)
    assert batches(log, number) == [1, 2, 1]
    assert values_at(log, number) == {1: b"one"}
    assert [row.base_offset for row in sent(log) if row.kind == Kind.BATCH] == [1]
    committed(log, partial(end_keep, number=number, partition=0, keep=K))
    assert merged(log)
    assert batches(log, number) == [1]
    assert replayed(log) == tables(log)


def test_start_rows_before_and_after_a_cut_are_both_kept() -> None:
    """The log began at 10 and was cut to 5, and begins at 8 now: folded together, it would begin at 10 again. Nor does
    the new row tell of an epoch that was cut."""
    clock = FakeClock()
    log, number = of(clock)
    begin = payloads.StartPayload("ttl", 10, ((0, 0), (2, 6)))
    committed(log, lambda d: d.add_control(Kind.START, begin, number=number, partition=0, base_offset=10))
    cut_at(log, number, 5)
    produced(log, number, b"5", b"6", b"7")
    clock.pass_ms(11 * DAY_MS)
    produced(log, number, b"8")
    merged(log)
    state = log.announced.state.partition(number, 0)
    assert (state.start, state.end, state.history) == (8, 9, ((0, 0),))
    assert replayed(log) == tables(log)
    assert [row.base_offset for row in sent(log) if row.kind == Kind.START] == [5, 8]
    parts = read_partition(
        log.announced.storage,
        log.announced.locate({slice_of_number(number)}),
        number,
        0,
        0,
        dead=DeadRows(log.announced.state.dead_in(number, 0)),
    )
    told = [row for columns in parts for row in columns.rows() if row.kind in {Kind.START, Kind.BATCH}]
    assert [row.base_offset for row in told] == [5, 8, 8]


def test_a_cut_tells_the_epochs_before_it_though_all_of_them_expired() -> None:
    """The copy of a tail begins where the tail's epoch did. The START row behind the cut does not say that to who opens
    the log without its checkpoint: the tail's own first offset would count as the epoch's."""
    clock = FakeClock()
    log, number = of(clock)
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    cut_at(log, number, 1, K)
    produced(log, number, b"one")
    clock.pass_ms(11 * DAY_MS)
    produced(log, number, b"two")
    merged(log)
    assert [row.base_offset for row in rows_of(log) if row.kind == Kind.START] == [2]
    assert batches(log, number) == [1, 2, 2]
    assert [cut.history for cut in log.announced.state.cuts_of(number, 0)] == [((0, 0),)]
    assert replayed(log) == tables(log)


@pytest.mark.parametrize("where", ["commits", "segments"])
def test_retention_bytes_counts_live_rows_alone(where: str) -> None:
    """A tail that was cut off takes no room from the records that stand in its place."""
    clock = FakeClock()
    log, number = of(clock, retention_bytes="3000")
    produced(log, number, b"x" * 1000)
    for _ in range(4):
        produced(log, number, b"d" * 1000)
    if where == "segments":
        merged(log)
    clock.pass_ms(2000)
    cut_at(log, number, 1, K)
    produced(log, number, b"y" * 1000)
    expiry = log.upkeep.begin_topic_expiry()
    assert expiry is not None
    assert log.upkeep.topics.find(expiry) == []


def test_what_had_expired_before_a_cut_is_not_expired_after_it() -> None:
    """Other records stand at those offsets by the time that the request is drafted, or the next merge planned."""
    clock = FakeClock()
    log, number = of(clock, retention_ms="1000")
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    clock.pass_ms(5000)
    expiry = log.upkeep.begin_topic_expiry()
    assert expiry is not None
    topics = log.upkeep.topics
    found = topics.find(expiry)
    assert [each.offset for each in found] == [3]
    request = partial(expire, found=found, cut_count=topics.cut_count)
    cut_at(log, number, 0)
    produced(log, number, b"new", b"new", b"new")
    committed(log, request)
    assert values_at(log, number) == {0: b"new", 1: b"new", 2: b"new"}

    clock.pass_ms(5000)
    for _ in range(2):
        expiry = log.upkeep.begin_topic_expiry()
        assert expiry is not None
        committed(log, partial(expire, found=topics.find(expiry), cut_count=topics.cut_count))
        clock.pass_ms(1001)
    assert topics.dead.partitions
    cut_at(log, number, 0)
    produced(log, number, b"newest")
    merged(log)
    assert values_at(log, number) == {0: b"newest"}
    assert values_at(opened(log.announced.storage, settings=QUICK), number) == {0: b"newest"}


def _of_eight_runs(log: ShardLog, number: int) -> int:
    for _ in range(8):
        produced(log, number, b"dead")
        result = done(log)
        assert result is not None
        installed(log, result)
    return 0


def _expired(log: ShardLog, number: int) -> int:
    produced(log, number, *[b"dead"] * 8)
    merged(log)
    return 11 * DAY_MS


def _half_dead(log: ShardLog, number: int) -> int:
    other = made(log, "other").number
    committed(log, lambda draft: set_configs(draft, "other", {"retention.ms": "1000"}))
    produced(log, number, *[b"dead"] * 8)
    produced(log, other, b"x" * 9000)
    merged(log)
    return 0


def _of_a_deleted_topic(log: ShardLog, number: int) -> int:
    other = made(log, "other").number
    produced(log, number, *[b"dead"] * 8)
    produced(log, other, b"x" * 9000)
    merged(log)
    committed(log, lambda draft: delete_topic(draft, "other"))
    merged(log)
    return 700_000


def _expired_by_topics(log: ShardLog, clock: FakeClock) -> None:
    """Twice: what was found is written, and then known to be on disk still."""
    for _ in range(2):
        clock.pass_ms(5000)
        expiry = log.upkeep.begin_topic_expiry()
        if expiry is not None:
            found = log.upkeep.topics.find(expiry)
            committed(log, partial(expire, found=found, cut_count=log.upkeep.topics.cut_count))


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("fill", [_of_eight_runs, _expired, _half_dead, _of_a_deleted_topic])
def test_dead_rows_may_be_gone_before_their_cut_is_merged(
    fill: Callable[[ShardLog, int], int], checkpoint: bool
) -> None:
    """A merge of old runs drops them while the TRUNCATE row, and a dead batch before it, wait in the tail: neither
    follows what is left then, and all the same nothing is missing. Nor is it after a second, lower cut."""
    clock = FakeClock()
    log, number = of(clock)
    produced(log, number, b"alive")
    merged(log)
    wait_ms = fill(log, number)
    log = opened(log.announced.storage, clock=clock, seed=2, settings=LAZY)
    log.upkeep.set_retention(10 * DAY_MS)
    clock.pass_ms(wait_ms)
    end = log.announced.state.partition(number, 0).end
    produced(log, number, b"dead")
    cut_at(log, number, 2 if end > 2 else 1)
    produced(log, number, b"dead too")
    cut_at(log, number, 1)
    produced(log, number, b"one")
    _expired_by_topics(log, clock)
    job = log.upkeep.plan()
    assert job is not None
    assert not job.commits
    merged(log)
    assert len(batches(log, number)) == 4 - (fill is _expired)  # one in a segment at most, three in the tail
    storage = log.announced.storage
    assert isinstance(storage, MemoryStorage)
    assert check_all(storage) == []
    if not checkpoint:
        storage.replace({name: data for name, data in storage.snapshot().items() if "/checkpoint/" not in name})
    again = opened(storage, clock=clock, seed=3, settings=LAZY)
    assert again.health.stopped is None
    assert tables(again) == tables(log)
    assert values_at(again, number)[1] == b"one"
    produced(again, number, b"two")
