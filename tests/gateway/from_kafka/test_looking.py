"""What a Kafka cluster is known to have, and what may be taken over, while it answers only in part, late or not at
all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from tests.gateway.desk import Desk, desks
from tests.gateway.from_kafka.test_parting import Readers, kept
from tests.support.kafka_rows import INCARNATION
from tests.support.waiting import WAIT_SECONDS, a_quiet_while, in_time, until

from fairlead.cluster.stream import Stream
from fairlead.gateway.from_kafka.cursors import Commits
from fairlead.gateway.from_kafka.granting import KafkaGranting
from fairlead.gateway.from_kafka.known import KafkaTiming
from fairlead.gateway.from_kafka.leaving import obstacles
from fairlead.gateway.from_kafka.looks import Heard
from fairlead.gateway.from_kafka.status import ailment_of
from fairlead.gateway.from_kafka.upstream import RunningUpstream
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.kafka import LATEST, TopicMetadata, TopicPartition
from fairlead.kafka.values import ConfigValue, ListedGroup, OffsetAndEpoch, PartitionMetadata
from fairlead.model.errors import FairleadError, NotAllowed, TryAgain

IDS = {"ships": INCARNATION, "sick": b"s" * 16}
SOON = 0.2
"""Kafka is not waited for any longer, where it will not answer."""


@dataclass
class Kafka:
    """A cluster with topics of one partition."""

    ends: dict[str, int] = field(default_factory=lambda: {"ships": 2, "sick": 0})
    sick: bool = False
    """The partition of that topic has no leader."""
    lost: FairleadError | None = None
    """What becomes of each who asks anything."""
    kept_back: dict[str, int] = field(default_factory=dict)
    """Records behind the first one of an open transaction, by topic."""
    private: bool = False
    """What the group has committed may not be read."""
    no_groups: bool = False
    asked: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Answers wait for it."""

    async def open(self, config_file: str, cluster_id: str) -> Kafka:
        await self.topics()
        return self

    async def close(self) -> None:
        """Nothing is open."""

    async def topics(self) -> dict[str, TopicMetadata]:
        if self.lost is not None:
            raise self.lost
        return {name: TopicMetadata(name, IDS[name], False, (PartitionMetadata(0, 3),)) for name in self.ends}

    async def topics_by_several(self, names: Iterable[str], count: int) -> list[dict[str, TopicMetadata]]:
        there = await self.topics()
        return [{name: there[name] for name in names if name in there}] * count

    async def describe_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigValue]]:
        return {}

    async def told_offsets(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool, seconds: float
    ) -> dict[TopicPartition, OffsetAndEpoch | FairleadError]:
        assert at == LATEST
        beyond: dict[str, int] = {} if committed else self.kept_back
        found: dict[TopicPartition, OffsetAndEpoch | FairleadError] = {
            each: OffsetAndEpoch(self.ends[each.topic] + beyond.get(each.topic, 0)) for each in places
        }
        sick = TopicPartition("sick", 0)
        if self.sick and sick in found:
            found[sick] = TryAgain(f"{sick} has no leader")
        if committed:
            self.asked += 1
            await self.gate.wait()
        return found

    async def groups(self) -> dict[str, ListedGroup]:
        if self.no_groups:
            raise TryAgain("broker 1 does not answer")
        return {"g": ListedGroup(0, "consumer", "", "")}

    async def all_committed(self, groups: dict[str, int]) -> Commits:
        return {group: NotAllowed(f"group {group}: not ours to read") if self.private else {} for group in groups}


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("ny") as (found,):
        yield found


@dataclass
class Rig:
    """A stream that has two records of `ships`, and what runs of its Kafka cluster."""

    kafka: Kafka
    stream: Stream
    running: RunningUpstream

    def of(self, stream: bytes) -> list[RunningUpstream]:
        """Those of the stream."""
        return [self.running]

    async def obstacle(self, name: str) -> str:
        """Why a topic may not be taken over."""
        shard, topic = self.stream.topic(name)
        return (await obstacles(cast(RunningUpstreams, self), self.stream, [topic]))(shard, topic)


@asynccontextmanager
async def running(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, kafka: Kafka, answer_s: float = WAIT_SECONDS
) -> AsyncIterator[Rig]:
    stream, record = await kept(desk, b"a", b"b")
    for module in ("upstream", "looks"):
        monkeypatch.setattr(f"fairlead.gateway.from_kafka.{module}.open_by_file", kafka.open)
    timing = KafkaTiming(look_s=0.01, again_s=0.01, answer_s=answer_s)
    record = replace(record, topics=".*")
    found = RunningUpstream(desk.cluster, record, cast(KafkaGranting, Readers()), timing)
    found.start()
    try:
        async with in_time():
            yield Rig(kafka, stream, found)
    finally:
        await found.close()


