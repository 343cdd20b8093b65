"""Expiry by the settings of topics: of each partition a prefix, as a simple model says; what becomes of its bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streamlog.world import (
    DAY_MS,
    FakeClock,
    SeededRandomness,
    batch_of,
    committed,
    fresh,
    installed,
    made,
    opened,
    produced,
    replicated,
    rows_of,
    values_at,
)
from tests.support.batches import produce

from fairlead.model.errors import OutOfOrderSequence, StorageUnavailable
from fairlead.model.settings import Settings
from fairlead.storage.memory import Fault
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.produce import ProduceResult
from fairlead.streamlog.requests.topics import delete_topic, set_configs
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.topic_expiry import MARKS, Expired, expire
from fairlead.streamlog.writing.writer import ShardLog

MINUTE_MS = 60_000
QUICK = Settings(merge_commits_min=1, merge_idle_seconds=0.01, delete_grace_seconds=0, topic_expiry_interval_seconds=1)
SEEDS = count(1)
B = b"b" * 16


def merged(log: ShardLog) -> int:
    """Do every merge job there is; how many there were."""
    done = 0
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(next(SEEDS)), job))
        done += 1
    return done


def expired(log: ShardLog) -> list[Expired]:
    """One round of expiry."""
    expiry = log.upkeep.begin_topic_expiry()
    found = [] if expiry is None else log.upkeep.topics.find(expiry)
    if found:
        committed(log, partial(expire, found=found))
    return found


def start_of(log: ShardLog, number: int, partition: int = 0) -> int:
    return log.announced.state.partition(number, partition).start


def with_life(clock: FakeClock, **configs: str) -> tuple[ShardLog, int]:
    """A log with the topic `ships` that has these settings, in a stream that keeps records for a year."""
    log = fresh(clock=clock, settings=QUICK)
    log.upkeep.set_retention(365 * DAY_MS)
    number = made(log, partitions=2).number
    given = {name.replace("_", "."): value for name, value in configs.items()}
    committed(log, lambda draft: set_configs(draft, "ships", given))
    return log, number


@dataclass
class Model:
    """The batches of each partition, and what may and what must be left of them."""

    batches: dict[tuple[int, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    """(offset behind it, time, bytes)."""

    def starts(self, key: tuple[int, int], now_ms: int, ms: int | None, size: int | None) -> tuple[int, int]:
        """The start as the settings say, and the least that is allowed: late by one mark."""
        late = 1 / MARKS
        exact = self._start(key, now_ms, ms, size)
        slow_ms = None if ms is None else int(ms * (1 + late)) + 1
        slow_size = None if size is None else int(size * (1 + late)) + self._largest(key)
        return exact, self._start(key, now_ms, slow_ms, slow_size)

    def _start(self, key: tuple[int, int], now_ms: int, ms: int | None, size: int | None) -> int:
        start = 0
        batches = self.batches.get(key, [])
        for place, (end, at, _) in enumerate(batches):
            left = sum(each[2] for each in batches[place + 1 :])
            if (ms is not None and at < now_ms - ms) or (size is not None and left >= size):
                start = end
        return start

    def _largest(self, key: tuple[int, int]) -> int:
        return max((size for _, _, size in self.batches.get(key, [])), default=0)


TOPICS = [(None, None), (10 * MINUTE_MS, None), (None, 700), (3 * MINUTE_MS, 2000), (0, None)]
ACTION = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, len(TOPICS) - 1), st.integers(0, 1), st.integers(1, 200)),
    st.tuples(st.just("pass"), st.integers(1, 20 * MINUTE_MS)),
    st.tuples(st.sampled_from(["merge", "expire", "restart"])),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTION, max_size=40))
def test_a_prefix_of_each_partition_expires_as_the_model_says(actions: list[tuple[object, ...]]) -> None:
    """Never a record too early, and none later than by a mark; what is left can be read, from memory and from disk,
    whatever was merged in between, and after a start."""
    clock, model = FakeClock(), Model()
    log = fresh(clock=clock, settings=QUICK)
    log.upkeep.set_retention(365 * DAY_MS)
    numbers: list[int] = []
    held: dict[tuple[int, int], dict[int, bytes]] = {}
    for place, (ms, size) in enumerate(TOPICS):
        numbers.append(made(log, f"t{place}", 2).number)
        limits = {"retention.ms": ms, "retention.bytes": size}
        configs = {name: str(limit) for name, limit in limits.items() if limit is not None}
        committed(log, partial(set_configs, name=f"t{place}", changes=configs))
    for action in [*actions, ("merge",), ("expire",)]:
        if action[0] == "produce":
            _, topic, partition, length = action
            assert isinstance(topic, int)
            assert isinstance(partition, int)
            assert isinstance(length, int)
            value = bytes([length]) * length
            offset = produced(log, numbers[topic], value, partition=partition).base_offset
            key = (numbers[topic], partition)
            held.setdefault(key, {})[offset] = value
            row = rows_of(log, log.announced.end - 1)[-1]
            model.batches.setdefault(key, []).append((offset + 1, row.appended_at, len(row.batch)))
        elif action[0] == "pass":
            assert isinstance(action[1], int)
            clock.pass_ms(action[1])
        elif action[0] == "merge":
            merged(log)
        elif action[0] == "restart":
            log = opened(log.announced.storage, clock=clock, settings=QUICK)
            log.upkeep.set_retention(365 * DAY_MS)
        else:
            clock.pass_ms(1001)
            expired(log)
            _check(log, model, numbers, log.guard.now_ms())
    for (number, partition), values in held.items():
        start = start_of(log, number, partition)
        left = {offset: value for offset, value in values.items() if offset >= start}
        assert values_at(log, number, partition) == left


def _check(log: ShardLog, model: Model, numbers: list[int], now_ms: int) -> None:
    for number, (ms, size) in zip(numbers, TOPICS, strict=True):
        for partition in range(2):
            exact, least = model.starts((number, partition), now_ms, None if ms is None else max(ms, 1), size)
            assert least <= start_of(log, number, partition) <= exact


def test_a_topic_expires_sooner_than_its_stream() -> None:
    """And no other topic does; readers that wait are told, as of any start that moves."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(10 * MINUTE_MS))
    other = made(log, "other").number
    for topic in (number, other):
        produced(log, topic, b"old")
    clock.pass_ms(11 * MINUTE_MS)
    produced(log, number, b"new")
    assert expired(log) == [Expired(number, 0, 1)]
    assert values_at(log, number) == {1: b"new"}
    assert values_at(log, other) == {0: b"old"}
    clock.pass_ms(1001)
    assert expired(log) == []


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compacted_topics_expire_only_if_they_are_deleted_too(policy: str) -> None:
    """`compact` alone never expires, by neither life."""
    clock = FakeClock()
    log, number = with_life(clock, cleanup_policy=policy, retention_ms="1000", retention_bytes="0")
    produced(log, number, b"old")
    clock.pass_ms(DAY_MS)
    expired(log)
    assert start_of(log, number) == (1 if policy == "compact,delete" else 0)


