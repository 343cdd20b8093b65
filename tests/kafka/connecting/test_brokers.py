"""Which broker is asked what any of them can answer."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.kafka.client import opened
from tests.kafka.fake_broker import FakeBroker, fake_broker

from fairlead.kafka import LATEST, Cluster, TopicPartition
from fairlead.kafka.connecting.versions import METADATA
from fairlead.model.errors import Unreachable

PLACE = TopicPartition("t", 0)


def asked(*brokers: FakeBroker) -> list[int]:
    """How often each was asked for metadata, which is forgotten."""
    counts = [len(broker.of(METADATA)) for broker in brokers]
    for broker in brokers:
        broker.seen.clear()
    return counts


async def look_for_a_leader(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        await cluster.offsets([PLACE], LATEST)


async def test_brokers_are_asked_for_leaders_in_turn_and_one_that_is_away_only_where_no_other_is_left() -> None:
    """To wait for it would hold up all that has lost its leader. Once somebody has reached it, its turn comes again."""
    async with fake_broker(0) as one, fake_broker(1) as away, fake_broker(2) as third:
        for broker in (one, away, third):
            broker.add_topic("t")
            broker.peers = [one, away, third]
            broker.leaders["t", 0] = 0
        away.away = True
        async with opened(one.bootstrap) as cluster:
            asked(one, away, third)
            await look_for_a_leader(cluster, 6)
            assert (asked(one, away, third), away.turned_away) == ([3, 0, 3], 1)
            away.away = False
            await look_for_a_leader(cluster, 2)
            assert asked(one, away, third) == [1, 0, 1]
            await cluster.topics_by_several(["t"], 3)
            asked(one, away, third)
            await look_for_a_leader(cluster, 6)
            assert asked(one, away, third) == [2, 2, 2]


async def test_other_questions_stay_with_one_broker() -> None:
    """No connection is opened for them."""
    async with fake_broker(0) as one, fake_broker(1) as other:
        one.peers = other.peers = [one, other]
        async with opened(one.bootstrap) as cluster:
            for _ in range(3):
                await cluster.topics()
        assert (one.connections, other.connections) == (1, 0)


async def test_brokers_that_are_away_for_one_reason_are_named_together() -> None:
    async with AsyncExitStack() as running:
        one, other = [await running.enter_async_context(fake_broker(node)) for node in range(2)]
        one.peers = other.peers = [one, other]
        async with opened(one.bootstrap, request_timeout_ms=2_000) as cluster:
            await cluster.topics()
            await running.aclose()
            with pytest.raises(Unreachable, match=f"^brokers {other.bootstrap}, {one.bootstrap}: Connection refused$"):
                await cluster.topics()


async def test_only_a_broker_that_never_let_us_in_may_speak_another_protocol() -> None:
    async with fake_broker(0) as one:
        async with opened(one.bootstrap, request_timeout_ms=2_000) as cluster:
            await cluster.topics()
            one.away = True
            one.cut()
            with pytest.raises(Unreachable) as known:
                await cluster.topics()
        with pytest.raises(Unreachable, match="is its protocol the one of"):
            async with opened(one.bootstrap, request_timeout_ms=2_000):
                pass
    assert "protocol" not in str(known.value)
