"""Where a Kafka cluster's log and the replica's part, and what becomes of that here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast
from unittest.mock import AsyncMock

import pytest
from tests.gateway.desk import Desk, desks
from tests.streamlog.world import values_at
from tests.support.kafka_rows import INCARNATION, batch_of_epoch, frame_of, row_of

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka import topics
from fairlead.gateway.from_kafka.granting import KafkaGranting, Wanted
from fairlead.gateway.from_kafka.known import KafkaTiming, Known
from fairlead.gateway.from_kafka.looks import Heard
from fairlead.gateway.from_kafka.parting import RETURNED, UNSURE, Parted, common_end, cut_all, cut_off, note_returned
from fairlead.gateway.from_kafka.upstream import RunningUpstream
from fairlead.kafka import EARLIEST, Cluster, TopicMetadata, TopicPartition
from fairlead.kafka.values import NO_NODE, ConfigValue, OffsetAndEpoch, PartitionMetadata
from fairlead.model.errors import TryAgain
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.payloads import History
from fairlead.streamlog.rows import Row

PLACE = TopicPartition("ships", 0)


@dataclass
class Log:
    """A log of Kafka with that epoch history, which answers as its leader does."""

    history: History
    end: int
    start: int = 0

    async def end_of_epoch(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        assert place == PLACE
        if epoch == self.history[-1][0]:
            return epoch, self.end
        higher = next((first for newer, first in self.history if newer > epoch), None)
        if higher is None:
            return -1, -1
        return max((older for older, _ in self.history if older <= epoch), default=epoch), higher

    async def offsets(
        self, places: Iterable[TopicPartition], at: int, committed: bool = False
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        return {each: OffsetAndEpoch(self.start if at == EARLIEST else self.end) for each in places}

    @property
    def leader(self) -> TopicMetadata:
        return TopicMetadata("ships", INCARNATION, False, (PartitionMetadata(0, self.history[-1][0]),))


@pytest.mark.parametrize(
    ("history", "end", "there", "expected"),
    [
        (((3, 0),), 20, Log(((3, 0), (5, 10)), 15), 10),
        (((3, 0),), 20, Log(((3, 0), (5, 30)), 30), 20),
        (((3, 0), (4, 8)), 20, Log(((3, 0), (5, 10)), 15), 8),
        (((1, 0), (3, 4), (4, 8)), 20, Log(((1, 0), (2, 3), (5, 10)), 15), 3),
        (((3, 0),), 20, Log(((5, 0),), 0), 0),
        (((3, 0),), 20, Log(((9, 12),), 15), 12),
        (((3, 0), (9, 8)), 20, Log(((3, 0),), 12), 8),
        (((5, 0),), 20, Log(((3, 0), (4, 7)), 12), None),
        ((), 0, Log(((3, 0),), 12), None),
    ],
)
async def test_it_is_asked_for_the_newest_epoch_that_both_have(
    history: History, end: int, there: Log, expected: int | None
) -> None:
    """Where Kafka lost an end, lost nothing, has another epoch in place of ours, or two, or lost all, or retention
    has dropped what it had of ours; where it was put back it knows none of ours."""
    assert await common_end(cast(Cluster, there), PLACE, history, end) == expected


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("ny") as (found,):
        yield found


async def kept(desk: Desk, *values: bytes) -> tuple[Stream, KafkaUpstream]:
    """A stream that has the topic, with a batch of epoch 3 for each value."""
    return await kept_rows(
        desk, [row_of(batch_of_epoch(3, at, v), after=(at, 3 if at else -1)) for at, v in enumerate(values)]
    )


async def kept_rows(desk: Desk, rows: Sequence[Row]) -> tuple[Stream, KafkaUpstream]:
    """A stream that has the topic, with these rows."""
    stream = await desk.cluster.create_stream("/x", desk.cluster.stream("/default").settings)
    upstream = KafkaUpstream(stream.id, "old", b"l" * 16, "/file", "the-one", "ships")
    await topics.put_topic(stream, upstream, Log(((3, 0),), 0).leader, {})
    await brought(stream, upstream, rows)
    return stream, upstream


async def brought(stream: Stream, upstream: KafkaUpstream, rows: Sequence[Row], first: int = 0) -> None:
    """The rows come from the Kafka cluster."""
    frame = replace(frame_of(rows, first=first), source=upstream.source)
    frame = replace(frame, rows=[row._replace(origin=upstream.source) for row in frame.rows])
    admission = topics.admission_of(stream, upstream)
    await stream.shards[0].submit(lambda draft: apply_frame(draft, frame, admission))


async def cut(stream: Stream, upstream: KafkaUpstream, there: Log, calls: list[str]) -> Known:
    """A reader has found that the partition's log is another."""
    known = Known(topics={INCARNATION: there.leader}, parted={(INCARNATION, 0)})
    owned = {INCARNATION: stream.topic("ships")}
    await cut_all(cast(Cluster, there), stream, upstream, known, owned, lambda: calls.append("no more is read"))
    return known