async def test_a_partition_without_a_leader_hides_no_end_of_another(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic that is healthy all is known; of the other one nobody knows what is still to come."""
    kafka = Kafka()
    kafka.gate.set()
    async with running(desk, monkeypatch, kafka) as rig:
        assert [await rig.obstacle(name) for name in ("ships", "sick")] == ["", ""]
        kafka.sick = True
        kafka.ends["ships"] = 10
        assert (await rig.obstacle("ships")).startswith("8 records of partition 0 are still to come")
        assert (await rig.obstacle("sick")).startswith(
            "nobody knows what is still to come: partition 0: topic sick, partition 0"
        )
        assert "of 1 of them: topic sick, partition 0 has no leader" in str(rig.running.error)
        kafka.ends["ships"] = 2
        assert await rig.obstacle("ships") == ""
        kafka.sick = False
        assert await rig.obstacle("sick") == ""
        await until(lambda: rig.running.error is None)


OPEN = "a transaction is open in Kafka, and 5 offsets of partition 0 wait for its end; "


async def test_what_stands_behind_an_open_transaction_is_still_to_come(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka has acknowledged it, and gives it out once the transaction has ended. What nobody holds back is whole."""
    kafka = Kafka(kept_back={"ships": 5})
    kafka.gate.set()
    async with running(desk, monkeypatch, kafka) as rig:
        assert (await rig.obstacle("ships")).startswith(f"{OPEN}stop its producers and wait")
        assert (await rig.obstacle("sick"), rig.running.lag) == ("", 0)
        kafka.kept_back.clear()
        assert await rig.obstacle("ships") == ""


async def test_what_an_open_transaction_held_back_is_lost_with_kafka(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is said before it is left behind."""
    kafka = Kafka(kept_back={"ships": 5})
    kafka.gate.set()
    async with running(desk, monkeypatch, kafka, SOON) as rig:
        await until(lambda: rig.running.known.held_back)
        kafka.lost = TryAgain("nobody answers")
        assert (await rig.obstacle("ships")).startswith(f"{OPEN}kafka://old does not answer")


async def test_groups_whose_commits_may_not_be_read_are_no_groups_that_have_moved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a takeover their members would begin as if they had never committed. It is shown, and they can be left
    out."""
    kafka = Kafka(private=True)
    kafka.gate.set()
    async with running(desk, monkeypatch, kafka) as rig:
        said = "what 1 groups have committed cannot be kept: group g: not ours to read"
        assert (await rig.obstacle("ships")).startswith(f"nobody knows what is still to come: {said}")
        ailment = ailment_of(rig.running, None)
        assert ailment is not None
        assert said in str(ailment.error)
        rig.running.change(replace(rig.running.record, cursors="other.*"))
        assert await rig.obstacle("ships") == ""
        assert ailment_of(rig.running, None) is None


async def test_a_cluster_that_answers_is_not_lost_though_a_look_does_not_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says before the look fails counts; without it nothing is taken over."""
    kafka = Kafka(no_groups=True)
    kafka.gate.set()
    async with running(desk, monkeypatch, kafka, SOON) as rig:
        await until(lambda: kafka.asked > 0 and rig.running.error is not None)
        assert await rig.running.look_again() is Heard.SOME
        said = "nobody knows what is still to come: kafka://old answers, but has not told all in time"
        assert (await rig.obstacle("ships")).startswith(f"{said} (broker 1 does not answer)")
        kafka.ends["ships"] = 10
        await until(lambda: rig.running.lag == 8)
        assert (await rig.obstacle("ships")).startswith("8 records of partition 0 are still to come")
        kafka.ends["ships"], kafka.no_groups = 2, False
        await until(lambda: not rig.running.lag and rig.running.error is None)
        kafka.gate.clear()
        assert (await rig.obstacle("ships")).startswith(said)


@pytest.mark.parametrize("refusal", [TryAgain("nobody answers"), NotAllowed("who are you")])
async def test_only_a_cluster_of_which_no_broker_answers_is_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, refusal: FairleadError
) -> None:
    """Then what it was known to have counts. One that does not know us any more has told nothing, and is there."""
    kafka = Kafka()
    kafka.gate.set()
    async with running(desk, monkeypatch, kafka, SOON) as rig:
        await until(lambda: rig.running.known.heard_ms is not None)
        kafka.lost = refusal
        if isinstance(refusal, TryAgain):
            assert await rig.obstacle("ships") == ""
        else:
            assert (await rig.obstacle("ships")).startswith("nobody knows what is still to come")


async def test_of_a_cluster_that_was_never_heard_nobody_knows_anything(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a restart of the server, while the cluster is lost: no lag is known, and that is not none."""
    async with running(desk, monkeypatch, Kafka(lost=TryAgain("nobody answers")), SOON) as rig:
        assert "has not said where it ends since this server started" in await rig.obstacle("ships")


async def test_a_look_that_had_begun_before_is_no_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has asked before the last records came."""
    kafka = Kafka()
    async with running(desk, monkeypatch, kafka) as rig:
        await until(lambda: kafka.asked == 1)
        kafka.ends["ships"] = 3
        asking = asyncio.create_task(rig.running.look_again())
        await asyncio.sleep(0)
        kafka.gate.set()
        kafka.gate.clear()
        await until(lambda: kafka.asked == 2)
        await a_quiet_while()
        assert not asking.done()
        kafka.gate.set()
        assert await asking is Heard.ALL
        assert rig.running.lag == 1


async def test_a_topic_that_is_left_out_by_now_is_not_taken_for_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is Kafka's still, and nothing of it has been read since; unless Kafka has it no more."""
    kafka = Kafka()
    kafka.gate.set()
    async with running(desk, monkeypatch, kafka) as rig:
        assert await rig.obstacle("ships") == ""
        rig.running.change(replace(rig.running.record, topics="sick"))
        expected = "nobody knows what is still to come: -topics of kafka://old leaves it out, so it is not read"
        assert (await rig.obstacle("ships")).startswith(expected)
        assert await rig.obstacle("sick") == ""
        del kafka.ends["ships"]
        assert await rig.obstacle("ships") == ""
