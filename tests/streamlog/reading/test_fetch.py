"""Reading partitions: sizes, gaps, look-ups by time and epoch, from memory, commits and segments alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.streamlog.world import (
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
    values_at,
)
from tests.support.batches import bomb, changed, produce

from fairlead.model.errors import OffsetOutOfRange, UnknownPartition, UnknownTopic
from fairlead.protocol.batch import build_batch, read_header
from fairlead.protocol.records import Record
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.writer import ShardLog

A = b"a" * 16
WHERE = ("memory", "commits", "segments")


def placed(log: ShardLog, where: str) -> ShardLog:
    """The same log with its batches cached, in commits on disk only, or in segments."""
    if where == "memory":
        return log
    settings = replace(log.settings, merge_commits_min=1)
    log = opened(log.announced.storage, A, clock=FakeClock(), settings=settings)
    if where == "segments":
        seed = 500
        while (job := log.upkeep.plan()) is not None:
            installed(log, run_job.run(log.announced.storage, SeededRandomness(seed), job))
            seed += 1
    return log


@pytest.mark.parametrize("where", WHERE)
def test_a_gap_at_the_end_of_a_partition_is_served_as_an_empty_batch(where: str) -> None:
    """S18: consumers that read to the end pass it; so is one in the middle."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"1")
    gap(log, number, 5)
    produced(log, number, b"2")
    gap(log, number, 9)
    log = placed(log, where)
    assert values_at(log, number) == {0: b"1", 5: b"2"}
    (batch,) = log.reader.fetch(number, 0, 7, 1000).batches
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (7, 8, 0)
    assert log.reader.fetch(number, 0, 9, 1000).batches == []


def gap(log: ShardLog, number: int, end: int) -> None:
    """Declare everything up to `end` missing."""
    start = log.announced.state.partition(number, 0).end
    payload = StartPayload("ttl", end, ((0, 0),), gap_from=start)
    committed(log, lambda d: d.add_control(Kind.START, payload, number=number, partition=0, base_offset=end))


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("cut_to", "expected"), [(None, [(1, 4)]), (1, [])])
def test_what_comes_while_a_gap_at_the_end_is_looked_into_is_no_part_of_it(
    cut_to: int | None, expected: list[tuple[int, int]], ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer would go on behind it. If the log was cut, the new record may stand where the gap was."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"1")
    gap(log, number, 5)
    look = log.reader._places._stretches  # noqa: SLF001 - between the look at the disk and that at the end

    def appended_meanwhile(*arguments: Any) -> Iterator[Any]:
        yield from look(*arguments)
        monkeypatch.undo()
        if cut_to is not None:
            committed(log, lambda d: cut(d, number, 0, cut_to, "takeover", 9, None))
        produced(log, number, b"2", b"3")

    monkeypatch.setattr(log.reader._places, "_stretches", appended_meanwhile)  # noqa: SLF001
    if ahead:
        job = log.reader.ahead(number, 0, log.reader.fetch(number, 0, 0, 1000), 1000)
        assert job is not None
        job()
    headers = map(read_header, log.reader.fetch(number, 0, 1, 1000).batches)
    found = [(header.base_offset, header.last_offset) for header in headers if not header.record_count]
    assert found == expected
    first = 5 if cut_to is None else cut_to
    assert values_at(log, number) == {0: b"1", first: b"2", first + 1: b"3"}


@pytest.mark.parametrize("where", WHERE)
def test_at_least_one_batch_is_served_and_no_more_than_fit(where: str) -> None:
    """Also one that is larger than what was asked for (KIP-74)."""
    log = fresh(A)
    number = made(log).number
    sizes = [len(batch_of(b"x" * 500))] * 4
    for _ in sizes:
        produced(log, number, b"x" * 500)
    log = placed(log, where)
    assert len(log.reader.fetch(number, 0, 0, 1).batches) == 1
    assert len(log.reader.fetch(number, 0, 1, 2 * sizes[0]).batches) == 2
    assert len(log.reader.fetch(number, 0, 0, 1 << 20).batches) == 4


@pytest.mark.parametrize("where", WHERE)
def test_an_answer_that_has_something_gets_only_what_fits(where: str) -> None:
    """A batch that is larger than what is left waits for the next answer (KIP-74), and so does an empty one for a gap
    at the end. A gap before a batch takes no room: offsets jump inside the answer, or a log that was compacted would
    need two round trips a batch. (Of the rows in memory the second one says that nobody can tell what came before it:
    there the next answer is read from the disk.)"""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"x" * 500)
    gap(log, number, 5)
    produced(log, number, b"y" * 500)
    gap(log, number, 8)
    log = placed(log, where)
    first, last = (len(log.reader.fetch(number, 0, offset, 1).batches[0]) for offset in (0, 6))
    assert last < first

    def read(offset: int, max_bytes: int) -> list[int]:
        fetched = log.reader.fetch(number, 0, offset, max_bytes, at_least_one=False)
        assert fetched.high_watermark == 8
        return [read_header(batch).base_offset for batch in fetched.batches]

    assert [read(0, 0), read(0, first - 1), read(0, first), read(0, 2 * first - 1)] == [[], [], [0], [0]]
    assert [read(0, 2 * first), read(1, first), read(1, first - 1)] == [[0] if where == "memory" else [0, 5], [5], []]
    assert [read(6, last - 1), read(6, last), read(5, 10 * first)] == [[], [6], [5]]


