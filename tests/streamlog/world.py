"""Clocks, logs and frames for tests of the stream log: what a site is, without sockets or threads."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.batches import produce

from fairlead.model.errors import Damaged, Fenced
from fairlead.model.names import SLICES
from fairlead.model.settings import Settings
from fairlead.protocol.batch import build_batch
from fairlead.storage.interface import Storage
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.applying.frame import FrameOutcome, apply_frame
from fairlead.streamlog.frames.codec import decode_frame, encode_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.merging.job import MergeResult
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects import format
from fairlead.streamlog.requests.produce import ProduceResult
from fairlead.streamlog.requests.topics import create_topic
from fairlead.streamlog.rows import LOCAL_KINDS, NO_TOPIC, NO_TOPIC_SENT, PASSED_ON_KINDS, Kind, Row
from fairlead.streamlog.values import GrantRun, LogObject, Topic, epoch_before
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.writer import RequestAnswer, ShardLog

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000
FIRST_RUN = GrantRun(1, 1)
LATER_RUN = GrantRun(1, 9)


class FakeClock:
    """Both clocks stand still until a test moves them."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.wall = now_ms
        self.monotonic = 0

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def pass_ms(self, ms: int) -> None:
        """Time goes by on both clocks."""
        self.wall += ms
        self.monotonic += ms


class SeededRandomness:
    """Ids from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def id16(self) -> bytes:
        return self._random.randbytes(16)


SETTINGS = Settings()


def opened(
    storage: Storage,
    stream_id: bytes = b"a" * 16,
    *,
    clock: FakeClock | None = None,
    seed: int = 1,
    settings: Settings = SETTINGS,
) -> ShardLog:
    """The one shard of a stream, opened on the storage."""
    randomness = SeededRandomness(seed * 1000 + sum(1 for _ in storage.list("x/epoch/")))
    return ShardLog.open(
        storage,
        "x",
        stream_id=stream_id,
        clock=clock or FakeClock(),
        randomness=randomness,
        settings=settings,
    )


def fresh(stream_id: bytes = b"a" * 16, *, clock: FakeClock | None = None, settings: Settings = SETTINGS) -> ShardLog:
    """The shard of a new stream on storage of its own."""
    return opened(MemoryStorage(), stream_id, clock=clock, seed=stream_id[0], settings=settings)


def committed(log: ShardLog, *requests: DraftRequest[Any]) -> list[RequestAnswer]:
    """The answers of requests, sealed, written and announced in as few commits as they need.

    Raises:
        FairleadError: the log is stopped, or the commit failed.
    """
    answers: list[RequestAnswer] = []
    while len(answers) < len(requests):
        sealed = log.seal(requests[len(answers) :])
        try:
            log.write(sealed)
        except Exception as error:
            log.abandon(sealed, error)
            raise
        log.announce(sealed)
        answers += sealed.answers
        if sealed.missing:
            log.reader.load_stored(sealed.missing)
    return answers


def installed(log: ShardLog, result: MergeResult) -> None:
    """The result of a merge job rules from now on.

    Raises:
        Fenced, Damaged: the log stops.
        StorageFull, StorageUnavailable
    """
    try:
        prepared = log.upkeep.prepare(result)
    except (Fenced, Damaged) as error:
        log.health.stop(error)
        raise
    for _ in log.upkeep.raise_starts(prepared):
        pass
    log.upkeep.finish(prepared)
    for _ in log.upkeep.forget():
        pass


def made(log: ShardLog, name: str = "ships", partitions: int = 1) -> Topic:
    """A new topic."""
    topic = committed(log, lambda draft: create_topic(draft, name, partitions))[0].result()
    assert isinstance(topic, Topic)
    return topic


def produced(log: ShardLog, number: int, *values: bytes, partition: int = 0) -> ProduceResult:
    """One batch of these values, appended in a commit of its own."""
    batch = batch_of(*values)
    result = committed(log, lambda draft: produce(draft, number, partition, batch))[0].result()
    assert isinstance(result, ProduceResult)
    return result


def batch_of(*values: bytes, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> bytes:
    """A batch as a producer sends it."""
    return build_batch(
        [(None, value) for value in values], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def rows_of(log: ShardLog | Shard, from_commit: int = 0, to_commit: int | None = None) -> list[Row]:
    """All rows of the announced commits [from, to), in the order of the log."""
    end = log.announced.end if to_commit is None else to_commit
    rows = rows_in(log.announced.storage, log.announced.objects(from_commit, end))
    return [row for row in rows if from_commit <= row.commit < end]


def rows_in(storage: Storage, objects: Iterable[LogObject]) -> list[Row]:
    """All rows of these objects, in the order of the log."""
    found = [row for item in objects for row in format.read_whole(storage.get(item.name), item.name).rows()]
    return sorted(found, key=lambda row: (row.commit, row.row))


def sendable(row: Row, destination: bytes, own_of: bytes | None = None) -> bool:
    """Whether a row goes over a link to that stream; with `own_of`, the source's id, over one with `-forward own`."""
    local = row.kind in LOCAL_KINDS or row.topic == NO_TOPIC
    goes = own_of is None or row.via is None or row.origin == own_of
    return not local and goes and row.origin != destination and row.via != destination


