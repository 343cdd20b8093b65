"""What the reader of a Kafka cluster makes of what its brokers say, and what a replica has of it then."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from tests.streamlog.world import applied, fresh, values_at
from tests.support.batches import changed
from tests.support.kafka_rows import INCARNATION, LINK, SOURCE, batch_of_epoch, frame_of, topic_row
from tests.support.waiting import in_time, until

from fairlead.kafka import EARLIEST, Cluster, Fetched, OffsetAndEpoch, TopicPartition
from fairlead.kafka.errors import OFFSET_OUT_OF_RANGE
from fairlead.model.errors import FairleadError, NotAllowed, TryAgain
from fairlead.protocol.batch import CONTROL, TRANSACTIONAL
from fairlead.replication.credit import CreditPool, CreditWindow
from fairlead.replication.from_kafka import reader as reader_module
from fairlead.replication.from_kafka import rows as rows_module
from fairlead.replication.from_kafka.reader import KafkaReader
from fairlead.spark.packets import Packet
from fairlead.streamlog.frames.codec import decode_frame
from fairlead.streamlog.values import GrantRun
from fairlead.streamlog.writing.writer import ShardLog
from fairlead.wire.control import KafkaGrant, KafkaPartition, KafkaReport
from fairlead.wire.link_protocol import StreamPlace

PLACE, OTHER = TopicPartition("ships", 0), TopicPartition("ships", 1)
B = b"b" * 16


@dataclass
class FakeKafka:
    """Partitions that begin at `first` and end at `end`, and answers that a test puts in."""

    first: int = 0
    end: int = 0
    answers: asyncio.Queue[list[Fetched]] = field(default_factory=asyncio.Queue)
    assigned: list[tuple[int, int]] = field(default_factory=list)
    """(offset, epoch) each time that it was asked to read the first one on from somewhere."""
    newest_epoch: int = 9
    """The leader knows none above it."""
    trouble: FairleadError | None = None
    """What who asks where the other one begins or ends is told."""
    down: str | None = None

    async def offsets(
        self, places: Sequence[TopicPartition], at: int, *, committed: bool = False
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        if OTHER in places and self.trouble is not None:
            await asyncio.sleep(0)
            raise self.trouble
        return {each: OffsetAndEpoch(self.first if at == EARLIEST else self.end) for each in places}

    async def end_of_epoch(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        return (epoch, self.end) if epoch <= self.newest_epoch else (-1, -1)

    def fetcher(self, settings: object, *, committed: bool) -> FakeKafka:
        assert committed
        return self

    def assign(self, place: TopicPartition, offset: int, epoch: int = -1, topic_id: bytes | None = None) -> None:
        assert topic_id == INCARNATION
        if place == PLACE:
            self.assigned.append((offset, epoch))

    def remove(self, place: TopicPartition) -> None:
        assert place == PLACE

    async def next(self) -> list[Fetched]:
        return await self.answers.get()

    async def close(self) -> None:
        pass

    def says(self, *batches: bytes, position: int = 0, aborted: Sequence[tuple[int, int]] = (), **other: Any) -> None:
        """The next answer."""
        self.answers.put_nowait([Fetched(PLACE, position, memoryview(b"".join(batches)), aborted, **other)])


@dataclass
class Rig:
    """A reader, the replica's log, and what the reader has said."""

    kafka: FakeKafka
    log: ShardLog
    said: list[KafkaReport]
    frames: list[bytes]
    credit: CreditWindow
    pipe: asyncio.Event
    """Set while it takes frames."""
    deaf: int = 0
    """So many reports of stopped partitions fail."""

    @property
    def number(self) -> int:
        found = self.log.announced.state.by_incarnation(INCARNATION)
        assert found is not None
        return found.number

    @property
    def values(self) -> dict[int, bytes | None]:
        return values_at(self.log, self.number)

    @property
    def end(self) -> int:
        return self.log.announced.state.partition(self.number, 0).end

    @property
    def stopped(self) -> list[str]:
        return [each.why for report in self.said for each in report.stopped]

    @property
    def told(self) -> list[str]:
        return [report.waits_for for report in self.said]

    def apply(self) -> None:
        """What was handed on comes to the replica."""
        frames, self.frames[:] = list(self.frames), []
        for outcome in applied(self.log, *map(decode_frame, frames)):
            assert (outcome.refused_position, outcome.behind, outcome.conflicts) == (None, 0, 0)

    def acknowledge(self) -> None:
        """The one frame that was handed on comes to the replica, which is answered."""
        (frame,) = self.frames
        self.apply()
        self.credit.answered(1, len(frame))