@pytest.mark.parametrize("where", WHERE)
def test_a_batch_is_found_by_an_offset_inside_it(where: str) -> None:
    """The whole batch is served; clients skip what comes before."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"1", b"2", b"3")
    log = placed(log, where)
    (batch,) = log.reader.fetch(number, 0, 2, 1000).batches
    assert read_header(batch).base_offset == 0


@pytest.mark.parametrize("where", WHERE)
def test_offsets_are_found_by_time(where: str) -> None:
    """The first record with at least that time, inside its batch (ListOffsets)."""
    log = fresh(A)
    number = made(log).number
    for timestamp in (100, 200, 150):
        batch = build_batch([(None, b"a"), (None, b"b")], timestamp_ms=timestamp)
        committed(log, lambda d, b=batch: produce(d, number, 0, b))  # type: ignore[misc]
    log = placed(log, where)
    assert log.reader.offset_for_time(number, 0, 50) == (0, 100)
    assert log.reader.offset_for_time(number, 0, 101) == (2, 200)
    assert log.reader.offset_for_time(number, 0, 201) is None


@pytest.mark.parametrize("where", WHERE)
def test_records_of_batches_that_leave_out_their_largest_time_are_found_by_time(where: str) -> None:
    """As Kafka kept them before 3.7. Those without any time are not opened, which would use up the look-up's room."""
    log = fresh(A, settings=replace(SETTINGS, message_bytes_max=100_000))
    number = made(log).number
    untimed = changed(bomb(100_000), base_timestamp=-1, max_timestamp=-1)
    for batch in (untimed, changed(build_batch([(None, b"a")], timestamp_ms=1000), max_timestamp=-1)):
        committed(log, lambda d, b=batch: produce(d, number, 0, b))  # type: ignore[misc]
    log = placed(log, where)
    assert log.reader.offset_for_time(number, 0, 1000) == (100_000, 1000)
    assert log.reader.offset_for_time(number, 0, 1001) is None


@pytest.mark.parametrize("where", WHERE)
def test_times_and_the_newest_record_are_found_by_offset_too(where: str) -> None:
    """Of the record at an offset, or of the next one; of the largest time, the first."""
    log = fresh(A)
    number = made(log).number
    for times in ((100, 300, 200), (300, 50)):
        batch = build_batch([Record(at, time, None, b"a") for at, time in enumerate(times)])
        committed(log, lambda d, b=batch: produce(d, number, 0, b))  # type: ignore[misc]
    log = placed(log, where)
    assert log.reader.offset_of_newest(number, 0) == (1, 300)
    assert [log.reader.time_at(number, 0, offset) for offset in range(6)] == [100, 300, 200, 300, 50, None]


