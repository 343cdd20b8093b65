"""Every object is checked, and what is damaged is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.streamlog.world import SETTINGS, FakeClock, SeededRandomness, fresh, installed, made, produced

from fairlead.storage import names
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.fsck import Checked, check_all, fsck
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.garbage import Replaced
from fairlead.streamlog.objects import format
from fairlead.streamlog.rows import ABORT, REWRITTEN
from fairlead.streamlog.writing.writer import ShardLog


@pytest.fixture
def log() -> ShardLog:
    """A log with segments, a checkpoint and commits that are not merged."""
    clock = FakeClock()
    log = fresh(clock=clock, settings=replace(SETTINGS, merge_commits_min=4))
    number = made(log).number
    for _ in range(5):
        produced(log, number, bytes(100))
    job = log.upkeep.plan()
    assert job is not None
    installed(log, run_job.run(log.announced.storage, SeededRandomness(1), job))
    log.upkeep.sweep([Replaced((), job.commits)])
    produced(log, number, b"x", b"y")
    return log


def storage_of(log: ShardLog) -> MemoryStorage:
    assert isinstance(log.announced.storage, MemoryStorage)
    return log.announced.storage


def test_a_sound_log_has_no_problem(log: ShardLog) -> None:
    """And all of it was looked at."""
    checked = Checked()
    assert list(fsck(log.announced.storage, checked)) == []
    assert checked.objects == 1 + 2 + 1 + 1
    assert checked.bytes > 1000
    assert check_all(MemoryStorage()) == []


@pytest.mark.parametrize("nth", range(1, 6))
def test_what_a_server_merges_meanwhile_is_no_damage(log: ShardLog, nth: int) -> None:
    """To read a large directory takes longer than the grace in which inputs stay."""
    storage = storage_of(log)
    last = log.announced.manifest.commit_name(log.announced.end - 1)
    left = [nth]

    def merge_first(call: str, name: str) -> None:
        left[0] -= (call, name) == ("get", last)
        if not left[0]:
            storage.faults.hook = None
            for _ in range(4):
                produced(log, log.announced.state.by_name("ships").number, b"z")  # type: ignore[union-attr]
            job = log.upkeep.plan()
            assert job is not None
            installed(log, run_job.run(storage, SeededRandomness(2), job))
            log.upkeep.sweep([Replaced((), job.commits)])

    storage.faults.hook = merge_first
    assert check_all(storage) == []
    assert storage.size(last) is None


def objects(log: ShardLog) -> list[str]:
    """Names of everything that counts but the claims."""
    ruling = log.announced.manifest
    assert ruling.checkpoint is not None
    return [item.name for item in log.announced.objects(0, log.announced.end)] + [ruling.name, ruling.checkpoint.name]


def harmed_at(place: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def test_damage_anywhere_is_named(log: ShardLog) -> None:
    """In each kind of object, at many places; record batches included."""
    storage = storage_of(log)
    for name in objects(log):
        for place in range(0, len(storage.get(name)), 97):
            before = storage.snapshot()
            storage.damage(name, harmed_at(place))
            assert [problem.name for problem in check_all(storage)][:1] == [name], place
            storage.replace(before)


def test_what_is_missing_is_named(log: ShardLog) -> None:
    """A segment, a checkpoint, a claim."""
    storage = storage_of(log)
    missing = [log.announced.manifest.segments[0].name, names.epoch(log.announced.prefix, 1)]
    for name in missing:
        storage.delete(name)
    assert sorted(problem.name for problem in check_all(storage)) == sorted(missing)
    assert "missing" in str(check_all(storage)[0])


def test_a_commit_that_is_missing_before_later_ones_is_named(log: ShardLog) -> None:
    """The log does not end there."""
    number = made(log, "later").number
    commits = []
    for value in (b"1", b"2", b"3"):
        commits.append(names.commit(log.announced.prefix, log.epoch.number, log.announced.end))
        produced(log, number, value)
    log.announced.storage.delete(commits[1])
    (problem,) = check_all(log.announced.storage)
    assert problem.name == commits[1]


def test_what_is_cut_short_is_named(log: ShardLog) -> None:
    """At any length."""
    storage = storage_of(log)
    for name in objects(log):
        before = storage.snapshot()
        storage.damage(name, lambda data: data[: len(data) // 2])
        assert [problem.name for problem in check_all(storage)] == [name]
        storage.replace(before)


def test_left_over_objects_are_no_damage(log: ShardLog) -> None:
    """They are counted."""
    log.announced.storage.put_if_absent(names.segment(log.announced.prefix, b"q" * 16), b"half")
    checked = Checked()
    assert list(fsck(log.announced.storage, checked)) == []
    assert checked.left_over >= 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"records": 2}, "records 2, its batch 1"),
        ({"bits": 3}, "attributes 3, its batch 0"),
        ({"bits": ABORT}, ""),
        ({"crc": 7}, "CRC 7, its batch "),
        ({"crc": 7, "bits": REWRITTEN}, ""),
        ({"max_timestamp": 5}, "max timestamp 5, its batch 0"),
        ({"epoch": 2}, "topic epoch 2, its batch 0"),
    ],
)
def test_a_row_that_says_something_else_of_its_batch_is_named(changes: dict[str, Any], why: str) -> None:
    """Counts, look-ups by time and the comparison of copies believe the row. Of a batch that was rewritten it says the
    CRC that its owner wrote; what only control batches have means nothing in others' rows."""
    log = fresh()
    produced(log, made(log).number, b"x")
    storage = storage_of(log)
    name = log.announced.objects(1, 2)[0].name
    found = format.read_whole(storage.get(name), name)
    (row,) = found.rows()
    changed = format.encode([row._replace(**changes)], name=name, epoch_id=found.epoch_id)
    storage.damage(name, lambda _: b"".join(bytes(memoryview(piece)) for piece in changed))
    problems = check_all(storage)
    assert [problem.name for problem in problems] == ([name] if why else [])
    assert all(f"the row says {why}" in problem.why for problem in problems)
