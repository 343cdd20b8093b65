"""The newest batches in memory are those that are in the log, and never more than the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streamlog.merging.test_wiring import TTL_MS, filled, merged
from tests.streamlog.world import SETTINGS, FakeClock, fresh, made, opened, produced, values_at

from fairlead.model.errors import OffsetOutOfRange
from fairlead.model.settings import Settings
from fairlead.streamlog.reading import recent
from fairlead.streamlog.reading.index import live_of
from fairlead.streamlog.reading.recent import ROW_BYTES, LogBatches, RecentBatches
from fairlead.streamlog.rows import NO_COMMIT, Kind, Row

BATCH_BYTES = 100


def held(limit_batches: int) -> RecentBatches:
    """Room for so many batches."""
    return RecentBatches(Settings(cache_bytes=limit_batches * (BATCH_BYTES + ROW_BYTES)))


def row(commit: int, offset: int, topic: int = 1, kind: Kind = Kind.BATCH) -> Row:
    fixed = (offset, offset, 0, offset, 0, None, None, NO_COMMIT)
    return Row(kind, topic, 0, *fixed, 0, 0, 1, 0, 0, commit, 0, b"x" * BATCH_BYTES)


def offsets(log: LogBatches, topic: int = 1) -> list[int]:
    rows, place = log.find(topic, 0, 0)
    return [row.base_offset for row in rows[place:]]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), max_size=80), st.integers(1, 20))
def test_what_is_held_is_the_newest_of_all_logs(added: list[tuple[int, int]], room: int) -> None:
    """Of each partition a run without a hole that ends with its newest batch; the limit holds after every commit."""
    shared = held(room)
    logs = [shared.of_log(), shared.of_log()]
    ends: dict[tuple[int, int], int] = {}
    for commit, (log, topic) in enumerate(added):
        offset = ends.get((log, topic), 0)
        logs[log].add(commit, live_of([row(commit, offset, topic)]))
        ends[log, topic] = offset + 1
        assert shared.size_bytes <= room * (BATCH_BYTES + ROW_BYTES)
    count = 0
    for (log, topic), end in ends.items():
        found = offsets(logs[log], topic)
        assert found == list(range(end - len(found), end))
        count += len(found)
    assert min(len(added), room - 1) <= count <= room


def test_a_commit_that_is_larger_than_the_limit_is_not_held() -> None:
    shared = held(2)
    log = shared.of_log()
    log.add(0, live_of([row(0, offset) for offset in range(5)]))
    assert offsets(log) == []
    assert shared.size_bytes == 0


def test_small_batches_are_bounded_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "ROWS_MAX", 32)
    log = held(1000).of_log()
    for offset in range(100):
        log.add(offset, live_of([row(offset, offset)]))
    found = offsets(log)
    assert found[-1] == 99
    assert len(found) == 32


def test_a_small_part_of_a_large_frame_does_not_keep_it() -> None:
    """It is copied; what is most of its memory is held as it is, and counts with all of that."""
    shared = held(10)
    log = shared.of_log()
    frame = memoryview(bytes(1000))
    log.add(0, live_of([row(0, 0)._replace(batch=frame[:100])]))
    assert shared.size_bytes == 100 + ROW_BYTES
    log.add(1, live_of([row(1, 1)._replace(batch=frame[:300]), row(1, 2)._replace(batch=frame[300:600])]))
    assert shared.size_bytes == 100 + 1000 + 3 * ROW_BYTES
    rows, _ = log.find(1, 0, 0)
    assert [len(row.batch) for row in rows] == [100, 300, 300]
    assert isinstance(rows[0].batch, bytes)


def test_control_rows_are_not_held() -> None:
    shared = held(10)
    log = shared.of_log()
    log.add(0, live_of([row(0, 0, kind=Kind.TOPIC)]))
    assert shared.size_bytes == 0


def test_a_closed_log_makes_room_for_the_others() -> None:
    shared = held(10)
    one, other = shared.of_log(), shared.of_log()
    one.add(0, live_of([row(0, 0)]))
    other.add(0, live_of([row(0, 0)]))
    one.close()
    assert offsets(one) == []
    assert offsets(other) == [0]
    assert shared.size_bytes == BATCH_BYTES + ROW_BYTES


def test_merged_batches_stay_in_memory_and_are_the_same_on_disk() -> None:
    log = fresh(settings=replace(SETTINGS, merge_commits_min=1))
    number = made(log).number
    for value in range(20):
        produced(log, number, b"%d" % value)
    merged(log)
    assert log.reader.fetch_cached(number, 0, 0, 10_000) is not None
    assert values_at(log, number) == {value: b"%d" % value for value in range(20)}


def test_what_expired_is_not_served_from_memory() -> None:
    """Though the batches are still there."""
    clock = FakeClock()
    log, number = filled(clock)
    log.upkeep.set_retention(TTL_MS)
    clock.pass_ms(10 * TTL_MS)
    merged(log)
    rows, place = log.announced.recent.find(number, 0, 2)
    assert rows[place].base_offset == 2
    with pytest.raises(OffsetOutOfRange):
        log.reader.fetch_cached(number, 0, 2, 1000)


def test_a_log_that_was_opened_reads_from_the_disk_first() -> None:
    log = fresh()
    number = made(log).number
    produced(log, number, b"x")
    again = opened(log.announced.storage)
    assert again.reader.fetch_cached(number, 0, 0, 100) is None
    assert values_at(again, number) == {0: b"x"}


def drop_all_old(shared: RecentBatches) -> int:
    """In how many steps all that is old went."""
    steps = 1
    while shared.drop_old():
        steps += 1
    return steps


def test_what_is_old_leaves() -> None:
    """What came in this turn and in the last one stays, of every log; an empty memory has nothing that is old."""
    shared = held(1000)
    logs = [shared.of_log(), shared.of_log()]
    assert drop_all_old(shared) == 1
    for turn in range(4):
        for log in logs:
            log.add(turn, live_of([row(turn, turn)]))
        drop_all_old(shared)
        assert [offsets(log) for log in logs] == 2 * [list(range(max(0, turn - 1), turn + 1))]
        shared.turn()
    shared.turn()
    drop_all_old(shared)
    assert [offsets(log) for log in logs] == [[], []]
    assert shared.size_bytes == 0


def test_what_is_old_leaves_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two of them others get at the memory: no client waits for gigabytes. A log that was closed is passed."""
    monkeypatch.setattr(recent, "ROWS_MAX", 1280)
    shared = held(10_000)
    closed, log = shared.of_log(), shared.of_log()
    for number in range(100):
        closed.add(number, live_of([row(number, number)]))
        log.add(number, live_of([row(number, number)]))
    closed.close()
    shared.turn()
    shared.turn()
    assert 10 <= drop_all_old(shared) <= 12
    assert shared.size_bytes == 0
