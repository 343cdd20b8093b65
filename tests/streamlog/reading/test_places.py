"""Where batches lie on disk: found in the right order, and without looking at every segment before them."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streamlog.requests.test_cuts import cut_at
from tests.streamlog.world import (
    SETTINGS,
    FakeClock,
    SeededRandomness,
    committed,
    fresh,
    installed,
    made,
    opened,
    produced,
)

from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.objects import format
from fairlead.streamlog.reading import passed
from fairlead.streamlog.reading.kept_columns import OF_PROCESS
from fairlead.streamlog.reading.passed import Passed
from fairlead.streamlog.requests.topics import delete_topic
from fairlead.streamlog.writing.writer import ShardLog

ALONE = replace(SETTINGS, merge_commits_min=1, segment_bytes_max=6000)
"""Each larger commit becomes a segment of its own."""
JOINED = replace(SETTINGS, merge_commits_min=1, segment_bytes_max=100_000)
"""Segments are joined by eights, again and again."""
SEGMENTS = 40


def merged(log: ShardLog, seed: int) -> None:
    """Do every merge job there is."""
    while (job := log.upkeep.plan()) is not None:
        seed += 1_000_000
        installed(log, run_job.run(log.announced.storage, SeededRandomness(seed), job))


def of_many_segments(topics: int = 1) -> tuple[ShardLog, list[int]]:
    """A log of so many segments, each with one record of one of the topics in turn, of which nothing is in memory."""
    log = fresh(settings=ALONE)
    numbers = [made(log, f"t{topic}").number for topic in range(topics)]
    for place in range(SEGMENTS):
        produced(log, numbers[place % topics], b"%04d" % place * 1200)
        merged(log, place)
    assert sum(segment.kind == "data" for segment in log.announced.manifest.segments) == SEGMENTS
    log.announced.recent.close()
    return log, numbers


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Objects whose columns are read, where there is memory for those of one only."""
    names: list[str] = []
    read = format.read_columns

    def noted(storage: MemoryStorage, name: str) -> object:
        names.append(name)
        return read(storage, name)

    monkeypatch.setattr(format, "read_columns", noted)
    monkeypatch.setattr(OF_PROCESS, "limit_bytes", 1)
    return names


def test_who_reads_on_opens_only_the_segments_that_he_reads(looked_at: list[str]) -> None:
    """It was all segments before the offset, with each Fetch anew, once their columns had no room in memory."""
    log, (number,) = of_many_segments()
    for offset in range(SEGMENTS):
        looked_at.clear()
        assert log.reader.fetch(number, 0, offset, 1).batches
        assert len(looked_at) <= 3, f"{offset}"
    for offset in (7, 30, 7, 30):
        log.reader.fetch(number, 0, offset, 1)
    looked_at.clear()
    for offset in (7, 30):
        log.reader.fetch(number, 0, offset, 1)
    assert len(looked_at) <= 4, "two that read at two places do not take each other's"


def test_a_first_look_opens_few_segments(looked_at: list[str]) -> None:
    """Twice the logarithm of them, and some that had no room meanwhile."""
    log, (number,) = of_many_segments()
    for offset in (39, 17, 1, 0):
        log = opened(log.announced.storage, settings=ALONE)
        looked_at.clear()
        assert log.reader.fetch(number, 0, offset, 1).batches
        assert len(looked_at) <= 12, f"{offset}"


def test_a_partition_that_few_segments_have_is_looked_for_once(looked_at: list[str]) -> None:
    """The segments without it tell nothing of where it goes on; what was passed over is known afterwards."""
    log, numbers = of_many_segments(topics=SEGMENTS // 2)
    for number in numbers:
        looked_at.clear()
        assert log.reader.fetch(number, 0, 1, 1).batches
        assert len(looked_at) <= 2 * SEGMENTS
        looked_at.clear()
        assert log.reader.fetch(number, 0, 1, 1).batches
        assert len(looked_at) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_what_was_passed_over_hides_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written, merged, cut, expired and deleted between two looks, all batches from an offset on are found
    in order, as written down beside."""
    monkeypatch.setattr(OF_PROCESS, "limit_bytes", 100_000)
    monkeypatch.setattr(passed, "PLACES_MAX", 3)
    monkeypatch.setattr(passed, "PARTITIONS_MAX", 5)
    dice, clock = random.Random(seed), FakeClock()
    log = fresh(clock=clock, settings=JOINED if seed % 2 else ALONE)
    log.upkeep.set_retention(600_000)
    numbers = {name: made(log, name, 2).number for name in ("a", "b", "c")}
    written: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for step in range(100):
        name, partition = dice.choice(list(numbers)), dice.randrange(2)
        number = numbers[name]
        key, state = (number, partition), log.announced.state.partition(number, partition)
        action = dice.choices(("produce", "merge", "cut", "pass", "delete"), (12, 4, 1, 1, 0.2))[0]
        if action == "produce":
            values = [b"%04d" % step * dice.randrange(1, 700) for _ in range(dice.randrange(1, 3))]
            base = produced(log, number, *values, partition=partition).base_offset
            written.setdefault(key, []).append((base, base + len(values) - 1))
        elif action == "merge":
            merged(log, step)
        elif action == "cut" and written.get(key):
            offset = dice.choice(written[key][-5:])[0]
            if offset >= state.start:
                cut_at(log, number, offset, partition=partition)
                written[key] = [batch for batch in written[key] if batch[0] < offset]
        elif action == "pass":
            clock.pass_ms(dice.randrange(200_000))
        elif action == "delete":
            committed(log, partial(delete_topic, name=name))
            numbers[name] = made(log, name, 2).number
        for key in {(number, partition) for number in numbers.values() for partition in range(2)}:
            _check(log, key, written.get(key, []), dice)


def _check(log: ShardLog, key: tuple[int, int], written: list[tuple[int, int]], dice: random.Random) -> None:
    state = log.announced.state.partition(*key)
    offset = dice.randint(state.start, state.end)
    found = [
        batch
        for columns, rows in log.reader.rows_from(*key, offset)
        for batch in zip(columns.base_offset[rows].tolist(), columns.last_offset[rows].tolist(), strict=True)
    ]
    assert found == [batch for batch in written if batch[1] >= offset], (key, offset)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=60))
def test_what_is_known_of_places_is_true_and_bounded(steps: list[tuple[int, int]]) -> None:
    """Commits of three partitions end at twice their number, so a commit that is named too high would skip a batch."""
    known = Passed()
    for partition, commit in steps:
        below = known.below((1, partition), 2 * commit)
        assert below <= commit
        known.add((1, partition), 2 * commit, commit)
        assert known.below((1, partition), 2 * commit) == commit
        assert known.below((1, partition), 2 * commit + 1) == commit
        assert known.below((1, partition), 0) == 0


def test_what_is_known_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partitions, and the places of each, that were used last stay."""
    monkeypatch.setattr(passed, "PARTITIONS_MAX", 3)
    monkeypatch.setattr(passed, "PLACES_MAX", 4)
    known = Passed()
    for partition in range(5):
        for commit in range(1, 11):
            known.add((1, partition), 10 * commit, commit)
            assert known.below((1, partition), 15) in {0, 1}
    assert [known.below((1, partition), 200) for partition in range(5)] == [0, 0, 10, 10, 10]
    assert known.below((1, 4), 15) == 1, "it was asked for all the time"
    assert known.below((1, 4), 55) == 1, "that is gone"
