"""What a merge job says of epoch histories: those of the log, and only where records may go."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streamlog.world import SETTINGS, FakeClock, committed, fresh, made, produced

from fairlead.streamlog.merging.histories import Histories
from fairlead.streamlog.payloads import History
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import PartitionState, Topic
from fairlead.streamlog.writing.writer import ShardLog

QUICK = replace(SETTINGS, merge_commits_min=1)
TTL_MS = 1000
HISTORIES = st.dictionaries(st.integers(0, 9), st.integers(0, 99), max_size=3).map(lambda h: tuple(sorted(h.items())))


def put(state: ShardState, number: int, partitions: int) -> None:
    """A topic, or more partitions of it."""
    state.put_topic(Topic(number, f"t{number}", bytes([number]) * 16, partitions, b"o" * 16, 0))


@settings(deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from([0, 3, 17]), st.integers(0, 2)), HISTORIES))
def test_the_histories_of_a_log_are_those_of_its_partitions(histories: dict[tuple[int, int], History]) -> None:
    """Also where a topic has got more partitions, and its slots have moved; and when they have passed the pipe."""
    state = ShardState(b"s" * 16)
    for number in (0, 3, 17):
        put(state, number, 1)
    for (number, partition), history in histories.items():
        put(state, number, 3)
        state.put_partition(number, partition, PartitionState(0, 99, history[-1][0] if history else -1, history))
    taken = Histories.of_all(state)
    put(state, 3, 9)
    state.put_partition(3, 0, PartitionState(0, 99, 77, ((77, 0),)))
    for found, key in product((taken, Histories.read(taken.text())), product((0, 3, 17, 18), range(4))):
        told = histories.get(key, ())
        assert found.of(key) == (() if told == ((0, 0),) else told)


def moved(clock: FakeClock, partitions: int) -> tuple[ShardLog, int]:
    """A log with a record, whose topic has changed its owner."""
    log = fresh(clock=clock, settings=QUICK)
    number = made(log, partitions=partitions).number
    produced(log, number, b"x")
    for partition in range(partitions):
        known = log.announced.state.partition(number, partition)
        log.announced.state.put_partition(number, partition, known._replace(epoch=7, history=((0, 0), (7, known.end))))
    return log, number


def test_a_job_by_which_nothing_expires_says_no_history() -> None:
    """A million partitions of other owners cost it nothing."""
    clock = FakeClock()
    log, _ = moved(clock, 2000)
    log.upkeep.set_retention(TTL_MS)
    job = log.upkeep.plan()
    assert job is not None
    assert len(job.histories) == 0


def test_a_job_by_which_records_expire_says_all_histories() -> None:
    """Nobody knows of which partitions they are until they are read."""
    clock = FakeClock()
    log, number = moved(clock, 20)
    log.upkeep.set_retention(TTL_MS)
    clock.pass_ms(10 * TTL_MS)
    job = log.upkeep.plan()
    assert job is not None
    assert len(job.histories) == 40
    assert job.histories.of((number, 0)) == ((0, 0), (7, 1))


def test_of_records_that_were_deleted_the_job_says_the_histories() -> None:
    """Of these partitions only."""
    log, number = moved(FakeClock(), 20)
    committed(log, lambda d: delete_records(d, number, 0, 1))[0].result()
    job = log.upkeep.plan()
    assert job is not None
    assert len(job.histories) == 2
    assert job.histories.of((number, 0)) == log.announced.state.partition(number, 0).history


def test_where_there_is_no_job_no_histories_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for one every few seconds, on the event loop."""
    clock = FakeClock()
    log, _ = moved(clock, 2)
    log.upkeep.set_retention(TTL_MS)
    log.announced.tail.commits.clear()
    monkeypatch.delattr(Histories, "of_all")
    monkeypatch.delattr(Histories, "given")
    assert log.upkeep.plan() is None