def values(stream: Stream, topic: str = "ships") -> Sequence[bytes | None]:
    shard, found = stream.topic(topic)
    return list(values_at(shard, found.number).values())


async def test_what_kafka_has_no_more_is_cut_off(desk: Desk) -> None:
    """Once; a change of the topic in Kafka leaves the cut as it is, and so does what is deleted."""
    calls: list[str] = []
    stream, upstream = await kept(desk, b"a", b"b", b"c")
    there = Log(((3, 0), (5, 1)), 1)
    assert not (await cut(stream, upstream, there, calls)).parted
    assert values(stream) == [b"a"]
    epoch = stream.topic("ships")[1].epoch
    assert epoch > 5
    assert stream.topic("ships")[1].since == ((1, ((3, 0), (4, 1))),)
    await cut(stream, upstream, there, calls)
    await topics.put_topic(stream, upstream, there.leader, {"retention.ms": "1000"})
    shard, topic = stream.topic("ships")
    assert (topic.epoch, topic.since, dict(topic.configs)) == (
        epoch,
        ((1, ((3, 0), (4, 1))),),
        {"retention.ms": "1000"},
    )
    assert calls == ["no more is read"]
    await topics.delete_topic(stream, upstream, topic)
    assert stream.find_topic("ships") is None
    assert shard.state.tombstone(INCARNATION) is not None


async def test_a_cluster_that_was_put_back_changes_nothing(desk: Desk) -> None:
    """Its leader is none of a later election: epochs to come would be those that are here already. It is asked again,
    since the broker that was asked may not have heard of the election."""
    calls: list[str] = []
    stream, upstream = await kept(desk, b"a", b"b", b"c")
    assert (await cut(stream, upstream, Log(((3, 0),), 1), calls)).parted
    assert values(stream) == [b"a", b"b", b"c"]
    assert not calls


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(Log(((7, 0), (9, 3)), 4), id="it had gone on in the epoch before the tail"),
        pytest.param(Log(((7, 0), (8, 1), (11, 3)), 4), id="it had gone on in one that is not here"),
    ],
)
async def test_what_a_leader_of_before_has_that_is_back_is_not_thrown_away(desk: Desk, there: Log) -> None:
    """After two unclean elections Kafka's log goes on with records of an epoch below that of the tail here. No fence
    tells the two apart, so the partition stands still, with what is here, and says why."""
    calls: list[str] = []
    tail = there.history[-1][0] - 1
    of_before = row_of(batch_of_epoch(7, 0, b"a"), after=(0, -1))
    stream, upstream = await kept_rows(desk, [of_before, row_of(batch_of_epoch(tail, 1, b"b"), after=(1, 7))])
    known = await cut(stream, upstream, there, calls)
    assert values(stream) == [b"a", b"b"]
    assert stream.topic("ships")[1].epoch == 0
    assert (list(known.parted), known.stopped) == ([(INCARNATION, 0)], {(INCARNATION, 0): RETURNED.format(at=1)})
    assert not calls


@pytest.mark.parametrize("ends", [3, 5])
async def test_a_log_that_may_have_parted_in_a_hole_is_not_cut_behind_it(desk: Desk, ends: int) -> None:
    """Records of the tail's first epoch were aborted; the other log may have others there, of the epoch before."""
    calls: list[str] = []
    rows = [
        row_of(batch_of_epoch(7, 0, b"a"), after=(0, -1)),
        row_of(batch_of_epoch(8, 5, b"b"), after=(1, 7)),
        row_of(batch_of_epoch(8, 6, b"c"), after=(6, 8)),
    ]
    stream, upstream = await kept_rows(desk, rows)
    known = await cut(stream, upstream, Log(((7, 0), (9, ends)), 9), calls)
    assert values(stream) == [b"a", b"b", b"c"]
    assert known.stopped == {(INCARNATION, 0): UNSURE.format(at=ends)}
    assert not calls
    await cut(stream, upstream, Log(((7, 0), (8, 3), (9, 6)), 9), calls)
    assert (values(stream), calls) == ([b"a", b"b"], ["no more is read"])


async def test_where_a_leader_of_before_comes_back_behind_a_cut_nothing_more_is_read(desk: Desk) -> None:
    """Its records of the old epoch are dropped, and the next ones would be read time and again. Once a leader has other
    records there, it goes on."""
    stream, upstream = await kept(desk, b"a", b"b")
    await cut(stream, upstream, Log(((3, 0), (5, 1)), 1), [])
    back = Log(((3, 0), (6, 2)), 3)
    rows = [row_of(batch_of_epoch(3, 1, b"c"), after=(1, 3)), row_of(batch_of_epoch(6, 2, b"d"), after=(2, 3))]
    await brought(stream, upstream, rows, first=1)
    assert values(stream) == [b"a"]
    known, owned = Known(topics={INCARNATION: back.leader}), {INCARNATION: stream.topic("ships")}
    await note_returned(cast(Cluster, back), upstream, known, owned)
    assert known.returned == {(INCARNATION, 0): RETURNED.format(at=1)}
    for other in (Log(((3, 0), (7, 1)), 3), Log(((6, 2),), 3, start=2)):
        await note_returned(cast(Cluster, other), upstream, known, owned)
        assert not known.returned
        await note_returned(cast(Cluster, back), upstream, known, owned)
        assert known.returned