@asynccontextmanager
async def reading(
    kafka: FakeKafka, log: ShardLog | None = None, *, partitions: int = 1, frames_max: int = 1000
) -> AsyncIterator[Rig]:
    """A reader of the partitions, granted from where their logs end."""
    if log is None:
        log = fresh(B)
        applied(log, frame_of([topic_row(partitions=partitions)]))
    credit = CreditWindow(CreditPool(10**9, 10**9, frames_max, frames_max))
    rig = Rig(kafka, log, [], [], credit, asyncio.Event())
    rig.pipe.set()
    positions = log.announced.state.positions(LINK)
    slices = {each: positions[0, each].commit for each in range(16)}
    states = [log.announced.state.partition(rig.number, each) for each in range(partitions)]
    given = tuple(
        KafkaPartition(16, "ships", INCARNATION, number, state.end, state.epoch_before(state.end), 0)
        for number, state in enumerate(states)
    )
    grant = KafkaGrant(
        *(1, LINK, GrantRun(1, 9), StreamPlace("kafka://old", "/", SOURCE), "id", StreamPlace("ny", "/x", B)),
        *("/file", slices, given),
    )

    async def send(message: object) -> None:
        assert isinstance(message, KafkaReport)
        if message.stopped and rig.deaf:
            rig.deaf -= 1
            raise TryAgain("the report was not heard")
        rig.said.append(message)

    async def hand_on(frame: Packet) -> None:
        await rig.pipe.wait()
        rig.frames.append(bytes(frame.data))

    async def open_kafka(file: str, cluster_id: str) -> Cluster:
        assert (file, cluster_id) == ("/file", "id")
        return cast(Cluster, kafka)

    reader = KafkaReader(grant, credit, send, hand_on, open_kafka=open_kafka)
    running = asyncio.ensure_future(reader.run())
    try:
        async with in_time():
            yield rig
    finally:
        running.cancel()
        await asyncio.wait([running])


async def some(rig: Rig, what: Callable[[Rig], object] = lambda rig: rig.frames) -> None:
    await until(lambda: bool(what(rig)))


async def test_what_is_fetched_stands_at_kafka_s_offsets() -> None:
    """Aborted records are left out, their marker is not; compaction has left a hole; a batch that is cut at the end of
    an answer comes whole with the next one."""
    kafka = FakeKafka(end=20)
    async with reading(kafka) as rig:
        transactional = {"attributes": TRANSACTIONAL, "producer_id": 7}
        first, hole = batch_of_epoch(1, 0, b"a", b"b"), batch_of_epoch(1, 5, b"f")
        aborted = batch_of_epoch(1, 6, b"no", **transactional)
        marker = batch_of_epoch(1, 7, b"", attributes=TRANSACTIONAL | CONTROL, producer_id=7)
        kafka.says(first, hole, aborted, marker, batch_of_epoch(2, 8, b"i")[:40], aborted=[(7, 6)])
        await some(rig)
        rig.apply()
        assert rig.values == {0: b"a", 1: b"b", 5: b"f"} | {7: b""}
        assert rig.end == 8
        kafka.says(batch_of_epoch(2, 8, b"i"), position=8)
        await some(rig)
        rig.apply()
        assert rig.values[8] == b"i"
        assert kafka.assigned == [(0, -1)]
        assert not rig.stopped