def test_a_topic_that_is_compacted_no_more_expires_beside_one_that_is() -> None:
    """With its stream, though merging had spared its segment; the other topic's records stay."""
    clock = FakeClock()
    log = fresh(clock=clock, settings=QUICK)
    log.upkeep.set_retention(100 * MINUTE_MS)
    ships, other = made(log).number, made(log, "other").number
    for name in ("ships", "other"):
        committed(log, partial(set_configs, name=name, changes={"cleanup.policy": "compact"}))
    for number in (ships, other):
        produced(log, number, b"x")
    clock.pass_ms(300 * MINUTE_MS)
    log.guard.accept()
    assert merged(log) == 1
    clock.pass_ms(1000)
    committed(log, lambda draft: set_configs(draft, "ships", {"cleanup.policy": "delete"}))
    assert 0 < merged(log) <= 2
    assert (start_of(log, ships), start_of(log, other)) == (1, 0)
    assert merged(log) == 0


def test_nothing_is_looked_for_before_the_interval_and_without_such_topics() -> None:
    """A stream of ordinary topics reads nothing, writes nothing and keeps nothing for it."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms="1000")
    produced(log, number, b"old")
    clock.pass_ms(5000)
    assert expired(log)
    produced(log, number, b"old")
    clock.pass_ms(900)
    assert log.upkeep.begin_topic_expiry() is None
    committed(log, lambda draft: set_configs(draft, "ships", {"retention.ms": str(400 * DAY_MS)}))
    clock.pass_ms(5000)
    assert log.upkeep.begin_topic_expiry() is None, "the stream's life is shorter"


def test_nothing_expires_while_the_clock_is_not_believed() -> None:
    """Neither by time nor by bytes; a jump of the clock would take the records of an hour."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(60 * MINUTE_MS), retention_bytes="1")
    produced(log, number, b"one")
    produced(log, number, b"two")
    clock.wall += 5 * 60 * MINUTE_MS
    clock.pass_ms(1001)
    assert log.upkeep.begin_topic_expiry() is None
    assert log.guard.accept() is not None
    assert expired(log) == [Expired(number, 0, 1)]