class Partly(Log):
    """A log of two partitions like it, of which the second has a leader in the metadata alone, or none there either."""

    leads: int = 0

    async def end_of_epoch(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        if place.partition:
            assert self.leads != NO_NODE
            raise TryAgain("its leader is away")
        return await super().end_of_epoch(place, epoch)

    @property
    def leader(self) -> TopicMetadata:
        (first,) = super().leader.partitions
        return super().leader._replace(partitions=(first, first._replace(leader=self.leads)))


@pytest.mark.parametrize("leads", [0, NO_NODE])
async def test_a_partition_whose_leader_is_away_keeps_no_other_one_from_its_cut(desk: Desk, leads: int) -> None:
    """It stays as it was, and is asked with the next look; where it has none in the metadata, nobody is asked."""
    stream, upstream = await kept(desk, b"a", b"b")
    there = Partly(((3, 0), (5, 1)), 1)
    there.leads = leads
    await topics.put_topic(stream, upstream, there.leader, {})
    both = [row_of(batch_of_epoch(3, at, b"x"), after=(at, 3 if at else -1), partition=1) for at in range(2)]
    await brought(stream, upstream, both, first=1)
    calls: list[str] = []
    places = [(INCARNATION, each) for each in range(2)]
    known = Known(topics={INCARNATION: there.leader}, parted=set(places), stopped=dict.fromkeys(places, "it parted"))
    owned = {INCARNATION: stream.topic("ships")}
    await cut_all(cast(Cluster, there), stream, upstream, known, owned, lambda: calls.append("no more is read"))
    assert (values(stream), calls) == ([b"a"], ["no more is read"])
    assert (known.parted, known.stopped[INCARNATION, 1]) == ({(INCARNATION, 1)}, "it parted")


@pytest.mark.parametrize("leads", [0, NO_NODE])
async def test_while_nobody_says_whether_a_leader_of_before_is_back_it_is_as_it_was(desk: Desk, leads: int) -> None:
    """Of the first partition it is told that it is not; the second one has no leader that could tell."""
    stream, upstream = await kept(desk, b"a", b"b")
    there = Partly(((3, 0), (5, 1)), 1)
    there.leads = leads
    await topics.put_topic(stream, upstream, there.leader, {})
    shard, topic = stream.topic("ships")
    cuts = {each: Parted(0, shard.state.partition(topic.number, each)) for each in range(2)}
    await shard.submit(lambda draft: cut_off(stream, shard, upstream, topic, cuts, draft))
    owned = {INCARNATION: stream.topic("ships")}
    places = [(INCARNATION, each) for each in range(2)]
    known = Known(topics={INCARNATION: there.leader}, returned=dict.fromkeys(places, "it is back"))
    there.history = ((5, 0),)
    await note_returned(cast(Cluster, there), upstream, known, owned)
    assert known.returned == {(INCARNATION, 1): "it is back"}


class Whole(Log):
    """A Kafka cluster with nothing but that log."""

    async def topics(self) -> dict[str, TopicMetadata]:
        return {"ships": self.leader}

    async def describe_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigValue]]:
        return {}

    async def told_offsets(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool, seconds: float
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        return await self.offsets(places, at, committed)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Readers:
    """What they are given."""

    given: list[int] = field(default_factory=list)

    def stands(self, upstream: KafkaUpstream) -> bool:
        return True

    def give(self, upstream: KafkaUpstream, stream: Stream, wanted: Sequence[Wanted]) -> bool:
        self.given.append(len(wanted))
        return True

    def take_back(self, upstream: KafkaUpstream, why: str) -> None:
        """Nothing is read."""


async def test_a_partition_whose_leader_of_before_is_back_is_given_to_no_reader(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown as stopped, with what it lags, until another leader has other records there."""
    stream, upstream = await kept(desk, b"a", b"b")
    await cut(stream, upstream, Log(((3, 0), (5, 1)), 1), [])
    await brought(stream, upstream, [row_of(batch_of_epoch(6, 2, b"d"), after=(2, 3))], first=1)
    kafka, readers = Whole(((3, 0), (6, 2)), 3), Readers()
    for module in ("upstream", "looks"):
        opened = AsyncMock(return_value=kafka)
        monkeypatch.setattr(f"fairlead.gateway.from_kafka.{module}.open_by_file", opened)
    record = replace(upstream, cursors="none")
    running = RunningUpstream(desk.cluster, record, cast(KafkaGranting, readers), KafkaTiming())
    running.start()
    try:
        for _ in range(2):
            assert await running.look_again() is Heard.ALL
            assert running.known.stopped == {(INCARNATION, 0): RETURNED.format(at=1)}
            assert (readers.given, running.lag) == ([0], 2)
        kafka.history = ((3, 0), (7, 1))
        assert await running.look_again() is Heard.ALL
        assert (readers.given, running.known.stopped) == ([0, 1], {})
    finally:
        await running.close()
