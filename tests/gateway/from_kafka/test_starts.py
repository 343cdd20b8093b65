"""Records that were deleted in Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from typing import cast

import pytest
from tests.gateway.desk import Desk, desks
from tests.gateway.from_kafka.test_parting import kept, values

from fairlead.gateway.from_kafka.starts import follow_starts, keeps_all
from fairlead.kafka import EARLIEST, Cluster, ConfigValue, OffsetAndEpoch, TopicPartition
from fairlead.streamlog.requests.ownership import take_over


@dataclass
class Kafka:
    """Its partitions begin there, and records get too old after so long."""

    start: int
    retention_ms: str = "-1"

    async def offsets(self, places: Iterable[TopicPartition], at: int) -> dict[TopicPartition, OffsetAndEpoch]:
        assert at == EARLIEST
        return {each: OffsetAndEpoch(self.start) for each in places}

    async def describe_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigValue]]:
        return {each: configs("delete", self.retention_ms, "-1") for each in topics}


def configs(policy: str, ms: str, size_bytes: str) -> dict[str, ConfigValue]:
    found = {"cleanup.policy": policy, "retention.ms": ms, "retention.bytes": size_bytes}
    return {name: ConfigValue(value, own=False, sensitive=False) for name, value in found.items()}


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("ny") as (found,):
        yield found


async def test_a_partition_begins_here_where_it_begins_in_kafka(desk: Desk) -> None:
    """Once; what is still to come is told otherwise, and of a topic that was taken over Kafka says nothing."""
    stream, upstream = await kept(desk, b"a", b"b", b"c")

    async def follow(start: int) -> int:
        kafka = cast(Cluster, Kafka(start))
        return await follow_starts(kafka, upstream, {"ships": stream.topic("ships")}, {"ships": 2})

    assert [await follow(0), await follow(2), await follow(2)] == [0, 1, 0]
    shard, topic = stream.topic("ships")
    assert shard.state.partition(topic.number, 0).log_start == 2
    assert values(stream) == [b"c"]
    assert [await follow(9), await follow(9)] == [1, 0]
    assert shard.state.partition(topic.number, 0).log_start == 3
    await shard.submit(lambda draft: take_over(draft, "ships", owner_at="/mapr/ny/x", writer_epoch_id=shard.epoch.id))
    before = shard.state.partition(topic.number, 0)
    await follow(9)
    assert shard.state.partition(topic.number, 0) == before


async def test_retention_that_was_set_a_moment_ago_is_no_deletion(desk: Desk) -> None:
    """Kafka has deleted by it before the settings were read again. Where deletions are followed, that goes too."""
    stream, upstream = await kept(desk, b"a", b"b", b"c")
    kafka = cast(Cluster, Kafka(2, retention_ms="604800000"))
    its = {"ships": stream.topic("ships")}
    assert await follow_starts(kafka, upstream, its, {"ships": 2}) == 0
    assert values(stream) == [b"a", b"b", b"c"]
    assert await follow_starts(kafka, replace(upstream, deletes="follow"), its, {"ships": 2}) == 1
    assert values(stream) == [b"c"]


@pytest.mark.parametrize(
    ("policy", "ms", "size_bytes", "expected"),
    [
        ("delete", "-1", "-1", True),
        ("compact,delete", "-1", "-1", True),
        ("delete", "604800000", "-1", False),
        ("delete", "-1", "1000", False),
        ("compact", "-1", "-1", False),
    ],
)
def test_where_records_get_too_old_nobody_can_tell(policy: str, ms: str, size_bytes: str, expected: bool) -> None:
    """A log begins later for either reason."""
    assert keeps_all(configs(policy, ms, size_bytes)) == expected