def test_a_start_far_ahead_of_a_short_life_is_not_believed() -> None:
    """The shortest life of a topic counts too: a dead clock battery would take what it has."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(120 * MINUTE_MS))
    produced(log, number, b"kept")
    clock.pass_ms(DAY_MS)
    again = opened(log.announced.storage, clock=clock, settings=QUICK)
    again.upkeep.set_retention(365 * DAY_MS)
    assert again.guard.hold is not None
    assert again.upkeep.begin_topic_expiry() is None


def test_expiry_wakes_no_link_and_reaches_no_replica() -> None:
    """Each site expires by its own clock; what a link has not sent yet is still sent from the disk."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms="1000")
    produced(log, number, b"old")
    replica = fresh(B, clock=clock, settings=QUICK)
    replica.upkeep.set_retention(365 * DAY_MS)
    news_end = log.announced.news_end
    clock.pass_ms(5000)
    assert expired(log)
    assert log.announced.news_end == news_end
    replicated(log, replica)
    there = replica.announced.state.by_name("ships")
    assert there is not None
    assert there.configs == {"retention.ms": "1000"}
    assert values_at(replica, there.number) == {0: b"old"}
    clock.pass_ms(5000)
    assert expired(replica) == [Expired(there.number, 0, 1)]


def test_a_segment_that_is_more_than_half_dead_is_rewritten() -> None:
    """What is expired leaves the disk, with a START row in its place; less than half stays where it is."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(10 * MINUTE_MS))
    other = made(log, "other").number
    for value in range(6):
        produced(log, number, bytes(5000), partition=value % 2)
    produced(log, other, bytes(5000))
    merged(log)
    before = log.announced.size_bytes()
    clock.pass_ms(11 * MINUTE_MS)
    assert len(expired(log)) == 2
    merged(log)
    assert log.announced.size_bytes() >= before - 100, "the rows that say so come first"
    clock.pass_ms(1001)
    assert expired(log) == []
    assert merged(log) == 1
    assert log.announced.size_bytes() < before / 2
    starts = [row for row in rows_of(log) if row.kind == Kind.START]
    assert sorted((row.topic, row.partition, row.base_offset) for row in starts) == [(number, 0, 3), (number, 1, 3)]
    assert values_at(log, other) == {0: bytes(5000)}
    again = opened(log.announced.storage, clock=clock, settings=QUICK)
    assert [start_of(again, number, partition) for partition in range(2)] == [3, 3]
    assert produced(again, number, b"next").base_offset == 3


def test_a_little_that_is_dead_stays_until_the_segment_is_rewritten_anyway() -> None:
    """One topic of many costs no rewriting; its records cannot be read all the same."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(10 * MINUTE_MS))
    other = made(log, "other").number
    produced(log, number, bytes(5000))
    for _ in range(4):
        produced(log, other, bytes(5000))
    merged(log)
    clock.pass_ms(11 * MINUTE_MS)
    expired(log)
    clock.pass_ms(1001)
    expired(log)
    assert merged(log) == 1, "the commit of the EXPIRED row itself"
    assert any(row.kind == Kind.BATCH and row.topic == number for row in rows_of(log))
    assert values_at(log, number) == {}


