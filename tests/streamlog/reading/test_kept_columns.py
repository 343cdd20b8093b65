"""Columns are kept under one limit, whichever log they are of, and leave with their log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.streamlog.reading.test_fetch import placed
from tests.streamlog.world import fresh, made, produced

from fairlead.streamlog.objects import format
from fairlead.streamlog.reading.kept_columns import OF_PROCESS, Indexed, KeptColumns, Shared
from fairlead.streamlog.writing.writer import ShardLog


def in_a_segment() -> tuple[ShardLog, int]:
    """A log with a segment of ten batches, and its topic."""
    log = fresh()
    number = made(log).number
    for value in range(10):
        produced(log, number, bytes([value]))
    log = placed(log, "segments")
    log.announced.recent.close()
    return log, number


def indexed() -> Indexed:
    """Columns of a segment of ten batches."""
    log, number = in_a_segment()
    columns, _ = next(iter(log.reader.rows_from(number, 0, 0)))
    return Indexed(columns, columns.last_offset)


def test_many_logs_that_are_read_cold_keep_no_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had 256 MB of its own. The log that was read last has its columns, and nothing is left of one that closes,
    whatever is read of it afterwards."""
    shared = OF_PROCESS
    size_bytes = indexed().size_bytes
    monkeypatch.setattr(shared, "limit_bytes", 2 * size_bytes + size_bytes // 2)
    logs = [in_a_segment() for _ in range(5)]
    for log, number in logs:
        assert len(log.reader.fetch(number, 0, 0, 10**6).batches) == 10
        assert log.reader.columns_bytes == size_bytes
        assert shared.size_bytes <= shared.limit_bytes
    assert [log.reader.columns_bytes for log, _ in logs] == [0, 0, 0, size_bytes, size_bytes]
    last, number = logs[-1]
    before = shared.size_bytes
    last.reader.close()
    assert shared.size_bytes == before - size_bytes
    assert len(last.reader.fetch(number, 0, 0, 10**6).batches) == 10
    assert last.reader.columns_bytes == 0


def test_what_was_used_last_stays_and_the_last_that_came_always() -> None:
    found = indexed()
    shared = Shared(2 * found.size_bytes)
    one, other = KeptColumns(shared), KeptColumns(shared)
    one.keep("x", found)
    other.keep("x", found)
    assert one.find("x") is found
    one.keep("y", found)
    assert (one.find("x"), other.find("x"), one.find("y")) == (found, None, found)
    shared.limit_bytes = 1
    other.keep("z", found)
    assert (list(shared.kept.values()), shared.size_bytes) == ([found], found.size_bytes)
    assert other.find("z") is found


def test_any_thread_may_read_while_logs_close() -> None:
    """The sum stays that of what is kept."""
    found = indexed()
    shared = Shared(5 * found.size_bytes)
    logs = [KeptColumns(shared) for _ in range(8)]

    def use(place: int) -> None:
        for step in range(300):
            log = logs[(place + step) % len(logs)]
            if log.find(str(step % 7)) is None:
                log.keep(str(step % 7), found)
            if step == 150 + place:
                log.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(4)))
    assert shared.size_bytes == sum(each.size_bytes for each in shared.kept.values()) <= 5 * found.size_bytes
    assert sum(log.size_bytes() for log in logs) == shared.size_bytes
    for log in logs:
        log.close()
    assert (shared.size_bytes, len(shared.kept)) == (0, 0)


def test_columns_are_read_once_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    log, number = in_a_segment()
    assert log.reader.fetch(number, 0, 0, 100).batches
    monkeypatch.setattr(format, "read_columns", None)
    assert log.reader.fetch(number, 0, 5, 100).batches