@pytest.mark.parametrize("where", WHERE)
def test_the_newest_record_is_one_that_was_not_deleted(where: str) -> None:
    """Those before it in its batch may be, and one of them may be what the batch says of itself."""
    log = fresh(A)
    number = made(log, partitions=3).number
    for partition, batches in enumerate((((100, 50, 20),), ((100, 50), (70, 80)), ((100, 50), (50, 10)))):
        for times in batches:
            batch = build_batch([Record(at, time, None, b"a") for at, time in enumerate(times)])
            committed(log, lambda d, b=batch, p=partition: produce(d, number, p, b))  # type: ignore[misc]
        committed(log, lambda d, p=partition: delete_records(d, number, p, 1))  # type: ignore[misc]
    log = placed(log, where)
    assert [log.reader.offset_of_newest(number, partition) for partition in range(3)] == [(1, 50), (3, 80), (1, 50)]


@pytest.mark.parametrize("where", WHERE)
def test_a_look_up_that_would_cost_too_much_answers_the_first_offset_it_might_be(where: str) -> None:
    """Nobody is led past a record, and no batch keeps others from finding theirs: one bomb of 8 MB in 1 KB is too
    large; of eight whose headers lie about their times, five are looked into."""
    log = fresh(A, settings=replace(SETTINGS, message_bytes_max=1_000_000))
    number = made(log, partitions=2).number
    for batch in (batch_of(b"x"), bomb(1_100_000, max_timestamp=99)):
        committed(log, lambda d, b=batch: produce(d, number, 0, b))  # type: ignore[misc]
    for _ in range(8):
        committed(log, lambda d: produce(d, number, 1, bomb(100_000, max_timestamp=50)))
    log = placed(log, where)
    assert log.reader.offset_for_time(number, 0, 60) == log.reader.offset_of_newest(number, 0) == (1, 99)
    assert log.reader.offset_for_time(number, 0, 100) is None
    assert log.reader.offset_for_time(number, 1, 40) == (500_000, 50)


def test_ends_of_epochs_are_those_of_kafka() -> None:
    """KIP-320: the current epoch ends at the log's end, an older one where the next began, an unknown one nowhere."""
    log = fresh(A)
    number = made(log).number
    committed(
        log,
        lambda d: d.add_batch(number, 0, 0, 4, 0, A, None, 0, batch_of(b"x"), records=5, bits=0, crc=0),
        lambda d: d.add_batch(number, 0, 5, 9, 2, A, None, 0, batch_of(b"x"), records=5, bits=0, crc=0),
    )
    state = log.announced.state.partition(number, 0)
    assert [state.end_of_epoch(0, asked) for asked in (2, 1, 3)] == [(2, 10), (0, 5), (-1, -1)]
    assert state.history == ((0, 0), (2, 5))


def test_fetch_says_what_is_wrong() -> None:
    """Unknown topic, unknown partition, an offset outside the log with its bounds."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"1")
    with pytest.raises(UnknownTopic):
        log.reader.fetch(999, 0, 0, 10)
    with pytest.raises(UnknownPartition):
        log.reader.fetch(number, 4, 0, 10)
    with pytest.raises(OffsetOutOfRange) as error:
        log.reader.fetch(number, 0, 2, 10)
    assert (error.value.start, error.value.end) == (0, 1)


def test_older_commits_leave_the_cache_and_are_read_from_disk() -> None:
    """The cache is bounded; what is served is the same."""
    log = fresh(A, settings=replace(SETTINGS, cache_bytes=3000))
    number = made(log).number
    for i in range(10):
        produced(log, number, b"%d" % i + b"x" * 500)
    assert log.reader.fetch_cached(number, 0, 0, 1 << 20) is None
    assert log.reader.fetch_cached(number, 0, 9, 1 << 20) is not None
    assert len(values_at(log, number)) == 10