def test_a_link_that_is_behind_gets_what_is_left_in_order() -> None:
    """Batches that are expired and still on disk, then those that live; where they are gone, a START row says so."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(10 * MINUTE_MS))
    produced(log, number, bytes(9000))
    merged(log)
    clock.pass_ms(11 * MINUTE_MS)
    produced(log, number, b"two")
    expired(log)
    clock.pass_ms(1001)
    expired(log)
    merged(log)
    produced(log, number, b"three")
    replica = fresh(B, clock=clock, settings=QUICK)
    replicated(log, replica)
    there = replica.announced.state.by_name("ships")
    assert there is not None
    assert values_at(replica, there.number) == {1: b"two", 2: b"three"}
    assert replica.announced.state.behind(b"l" * 16) == []


def test_a_topic_deleted_meanwhile_is_passed_over() -> None:
    """Between the look and the row its number has gone."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms="1000")
    produced(log, number, b"old")
    clock.pass_ms(5000)
    expiry = log.upkeep.begin_topic_expiry()
    assert expiry is not None
    found = log.upkeep.topics.find(expiry)
    committed(log, lambda draft: delete_topic(draft, "ships"))
    committed(log, partial(expire, found=found))
    assert all(row.kind != Kind.EXPIRED for row in rows_of(log))


def test_other_limits_count_for_what_was_merged_before() -> None:
    """A topic is limited, or limited otherwise, after its segments were looked at."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(100 * MINUTE_MS))
    other = made(log, "other").number
    for topic in (number, other):
        produced(log, topic, b"x")
    merged(log)
    clock.pass_ms(50 * MINUTE_MS)
    assert expired(log) == []
    committed(log, lambda draft: set_configs(draft, "ships", {"retention.ms": str(MINUTE_MS)}))
    clock.pass_ms(1001)
    assert expired(log) == [Expired(number, 0, 1)]
    committed(log, lambda draft: set_configs(draft, "other", {"retention.ms": str(MINUTE_MS)}))
    clock.pass_ms(1001)
    assert expired(log) == [Expired(other, 0, 1)]


def test_what_a_cut_made_dead_fills_no_partition_though_the_look_after_it_failed() -> None:
    """Batches that are dead would count beside those that stand in their place, and the oldest would expire for it."""
    clock = FakeClock()
    log, number = with_life(clock, retention_bytes="1200")
    for _ in range(3):
        produced(log, number, bytes(300))
    merged(log)
    assert expired(log) == []
    committed(log, lambda draft: cut(draft, number, 0, 1, "takeover", 9, None))
    for _ in range(2):
        produced(log, number, bytes(300))
    clock.pass_ms(1001)
    log.announced.storage.fail(Fault.FAIL, call="size")  # type: ignore[attr-defined]
    with pytest.raises(StorageUnavailable):
        expired(log)
    clock.pass_ms(1001)
    assert expired(log) == []


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes"])
def test_a_strangers_limit_beyond_all_numbers_keeps_no_other_topic_alive(name: str) -> None:
    """A link brings topics with whatever settings their owner says."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(10 * MINUTE_MS))
    log.upkeep.set_retention(0)
    other = made(log, "other").number
    committed(log, lambda draft: set_configs(draft, "other", {name: str(10**30)}))
    for topic in (number, other):
        produced(log, topic, b"x")
    merged(log)
    produced(log, other, b"y")
    clock.pass_ms(20 * MINUTE_MS)
    assert expired(log) == [Expired(number, 0, 1)]


