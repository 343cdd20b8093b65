"""A topic that several brokers are asked for, each for itself."""

from __future__ import annotations

import pytest
from tests.kafka.client import opened
from tests.kafka.fake_broker import fake_broker

from fairlead.model.errors import TryAgain


async def test_each_broker_says_what_it_knows() -> None:
    """One has not heard of the topic's deletion yet."""
    async with fake_broker(0) as one, fake_broker(1) as other:
        one.peers = other.peers = [one, other]
        one.add_topic("t")
        async with opened(one.bootstrap) as cluster:
            said = await cluster.topics_by_several(["t"], 2)
            assert [list(each) for each in said] == [["t"], []]
            assert len(await cluster.topics_by_several(["t"], 1)) == 1


async def test_a_cluster_of_one_broker_is_asked_once() -> None:
    """There is nobody else."""
    async with fake_broker() as broker, opened(broker.bootstrap) as cluster:
        assert await cluster.topics_by_several(["t"], 2) == [{}]


async def test_a_broker_that_is_away_says_nothing() -> None:
    """So too few have said something, until a third one does."""
    async with fake_broker(0) as one, fake_broker(2) as third:
        async with fake_broker(1) as other:
            pass
        one.peers = [one, other]
        async with opened(one.bootstrap) as cluster:
            with pytest.raises(TryAgain, match="1 of 2 brokers answer, and 2 are to be asked"):
                await cluster.topics_by_several(["t"], 2)
            one.peers = third.peers = [one, other, third]
            await cluster.topics()
            assert await cluster.topics_by_several(["t"], 2) == [{}, {}]
