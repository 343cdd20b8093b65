"""Where a Kafka cluster's log and the replica's part, and what becomes of that here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest
from tests.gateway.desk import Desk, desks
from tests.streamlog.world import values_at
from tests.support.kafka_rows import INCARNATION, batch_of_epoch, frame_of, row_of

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka import topics
from fairlead.gateway.from_kafka.known import Known
from fairlead.gateway.from_kafka.parting import common_end, cut_all
from fairlead.kafka import Cluster, TopicMetadata, TopicPartition
from fairlead.kafka.values import PartitionMetadata
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.payloads import History

PLACE = TopicPartition("ships", 0)


@dataclass
class Log:
    """A log of Kafka with that epoch history, which answers as its leader does."""

    history: History
    end: int

    async def end_of_epoch(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        assert place == PLACE
        if epoch == self.history[-1][0]:
            return epoch, self.end
        higher = next((first for newer, first in self.history if newer > epoch), None)
        if higher is None:
            return -1, -1
        return max((older for older, _ in self.history if older <= epoch), default=epoch), higher

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
        (((3, 0), (9, 8)), 20, Log(((3, 0),), 12), 8),
        (((5, 0),), 20, Log(((3, 0), (4, 7)), 12), None),
        ((), 0, Log(((3, 0),), 12), None),
    ],
)
async def test_it_is_asked_for_the_newest_epoch_that_both_have(
    history: History, end: int, there: Log, expected: int | None
) -> None:
    """Where Kafka lost an end, lost nothing, has another epoch in place of ours, or two, or lost all; where it was put
    back it knows none of ours."""
    assert await common_end(cast(Cluster, there), PLACE, history, end) == expected


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("ny") as (found,):
        yield found


async def kept(desk: Desk, *values: bytes) -> tuple[Stream, KafkaUpstream]:
    """A stream that has the topic, with a batch of epoch 3 for each value."""
    stream = await desk.cluster.create_stream("/x", desk.cluster.stream("/default").settings)
    upstream = KafkaUpstream(stream.id, "old", b"l" * 16, "/file", "the-one", "ships")
    await topics.put_topic(stream, upstream, Log(((3, 0),), 0).leader, {})
    rows = [row_of(batch_of_epoch(3, at, v), after=(at, 3 if at else -1)) for at, v in enumerate(values)]
    frame = replace(frame_of(rows), source=upstream.source)
    frame = replace(frame, rows=[row._replace(origin=upstream.source) for row in frame.rows])
    admission = topics.admission_of(stream, upstream)
    await stream.shards[0].submit(lambda draft: apply_frame(draft, frame, admission))
    return stream, upstream


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