async def test_a_log_that_begins_later_begins_there() -> None:
    """Within a batch, if records were deleted up to there; and an empty one has its end at once, so that groups that
    have committed it need not begin anew."""
    kafka = FakeKafka(first=4, end=9)
    async with reading(kafka) as rig:
        kafka.says(batch_of_epoch(3, 3, b"d", b"e"), position=4)
        await some(rig)
        rig.apply()
        state = rig.log.announced.state.partition(rig.number, 0)
        assert (state.start, state.log_start, state.end) == (3, 4, 5)
    kafka = FakeKafka(first=7, end=7)
    async with reading(kafka) as rig:
        await some(rig)
        rig.apply()
        state = rig.log.announced.state.partition(rig.number, 0)
        assert (state.start, state.end) == (7, 7)
        kafka.says(batch_of_epoch(3, 7, b"h"), position=7)
        await some(rig)
        rig.apply()
        assert rig.values == {7: b"h"}


async def test_what_retention_has_taken_is_a_gap() -> None:
    """The reader goes on where the log begins now."""
    kafka = FakeKafka(end=2)
    async with reading(kafka) as rig:
        kafka.says(batch_of_epoch(1, 0, b"a", b"b"))
        await some(rig)
        rig.apply()
        kafka.first, kafka.end = 6, 9
        kafka.says(position=2, error=OFFSET_OUT_OF_RANGE)
        await some(rig, lambda rig: len(kafka.assigned) == 2)
        kafka.says(batch_of_epoch(4, 6, b"g"), position=6)
        await some(rig)
        rig.apply()
        (gap,) = rig.log.announced.state.gaps()
        assert (gap.start, gap.end, gap.reason) == (2, 6, "kafka-retention")
        assert rig.values == {0: b"a", 1: b"b", 6: b"g"}
        assert not rig.stopped


async def test_what_is_deleted_within_the_next_batch_is_no_gap() -> None:
    """The batch comes whole, and clients are shown what Kafka shows of it."""
    kafka = FakeKafka(end=2)
    async with reading(kafka) as rig:
        kafka.says(batch_of_epoch(1, 0, b"a", b"b"))
        await some(rig)
        rig.apply()
        kafka.first, kafka.end = 4, 6
        kafka.says(position=2, error=OFFSET_OUT_OF_RANGE)
        await some(rig, lambda rig: len(kafka.assigned) == 2)
        kafka.says(batch_of_epoch(1, 2, b"c", b"d", b"e", b"f"), position=4)
        await some(rig)
        rig.apply()
        state = rig.log.announced.state.partition(rig.number, 0)
        assert (state.log_start, state.end, rig.log.announced.state.gaps()) == (4, 6, [])


async def test_a_log_that_goes_on_otherwise_stops_its_partition() -> None:
    """After an unclean election Kafka has lost records that are here: shorter, or other records in their place. Nothing
    of it is taken, and that is told."""
    for end, told, why in (
        (1, {"error": OFFSET_OUT_OF_RANGE}, "it was truncated there"),
        (9, {"diverging": (1, 1)}, "goes on otherwise from offset 1 on, after epoch 1"),
        (9, {"error": 100, "detail": "UNKNOWN_TOPIC_ID"}, "UNKNOWN_TOPIC_ID"),
    ):
        kafka = FakeKafka(end=2)
        async with reading(kafka) as rig:
            kafka.says(batch_of_epoch(1, 0, b"a", b"b"))
            await some(rig)
            rig.acknowledge()
            kafka.end = end
            kafka.says(position=2, **cast(Any, told))
            await some(rig, lambda rig: rig.stopped)
            assert why in rig.stopped[0]
            kafka.says(batch_of_epoch(5, 2, b"other"), position=2)
            await until(kafka.answers.empty)
            assert not rig.frames


