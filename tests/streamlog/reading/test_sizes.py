"""Sizes of partitions are the same before and after merging, and go with what expires."""

from __future__ import annotations

from dataclasses import replace

from tests.streamlog.world import SETTINGS, FakeClock, SeededRandomness, fresh, installed, made, produced

from fairlead.streamlog.merging import run_job
from fairlead.streamlog.reading.sizes import Size
from fairlead.streamlog.writing.writer import ShardLog

TINY = replace(SETTINGS, merge_commits_min=2)


def merge(log: ShardLog) -> None:
    job = log.upkeep.plan()
    assert job is not None
    installed(log, run_job.run(log.announced.storage, SeededRandomness(1), job))


def test_merging_changes_no_size() -> None:
    """Segments are counted from their columns, commits from the index."""
    clock = FakeClock()
    log = fresh(clock=clock, settings=TINY)
    topic = made(log, "t", 2).number
    for partition in (0, 1, 0, 0):
        produced(log, topic, b"value", partition=partition)
    before = log.sizes.all()
    assert set(before) == {(topic, 0), (topic, 1)}
    assert before[topic, 0].logical_bytes == 3 * before[topic, 1].logical_bytes
    clock.pass_ms(3_600_000)
    merge(log)
    assert log.sizes.all() == before
    produced(log, topic, b"value", partition=1)
    after = log.sizes.all()
    assert after[topic, 0] == before[topic, 0]
    assert after[topic, 1] == before[topic, 1] + before[topic, 1]


def test_an_empty_log_has_no_sizes() -> None:
    """A topic without a record is not counted."""
    log = fresh(settings=TINY)
    made(log, "t", 1)
    assert log.sizes.all() == {}
    assert Size() + Size(1, 2) == Size(1, 2)