@pytest.mark.parametrize("deleted", [False, True])
def test_expiry_goes_on_when_another_topic_has_lost_its_limits(deleted: bool) -> None:
    """What was remembered of its segments is looked at again with theirs."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms=str(10 * MINUTE_MS))
    other = made(log, "other").number
    committed(log, lambda draft: set_configs(draft, "other", {"retention.ms": "0"}))
    for topic in (number, other):
        produced(log, topic, b"x")
    merged(log)
    clock.pass_ms(5000)
    assert expired(log) == [Expired(other, 0, 1)]
    if deleted:
        committed(log, lambda draft: delete_topic(draft, "other"))
    else:
        committed(log, lambda draft: set_configs(draft, "other", {"retention.ms": None}))
    clock.pass_ms(20 * MINUTE_MS)
    assert expired(log) == [Expired(number, 0, 1)]


def test_records_that_were_deleted_leave_the_disk_in_the_same_way() -> None:
    """Kafka Streams deletes what it has read of a repartition topic, which has no limits of its own."""
    clock = FakeClock()
    log, number = with_life(clock, retention_ms="-1")
    for partition in (0, 0, 1):
        produced(log, number, bytes(9000), partition=partition)
    merged(log)
    before = log.announced.size_bytes()
    committed(log, lambda draft: delete_records(draft, number, 0, 2))
    clock.pass_ms(1001)
    assert expired(log) == []
    merged(log)
    assert log.announced.size_bytes() < before * 2 / 3
    assert values_at(log, number, 1) == {0: bytes(9000)}


@pytest.mark.parametrize("deleted", [False, True])
def test_an_idempotent_producer_goes_on_though_its_newest_batch_is_gone(deleted: bool) -> None:
    """A segment is rewritten before an older one that holds an older batch of the producer; after a start only that one
    is remembered. What is remembered is still told from new."""
    clock = FakeClock()
    rare = replace(QUICK, checkpoint_interval_seconds=1e6)
    log = fresh(clock=clock, settings=rare)
    log.upkeep.set_retention(365 * DAY_MS)
    number, other = made(log).number, made(log, "other").number
    assert sent(log, number, 0) == 0
    for _ in range(4):
        produced(log, other, bytes(5000))
    merged(log)
    assert sent(log, number, 1) == 1
    if deleted:
        committed(log, lambda draft: delete_records(draft, number, 0, 2))
    else:
        committed(log, lambda draft: set_configs(draft, "ships", {"retention.bytes": "0"}))
    for _ in range(2):
        clock.pass_ms(1001)
        expired(log)
        merged(log)
    assert start_of(log, number) == 2
    again = opened(log.announced.storage, clock=clock, settings=rare)
    again.upkeep.set_retention(365 * DAY_MS)
    assert sent(again, number, 2) == 2
    assert sent(again, number, 2) == 2
    with pytest.raises(OutOfOrderSequence):
        sent(again, number, 4)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_batch_does_not_overtake_one_that_failed_though_all_before_them_are_gone(restarted: bool) -> None:
    """Of a producer that has several under way the first could not be written. What was appended since the start is
    remembered whole, whatever became of the records."""
    clock = FakeClock()
    log = fresh(clock=clock, settings=QUICK)
    number = made(log).number
    assert sent(log, number, 0) == 0
    if restarted:
        log = opened(log.announced.storage, clock=clock, settings=QUICK)
    clock.pass_ms(1)
    assert sent(log, number, 1) == 1
    committed(log, lambda draft: delete_records(draft, number, 0, 2))
    merged(log)
    assert start_of(log, number) == 2
    with pytest.raises(OutOfOrderSequence):
        sent(log, number, 3)
    assert [sent(log, number, sequence) for sequence in (2, 3)] == [2, 3]


def sent(log: ShardLog, number: int, sequence: int) -> int:
    """The offset of a batch of an idempotent producer."""
    batch = batch_of(bytes(5000), producer_id=9, epoch=0, sequence=sequence)
    result = committed(log, lambda draft: produce(draft, number, 0, batch))[0].result()
    assert isinstance(result, ProduceResult)
    return result.base_offset