async def test_a_log_that_was_put_back_and_went_on_stops_its_partition() -> None:
    """Its leader calls an offset out of range that it has, since it knows no such epoch as stands before it here. One
    that knows it answers so while it has just become the leader, and is asked again."""
    kafka = FakeKafka(end=2)
    async with reading(kafka) as rig:
        kafka.says(batch_of_epoch(5, 0, b"a", b"b"))
        await some(rig)
        rig.acknowledge()
        kafka.end = 9
        kafka.says(position=2, error=OFFSET_OUT_OF_RANGE)
        await some(rig, lambda rig: kafka.assigned == [(0, -1), (2, 5)])
        assert not rig.stopped
        kafka.newest_epoch = 4
        kafka.says(position=2, error=OFFSET_OUT_OF_RANGE)
        await some(rig, lambda rig: rig.stopped)
        assert "does not know the epoch 5 of the record before offset 2" in rig.stopped[0]
        assert [each.parted for report in rig.said for each in report.stopped] == [True]
        assert kafka.assigned == [(0, -1), (2, 5)]
        assert rig.values == {0: b"a", 1: b"b"}


@pytest.mark.parametrize("told", [{"error": OFFSET_OUT_OF_RANGE}, {"diverging": (1, 1)}])
async def test_what_kafka_has_lost_has_come_before_it_is_told(told: dict[str, Any]) -> None:
    """What is on its way is dropped as soon as the grant is taken back, and Kafka has it no more. Nothing more of the
    partition is handed on meanwhile."""
    kafka = FakeKafka(end=2)
    async with reading(kafka) as rig:
        kafka.says(batch_of_epoch(1, 0, b"a", b"b"))
        await some(rig)
        (frame,) = rig.frames
        kafka.end = 1
        kafka.says(position=2, **told)
        await until(kafka.answers.empty)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not rig.stopped
        rig.apply()
        rig.credit.answered(1, len(frame))
        await some(rig, lambda rig: rig.stopped)
        assert rig.values == {0: b"a", 1: b"b"}
        assert not rig.frames


async def test_what_was_lost_on_the_way_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "ARRIVES_SECONDS_MAX", 0.01)
    kafka = FakeKafka(end=2)
    async with reading(kafka) as rig:
        kafka.says(batch_of_epoch(1, 0, b"a", b"b"))
        await some(rig)
        kafka.says(position=2, diverging=(1, 1))
        await some(rig, lambda rig: rig.stopped)


async def test_what_cannot_be_kept_as_it_is_stops_its_partition() -> None:
    """Records of formats before v2 have no place in a log of Fairlead; batches without an epoch cannot be compared.
    What is damaged on Kafka's disk, the replica would refuse with all that is read beside it, each time."""
    good = batch_of_epoch(1, 0, b"a")
    for batch, why in (
        (changed(good, magic=1), "format v1"),
        (batch_of_epoch(-1, 0, b"a"), "no leader epoch"),
        (good[:-1] + bytes([good[-1] ^ 1]), "the batch at offset 0 is damaged in Kafka: .* its CRC-32C is wrong"),
        (changed(good, record_count=2), "the batch at offset 0 is damaged in Kafka: .* 2 records for 1 offsets"),
    ):
        kafka = FakeKafka(end=1)
        async with reading(kafka) as rig:
            kafka.says(batch)
            await some(rig, lambda rig: rig.stopped)
            assert re.search(why, rig.stopped[0])
            assert not rig.frames


async def test_a_batch_that_fits_into_no_frame_stops_its_partition_behind_what_was_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large = batch_of_epoch(1, 0, b"a"), batch_of_epoch(1, 1, b"b" * 1000)
    monkeypatch.setattr(rows_module, "COMMIT_BYTES_MAX", 1000)
    kafka = FakeKafka(end=2)
    async with reading(kafka) as rig:
        kafka.says(small, large)
        await some(rig, lambda rig: rig.stopped)
        why = f"the batch at offset 1 has {len(large):,} bytes, and at most 1,000 can be kept"
        assert rig.stopped == [why]
        rig.apply()
        assert rig.values == {0: b"a"}


async def test_a_stop_that_could_not_be_told_is_met_and_told_again() -> None:
    kafka = FakeKafka(end=1)
    async with reading(kafka) as rig:
        rig.deaf = 1
        await some(rig, lambda rig: kafka.assigned)
        kafka.says(batch_of_epoch(-1, 0, b"a"))
        await some(rig, lambda rig: "the report was not heard" in rig.told and len(kafka.assigned) == 2)
        kafka.says(batch_of_epoch(-1, 0, b"a"))
        await some(rig, lambda rig: rig.stopped)
        assert not rig.frames


