"""A topic that was deleted in Kafka is deleted here too where that is asked for, once nobody can doubt it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from tests.gateway.desk import Desk, desks
from tests.gateway.from_kafka.test_looking import Kafka
from tests.gateway.from_kafka.test_parting import Readers, kept
from tests.streamlog.world import FakeClock
from tests.support.kafka_rows import INCARNATION
from tests.support.waiting import in_time

from fairlead.cluster.stream import Stream
from fairlead.gateway.from_kafka.granting import KafkaGranting
from fairlead.gateway.from_kafka.known import GONE_SECONDS, KafkaTiming
from fairlead.gateway.from_kafka.leaving import obstacles
from fairlead.gateway.from_kafka.looks import Heard
from fairlead.gateway.from_kafka.upstream import RunningUpstream
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.kafka import EARLIEST, TopicMetadata, TopicPartition
from fairlead.kafka.values import OffsetAndEpoch, PartitionMetadata
from fairlead.model.errors import FairleadError, NotAllowed, TryAgain

MINUTE_MS = int(GONE_SECONDS * 1000)
SHIPS = TopicMetadata("ships", INCARNATION, False, (PartitionMetadata(0, 3),))
AGAIN = SHIPS._replace(topic_id=b"n" * 16)
"""A topic that was made under the same name."""


@dataclass
class Deleting(Kafka):
    """A cluster of two brokers, which has the topic `ships` or has it no more."""

    ends: dict[str, int] = field(default_factory=lambda: {"ships": 2})
    brokers: list[TopicMetadata | None] = field(default_factory=lambda: [SHIPS, SHIPS])
    """What each of them says of the topic when it is asked for it by name."""
    refusal: FairleadError | None = None
    """What becomes of who asks so."""

    def deleted(self) -> None:
        """All of it has the topic no more."""
        self.ends, self.brokers = {}, [None, None]

    async def topics_by_several(self, names: Iterable[str], count: int) -> list[dict[str, TopicMetadata]]:
        assert (list(names), count) == (["ships"], 2)
        if self.refusal is not None:
            raise self.refusal
        return [{} if said is None else {"ships": said} for said in self.brokers]

    async def offsets(self, places: Iterable[TopicPartition], at: int) -> dict[TopicPartition, OffsetAndEpoch]:
        assert at == EARLIEST
        return {place: OffsetAndEpoch(0) for place in places}


@dataclass
class Rig:
    """A stream that has two records of `ships`, and what runs of its Kafka cluster."""

    kafka: Deleting
    clock: FakeClock
    stream: Stream
    running: RunningUpstream

    def of(self, stream: bytes) -> list[RunningUpstream]:
        """Those of the stream."""
        return [self.running]

    async def is_here(self, after_ms: int = 0) -> bool:
        """Whether the stream has the topic, after so much time and a look."""
        self.clock.pass_ms(after_ms)
        assert await self.running.look_again() is Heard.ALL
        return any(topic.name == "ships" for topic in self.stream.topics())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def desk(clock: FakeClock) -> AsyncIterator[Desk]:
    async with desks("ny", clock=clock) as (found,):
        yield found


@asynccontextmanager
async def keeping(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, deletes: str = "follow"
) -> AsyncIterator[Rig]:
    """With the topic; it has been looked at once."""
    stream, record = await kept(desk, b"a", b"b")
    kafka = Deleting()
    kafka.gate.set()
    for module in ("upstream", "looks"):
        monkeypatch.setattr(f"fairlead.gateway.from_kafka.{module}.open_by_file", kafka.open)
    record = replace(record, deletes=deletes)
    running = RunningUpstream(desk.cluster, record, cast(KafkaGranting, Readers()), KafkaTiming(look_s=0.01))
    running.start()
    try:
        async with in_time():
            rig = Rig(kafka, clock, stream, running)
            assert await rig.is_here()
            yield rig
    finally:
        await running.close()


async def test_a_deleted_topic_goes_after_a_minute(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not before."""
    async with keeping(desk, clock, monkeypatch) as rig:
        rig.kafka.deleted()
        assert await rig.is_here()
        assert await rig.is_here(after_ms=MINUTE_MS - 1)
        assert not await rig.is_here(after_ms=1)


