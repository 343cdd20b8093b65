"""What a topic of a Kafka cluster says of where it comes from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from tests.gateway.desk import Desk, desks
from tests.gateway.from_kafka.test_parting import kept
from tests.support.kafka_rows import INCARNATION

from fairlead.broker.settings.configs import topic_configs
from fairlead.cluster.stream import Stream
from fairlead.model.kafka_clusters import ORIGIN_CLUSTER, ORIGIN_TOPIC
from fairlead.model.settings import Settings
from fairlead.streamlog.requests.ownership import take_over


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("ny") as (found,):
        yield found


def origins(stream: Stream) -> dict[str, str]:
    configs = topic_configs(stream, stream.topic("ships")[1], Settings())
    return {each.name: each.value for each in configs if each.read_only}


async def test_a_topic_says_who_owns_it_and_once_it_is_taken_over_which_topic_it_was(desk: Desk) -> None:
    """So a mirror does not write it into itself, before and after."""
    stream, upstream = await kept(desk, b"a")
    assert origins(stream) == {ORIGIN_CLUSTER: str(UUID(bytes=upstream.source))}
    shard, _ = stream.topic("ships")
    await shard.submit(lambda draft: take_over(draft, "ships", owner_at="/mapr/ny/x", writer_epoch_id=shard.epoch.id))
    assert origins(stream) == {ORIGIN_TOPIC: str(UUID(bytes=INCARNATION))}