async def test_a_grant_goes_on_where_the_replica_stands() -> None:
    """With the epoch of the record before, by which the broker notices another history; and what comes twice, since an
    earlier grant had brought it, changes nothing."""
    kafka = FakeKafka(end=3)
    async with reading(kafka) as rig:
        kafka.says(batch_of_epoch(1, 0, b"a", b"b"))
        await some(rig)
        rig.apply()
        log = rig.log
    kafka = FakeKafka(end=3)
    async with reading(kafka, log) as rig:
        kafka.says(batch_of_epoch(1, 0, b"a", b"b"), batch_of_epoch(1, 2, b"c"), position=2)
        await some(rig)
        assert kafka.assigned == [(2, 1)]
        rig.apply()
        assert rig.values == {0: b"a", 1: b"b", 2: b"c"}


async def test_what_keeps_a_reader_waiting_is_told() -> None:
    """Also a Kafka cluster that cannot be opened; it is tried again."""
    kafka = FakeKafka(down="no broker answers")
    async with reading(kafka) as rig:
        await some(rig, lambda rig: rig.said and rig.said[-1].waits_for == "no broker answers")
        kafka.down = None
        await some(rig, lambda rig: rig.said[-1].waits_for == "")


async def test_what_came_is_handed_on_whatever_becomes_of_another_partition_of_the_answer() -> None:
    """Where Kafka does not say where that one begins, all are read on: of this one nothing was left out, though nothing
    more comes of it that would show it."""
    kafka = FakeKafka(end=2)
    async with reading(kafka, partitions=2) as rig:
        await some(rig, lambda rig: kafka.assigned == [(0, -1)])
        kafka.trouble = TryAgain("its leader is away")
        found = Fetched(PLACE, 0, memoryview(batch_of_epoch(1, 0, b"a", b"b")))
        kafka.answers.put_nowait([Fetched(OTHER, 0, memoryview(b""), error=OFFSET_OUT_OF_RANGE), found])
        await some(rig, lambda rig: "its leader is away" in rig.told)
        rig.apply()
        assert rig.values == {0: b"a", 1: b"b"}
        await some(rig, lambda rig: len(kafka.assigned) == 2)
        assert kafka.assigned[1] == (2, 1)


@pytest.mark.parametrize("full", ["replica", "pipe"])
async def test_what_waits_to_be_handed_on_is_read_again_after_a_failure(full: str) -> None:
    """Rows wait for room, and meanwhile what else is asked of Kafka fails: they were not handed on, so they are read
    again; and the frame after the one before is the next one, with the room that it had."""
    kafka = FakeKafka(end=0, trouble=TryAgain("its leader is away"))
    async with reading(kafka, partitions=2, frames_max=1 if full == "replica" else 1000) as rig:
        await some(rig, lambda rig: kafka.assigned == [(0, -1)])
        kafka.says(batch_of_epoch(1, 0, b"a"))
        await some(rig)
        (first,) = rig.frames
        rig.apply()
        if full == "pipe":
            rig.credit.answered(1, len(first))
            rig.pipe.clear()
        kafka.says(batch_of_epoch(1, 1, b"b"), position=1)
        await some(rig, lambda rig: kafka.answers.empty() and rig.credit.settled is False)
        kafka.trouble = NotAllowed("it may not be read")
        await some(rig, lambda rig: "it may not be read" in rig.told)
        kafka.trouble = None
        rig.pipe.set()
        rig.credit.answered(1, len(first))
        assert rig.credit.settled
        await some(rig, lambda rig: len(kafka.assigned) == 2)
        assert kafka.assigned[1] == (1, 1)
        kafka.says(batch_of_epoch(1, 1, b"b"), position=1)
        await some(rig)
        rig.apply()
        assert rig.values == {0: b"a", 1: b"b"}