async def test_a_topic_that_is_there_again_is_away_anew_later(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The minute is one in which no look has found it."""
    async with keeping(desk, clock, monkeypatch) as rig:
        rig.kafka.deleted()
        assert await rig.is_here()
        rig.kafka.ends = {"ships": 2}
        assert await rig.is_here(after_ms=MINUTE_MS - 1)
        rig.kafka.deleted()
        assert await rig.is_here(after_ms=1)
        assert await rig.is_here(after_ms=MINUTE_MS - 1)
        assert not await rig.is_here(after_ms=1)


@pytest.mark.parametrize("said", [[SHIPS, None], [None, SHIPS]])
async def test_a_topic_that_one_broker_has_is_kept(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, said: list[TopicMetadata | None]
) -> None:
    """One of two brokers is behind the other; nobody knows which."""
    async with keeping(desk, clock, monkeypatch) as rig:
        rig.kafka.deleted()
        rig.kafka.brokers = said
        assert await rig.is_here()
        assert await rig.is_here(after_ms=10 * MINUTE_MS)
        rig.kafka.brokers = [None, None]
        assert not await rig.is_here()


@pytest.mark.parametrize("refusal", [NotAllowed("topic ships: not ours to see"), TryAgain("1 of 2 brokers answer")])
async def test_a_topic_of_which_nothing_is_said_is_kept(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, refusal: FairleadError
) -> None:
    """We may not see it any more, or a broker is away; all else goes on."""
    async with keeping(desk, clock, monkeypatch) as rig:
        rig.kafka.deleted()
        rig.kafka.refusal = refusal
        assert await rig.is_here()
        assert await rig.is_here(after_ms=10 * MINUTE_MS)
        assert rig.running.error is None
        rig.kafka.refusal = None
        assert not await rig.is_here()


async def test_a_topic_that_was_made_again_is_not_the_one_that_was_deleted(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics are told by their ids."""
    async with keeping(desk, clock, monkeypatch) as rig:
        rig.kafka.deleted()
        rig.kafka.brokers = [None, AGAIN]
        assert await rig.is_here()
        assert not await rig.is_here(after_ms=MINUTE_MS)


async def test_a_topic_that_is_left_out_by_now_is_kept(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Kafka says of it is not followed any more. Once it is kept again, it is."""
    async with keeping(desk, clock, monkeypatch) as rig:
        rig.running.change(replace(rig.running.record, topics="other"))
        rig.kafka.deleted()
        assert await rig.is_here()
        assert await rig.is_here(after_ms=10 * MINUTE_MS)
        rig.running.change(replace(rig.running.record, topics="ships"))
        assert not await rig.is_here()


@pytest.mark.parametrize("refusal", [None, NotAllowed("topic ships: not ours to see"), TryAgain("1 of 2 answer")])
async def test_a_topic_that_kafka_does_not_list_is_not_taken_over_before_it_is_sure_that_it_was_deleted(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, refusal: FairleadError | None
) -> None:
    """A broker that has just begun may not list it, nor one that may not show it to us any more: it may have records
    that have not come."""
    async with keeping(desk, clock, monkeypatch, deletes="keep") as rig:
        rig.kafka.deleted()
        rig.kafka.brokers, rig.kafka.refusal = [None, SHIPS], refusal
        shard, topic = rig.stream.topic("ships")
        why = (await obstacles(cast(RunningUpstreams, rig), rig.stream, [topic]))(shard, topic)
        assert why.startswith(
            "nobody knows what is still to come: kafka://old does not list it, and its brokers do not all say"
        )
        rig.kafka.brokers, rig.kafka.refusal = [AGAIN, None], None
        assert (await obstacles(cast(RunningUpstreams, rig), rig.stream, [topic]))(shard, topic) == ""


async def test_where_nobody_asks_for_it_nothing_is_deleted(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept, and known to be gone."""
    async with keeping(desk, clock, monkeypatch, deletes="keep") as rig:
        rig.kafka.deleted()
        assert await rig.is_here()
        assert await rig.is_here(after_ms=10 * MINUTE_MS)
        assert list(rig.running.known.gone) == [INCARNATION]
