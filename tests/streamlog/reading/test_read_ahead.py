"""What is read ahead is what would have been read, once, and never more than the budget."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.streamlog.reading.test_fetch import placed
from tests.streamlog.world import fresh, made, produced

from fairlead.streamlog.reading.read_ahead import (
    BYTES_MAX,
    ENTRIES_MAX,
    Batches,
    ReadAhead,
    Shared,
    read_ahead_bytes,
)

KEY = (1, 0, 7)


def reading(read: Callable[..., Batches], size: int = 100) -> tuple[ReadAhead, Shared]:
    shared = Shared(size)
    return ReadAhead(read, shared), shared


@pytest.mark.parametrize("where", ["commits", "segments"])
def test_a_consumer_that_reads_on_gets_the_same_batches(where: str) -> None:
    """Whether they were read ahead or not; with jobs that run, that never run, and of which it takes only a part."""
    log = fresh(b"a" * 16)
    number = made(log).number
    for value in range(40):
        produced(log, number, bytes([value]) * 50)
    log = placed(log, where)
    plain = [bytes(batch) for batch in log.reader.fetch(number, 0, 0, 10**6).batches]
    for limits in ((300, 300), (300, 120), (120, 300)):
        found: list[bytes] = []
        turn = 0
        while len(found) < len(plain):
            fetched = log.reader.fetch(number, 0, len(found), limits[turn % 2])
            assert sum(map(len, fetched.batches)) <= limits[turn % 2] or len(fetched.batches) == 1
            found += map(bytes, fetched.batches)
            job = log.reader.ahead(number, 0, fetched, limits[turn % 2])
            if job is not None and turn % 3:
                job()
            turn += 1
        assert found == plain


def test_nothing_is_read_ahead_of_the_end() -> None:
    log = fresh()
    number = made(log).number
    produced(log, number, b"x")
    assert log.reader.ahead(number, 0, log.reader.fetch(number, 0, 0, 100), 100) is None


def test_it_is_handed_out_once() -> None:
    ahead, shared = reading(lambda *_: [b"x"])
    job = ahead.plan(KEY, 60)
    assert job is not None
    assert ahead.plan(KEY, 60) is None
    assert shared.left_bytes == 40
    job()
    assert shared.left_bytes == 99
    assert list(ahead.take(KEY)) == [b"x"]
    assert list(ahead.take(KEY)) == []
    assert shared.left_bytes == 100


def test_who_comes_early_waits_for_a_job_that_runs() -> None:
    begun, go = threading.Event(), threading.Event()

    def read(*_: int) -> Batches:
        begun.set()
        assert go.wait(10)
        return [b"late"]

    ahead, _ = reading(read)
    job = ahead.plan(KEY, 1)
    assert job is not None
    thread = threading.Thread(target=job)
    thread.start()
    assert begun.wait(10)
    threading.Timer(0.05, go.set).start()
    assert list(ahead.take(KEY)) == [b"late"]
    thread.join()


def test_a_job_that_has_not_begun_is_called_off() -> None:
    """Else all threads could wait for jobs that wait for a thread."""
    ahead, shared = reading(lambda *_: pytest.fail("it was called off"))
    job = ahead.plan(KEY, 1)
    assert job is not None
    assert list(ahead.take(KEY)) == []
    job()
    assert shared.left_bytes == 100


def test_what_failed_is_read_again_by_who_asks() -> None:
    def read(*_: int) -> Batches:
        raise ValueError("gone")

    ahead, shared = reading(read)
    job = ahead.plan(KEY, 1)
    assert job is not None
    job()
    assert list(ahead.take(KEY)) == []
    assert shared.left_bytes == 100


def test_what_nobody_came_for_makes_room() -> None:
    ahead, shared = reading(lambda *_: [b"x" * 40])
    for offset in range(10):
        job = ahead.plan((1, 0, offset), 40)
        assert job is not None
        job()
    assert shared.left_bytes == 20
    assert list(ahead.take((1, 0, 0))) == []
    assert list(ahead.take((1, 0, 9))) == [b"x" * 40]


@pytest.mark.parametrize("asked", [1, 2 * 10**6])
def test_what_is_held_is_counted_and_not_what_was_asked_for(asked: int) -> None:
    """A Fetch that asks for one byte at each of a hundred offsets has a whole batch read ahead at each. What is shorter
    than what was asked for takes no more than it is."""
    shared = Shared()
    ahead = ReadAhead(lambda *_: [bytes(10**6)], shared)
    for first in range(0, 100, 10):
        jobs = [ahead.plan((1, 0, first + at), asked) for at in range(10)]
        for job in jobs:
            assert job is not None
            job()
            waiting = sum(not future.done() for future, _ in shared.held.values())
            held_bytes = 10**6 * (len(shared.held) - waiting)
            assert held_bytes + asked * waiting == read_ahead_bytes(shared) <= BYTES_MAX
    assert len(shared.held) > 50
    assert [len(ahead.take((1, 0, offset))) for offset in (0, 99)] == [0, 1]


def test_what_has_no_place_once_it_is_read_is_not_held() -> None:
    ahead, shared = reading(lambda *_: [b"x" * 200])
    job = ahead.plan(KEY, 1)
    assert job is not None
    job()
    assert (list(ahead.take(KEY)), shared.left_bytes) == ([], 100)


def test_small_stretches_are_counted_too() -> None:
    """A hundred thousand of one record each would take a hundred times what they hold."""
    ahead, shared = reading(lambda *_: [b"x"], 10**6)
    for offset in range(ENTRIES_MAX + 5):
        job = ahead.plan((1, 0, offset), 1)
        assert job is not None
        job()
    assert len(shared.held) == ENTRIES_MAX
    assert list(ahead.take((1, 0, 4))) == []
    assert list(ahead.take((1, 0, 5))) == [b"x"]


def test_jobs_that_run_keep_their_room() -> None:
    ahead, _ = reading(lambda *_: [b"x"])
    assert ahead.plan((1, 0, 1), 60) is not None
    assert ahead.plan((1, 0, 2), 60) is None


def test_what_is_left_behind_in_one_log_makes_room_in_another() -> None:
    """A consumer that left, in a stream that nobody reads any more."""
    left, shared = reading(lambda *_: [b"x"])
    job = left.plan(KEY, 100)
    assert job is not None
    job()
    ahead = ReadAhead(lambda *_: [b"y"], shared)
    job = ahead.plan(KEY, 100)
    assert job is not None
    job()
    assert list(ahead.take(KEY)) == [b"y"]
    assert list(left.take(KEY)) == []


def test_a_log_that_is_closed_gives_its_room_back() -> None:
    """Also that of jobs that were never run: whoever ends their threads runs none of those that wait."""
    ahead, shared = reading(lambda *_: [b"x"])
    job = ahead.plan(KEY, 30)
    assert job is not None
    job()
    assert ahead.plan((1, 0, 9), 30) is not None
    other = ReadAhead(lambda *_: [b"y"], shared)
    assert other.plan(KEY, 40) is not None
    ahead.close()
    assert shared.left_bytes == 60