class Names:
    """What a source remembers of its numbers, deleted topics included, for the frames it sends."""

    def __init__(self, log: ShardLog) -> None:
        self._log = log

    def of(self, rows: Iterable[Row]) -> dict[int, FrameTopic]:
        """Name and incarnation of every number in the rows."""
        numbers = {row.topic for row in rows}
        found = {}
        for number in numbers:
            topic = self._log.announced.state.topic(number)
            if topic is not None:
                found[number] = FrameTopic(topic.incarnation, topic.name)
        for incarnation, tombstone in self._log.announced.state.tombstones.items():
            if tombstone.number in numbers:
                found[tombstone.number] = FrameTopic(incarnation, tombstone.name)
        return found


def frame(
    source: ShardLog,
    destination: bytes,
    slice: int,
    from_commit: int,
    to_commit: int | None = None,
    *,
    link: bytes = b"l" * 16,
    run: GrantRun = FIRST_RUN,
    created: int | None = None,
    own_of: bytes | None = None,
) -> Frame:
    """The frame of one slice for commits [from, to), as it comes off the wire."""
    return masked_frame(
        source, destination, 1 << slice, from_commit, to_commit, link=link, run=run, created=created, own_of=own_of
    )


def masked_frame(
    source: ShardLog,
    destination: bytes,
    slices: int,
    from_commit: int,
    to_commit: int | None = None,
    *,
    link: bytes = b"l" * 16,
    run: GrantRun = FIRST_RUN,
    created: int | None = None,
    own_of: bytes | None = None,
) -> Frame:
    """The frame of a mask of slices for commits [from, to), as it comes off the wire."""
    end = source.announced.end if to_commit is None else to_commit
    wanted = [
        row
        for row in rows_of(source, from_commit, end)
        if slices >> slice_of_number(row.topic) & 1 and sendable(row, destination, own_of)
    ]
    names = Names(source).of(wanted)
    return decode_frame(
        encode_frame(
            Frame(
                link=link,
                run=run,
                source=source.announced.state.stream_id,
                shard=0,
                slices=slices,
                from_commit=from_commit,
                to_commit=end,
                epoch_id=epoch_before(source.announced.epochs, end).id,
                topics=names,
                rows=[row for row in wanted if row.topic in names or row.topic >= NO_TOPIC_SENT],
                created=created,
            )
        )
    )


def repair_frame(
    source: ShardLog,
    destination: bytes,
    number: int,
    partition: int,
    offset: int,
    *,
    link: bytes = b"l" * 16,
    run: GrantRun = LATER_RUN,
) -> Frame:
    """One frame that brings a partition from `offset` on, read up to the announced end."""
    rows = [row for row in rows_of(source) if row.topic == number and sendable(row, destination)]
    wanted = [row for row in rows if _brings(row, partition, offset)]
    end = max((_end_after(row) for row in wanted), default=0)
    names = Names(source).of([*wanted]) or Names(source).of(rows)
    return decode_frame(
        encode_frame(
            Frame(
                link=link,
                run=run,
                source=source.announced.state.stream_id,
                shard=0,
                slices=1 << slice_of_number(number),
                from_commit=0,
                to_commit=source.announced.end,
                epoch_id=epoch_before(source.announced.epochs, source.announced.end).id,
                topics=names,
                rows=wanted,
                repair=Repair(number, partition, source.announced.end, last=True, end=end),
            )
        )
    )


def _brings(row: Row, partition: int, offset: int) -> bool:
    if row.kind in {Kind.TOPIC, Kind.TOPIC_DELETED}:
        return True
    if row.kind == Kind.CURSOR:
        return row.partition == partition
    if row.kind in PASSED_ON_KINDS:
        return row.partition in {partition, -1}
    return row.partition == partition and (row.kind == Kind.START or _end_after(row) > offset)


def _end_after(row: Row) -> int:
    if row.kind == Kind.BATCH:
        return row.last_offset + 1
    return row.base_offset if row.kind == Kind.START else 0


def applied(log: ShardLog, *frames: Frame) -> list[FrameOutcome]:
    """What became of the frames, all in as few commits as they need."""
    answers = committed(log, *[lambda draft, f=f: apply_frame(draft, f) for f in frames])
    return [answer.result() for answer in answers]


def replicated(source: ShardLog, replica: ShardLog, *, link: bytes = b"l" * 16, run: GrantRun = FIRST_RUN) -> None:
    """Bring every slice of the replica to the end of the source."""
    positions = replica.announced.state.positions(link)
    for slice in range(SLICES):
        position = positions.get((0, slice))
        start = 0 if position is None else position.commit
        applied(replica, frame(source, replica.announced.state.stream_id, slice, start, link=link, run=run))


def values_at(
    log: ShardLog | Shard, number: int, partition: int = 0, offset: int | None = None
) -> dict[int, bytes | None]:
    """Every record of a partition that can be fetched, by offset: from memory, and the same from the disk."""
    found = {offset: value for offset, value, _ in _records(log, number, partition, offset)}
    log.announced.recent.close()
    assert found == {offset: value for offset, value, _ in _records(log, number, partition, offset)}
    return found


def _records(
    log: ShardLog | Shard, number: int, partition: int, offset: int | None
) -> Iterator[tuple[int, bytes | None, bytes]]:
    from fairlead.protocol.batch import read_header, records_of

    state = log.announced.state.partition(number, partition)
    at = state.log_start if offset is None else offset
    while at < state.end:
        batches = log.reader.fetch(number, partition, at, 1 << 20).batches
        assert batches, f"nothing at {at} of [{state.log_start}, {state.end})"
        for batch in batches:
            header = read_header(batch)
            if header.record_count:
                for record in records_of(batch):
                    if record.offset >= at:
                        yield record.offset, record.value, bytes(batch)
            at = header.last_offset + 1
