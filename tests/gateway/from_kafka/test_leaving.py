"""Whether topics of a Kafka cluster may be taken over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from tests.gateway.desk import Desk, desks
from tests.gateway.from_kafka.test_parting import kept, kept_rows
from tests.support.kafka_rows import batch_of_epoch, row_of

from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka.leaving import obstacles
from fairlead.gateway.from_kafka.looks import Heard
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.protocol.batch import TRANSACTIONAL
from fairlead.streamlog.values import Topic


@dataclass
class Upstream:
    """One that answers or not, and says this of every topic."""

    record: KafkaUpstream
    answers: Heard = Heard.ALL
    why: str = ""
    asked: list[None] = field(default_factory=list)
    heard_ago_ms: int | None = None

    async def look_again(self) -> Heard:
        self.asked.append(None)
        return self.answers

    async def missed(self, topics: Iterable[Topic]) -> set[bytes]:
        return set()

    def lacking(self, incarnation: bytes) -> str:
        return self.why

    def unknown(self, topic: Topic) -> str:
        return ""


@dataclass
class Upstreams:
    """Those of a stream."""

    one: Upstream

    def of(self, stream: bytes) -> list[Upstream]:
        return [self.one]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("ny") as (found,):
        yield found


LACKS = "3 records of partition 0 are still to come from kafka://old"


@pytest.mark.parametrize(
    ("answers", "why", "said"),
    [
        (Heard.ALL, "", ""),
        (Heard.NOTHING, "", ""),
        (Heard.ALL, LACKS, f"{LACKS}; stop its producers and wait"),
        (Heard.NOTHING, LACKS, f"{LACKS}; kafka://old does not answer, so a takeover goes on without that"),
    ],
)
async def test_what_is_known_to_be_missing_is_said_also_of_a_cluster_that_is_lost(
    desk: Desk, answers: Heard, why: str, said: str
) -> None:
    """Waiting helps only while it answers."""
    stream, record = await kept(desk, b"a")
    upstream = Upstream(record, answers, why)
    shard, topic = stream.topic("ships")
    of_kafka = await obstacles(cast(RunningUpstreams, Upstreams(upstream)), stream, [topic])
    assert of_kafka(shard, topic).startswith(said)
    assert bool(of_kafka(shard, topic)) == bool(said)


async def test_the_end_of_a_transaction_that_kafka_has_no_more_is_not_waited_for(desk: Desk) -> None:
    """All that it has is here. Its marker went with what retention or compaction removed there before it came, and the
    takeover writes another one."""
    batch = batch_of_epoch(3, 0, b"a", attributes=TRANSACTIONAL, producer_id=7)
    stream, record = await kept_rows(desk, [row_of(batch, after=(0, -1))])
    shard, topic = stream.topic("ships")
    assert shard.state.transactions(topic.number, 0).open
    of_kafka = await obstacles(cast(RunningUpstreams, Upstreams(Upstream(record))), stream, [topic])
    assert of_kafka(shard, topic) == ""


async def test_a_cluster_is_asked_once_for_all_its_topics(desk: Desk) -> None:
    """One that is lost is waited for, and a stream has many topics."""
    stream, record = await kept(desk, b"a")
    upstream = Upstream(record)
    shard, topic = stream.topic("ships")
    of_kafka = await obstacles(cast(RunningUpstreams, Upstreams(upstream)), stream, [topic] * 50)
    assert [of_kafka(shard, topic) for _ in range(50)] == [""] * 50
    assert len(upstream.asked) == 1


async def test_a_paused_cluster_is_not_asked(desk: Desk) -> None:
    """What is still to come from it is not known."""
    stream, record = await kept(desk, b"a")
    upstream = Upstream(replace(record, paused=True))
    shard, topic = stream.topic("ships")
    of_kafka = await obstacles(cast(RunningUpstreams, Upstreams(upstream)), stream, [topic])
    assert "is paused" in of_kafka(shard, topic)
    assert not upstream.asked


async def test_a_takeover_says_when_kafka_was_heard_though_it_had_nothing_to_send(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is to decide whether it is lost would take a cluster that nobody writes to for one."""
    _, record = await kept(desk, b"a")
    upstream = Upstream(record, heard_ago_ms=3_000)
    monkeypatch.setattr(desk.upstreams, "of", lambda stream: [upstream])
    lost = {"topic": "ships", "from": "kafka://old"}
    (job,) = await desk.post("stream/topic/takeover", path="/x", **lost, dryrun="true")
    (owner,) = job["owners"]
    assert owner["lastheard"] > 1_600_000_000_000
    assert owner["lastheardseconds"] == 3
