"""The client's transactions at real brokers of Apache Kafka, in the protocol of Kafka 4 and in the one before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count

import pytest
from benchmarks.systems.kafka import Kafka

from fairlead.kafka import Cluster, ProduceSettings, TransactionalProducer
from fairlead.kafka.producing.transactional import FIRST, SECOND
from fairlead.model.errors import Aborted, BatchTooLarge, Fenced, InvalidValue
from tests.interop.kafka_pair import KafkaPair
from tests.kafka.client import batch, opened
from tests.support.records import read_all, wait_for_markers
from tests.support.waiting import in_time

_names = count(1)
KEPT = {"retention.ms": "-1"}
"""The time stamps of the tests are old."""


@pytest.fixture(params=[SECOND, FIRST])
def broker(request: pytest.FixtureRequest, pair: KafkaPair) -> Kafka:
    """One of each protocol."""
    if request.param == SECOND:
        return pair.target
    found: Kafka = request.getfixturevalue("first_protocol")
    return found


@pytest.fixture
def name() -> str:
    return f"transactions-{next(_names)}"


@asynccontextmanager
async def transactional(
    cluster: Cluster, name: str, settings: ProduceSettings | None = None
) -> AsyncIterator[TransactionalProducer]:
    """One that is open."""
    producer = cluster.transactional(name, settings)
    try:
        await producer.open()
        yield producer
    finally:
        await producer.close()


async def send_until_it_is_ended(producer: TransactionalProducer, topic: str) -> None:
    """Until the coordinator has looked at its clock."""
    async with in_time():
        while True:
            await producer.send(topic, 0, batch(b"slow"))
            await asyncio.sleep(0.1)


async def commit_in_time(producer: TransactionalProducer, topic: str, value: bytes) -> None:
    """Opened anew; again where a busy machine takes longer for it than the coordinator allows."""
    async with in_time():
        while True:
            await producer.open()
            with suppress(Fenced, Aborted):
                await producer.send(topic, 0, batch(value))
                await producer.commit()
                return


def seen(broker: Kafka, topic: str) -> dict[int, list[bytes]]:
    """What an ordinary consumer reads of each partition; it reads committed records only."""
    wait_for_markers(broker.bootstrap, topic)
    found: dict[int, list[bytes]] = {}
    for place, content in sorted(read_all(broker.bootstrap, [topic], prefix="").items()):
        found.setdefault(place.partition, []).append(content.value or b"")
    return found


async def test_both_protocols_are_told_apart(broker: Kafka, first_protocol: Kafka) -> None:
    async with opened(broker.bootstrap) as cluster:
        assert await cluster.transaction_version() == (FIRST if broker is first_protocol else SECOND)


async def test_transactions_one_after_the_other_are_each_whole(broker: Kafka, name: str) -> None:
    """Also those that begin at once after the one before: nothing of one is in another. Every third is not committed
    but given up, and leaves nothing, though it began while the one before was still being ended."""
    async with opened(broker.bootstrap) as cluster:
        await cluster.create_topic(name, 2, KEPT)
        expected: dict[int, list[bytes]] = {0: [], 1: []}
        async with transactional(cluster, name) as producer:
            for turn in range(60):
                for number in range(4):
                    producer.send(name, number % 2, batch(b"%d-%d" % (turn, number)))
                if turn % 3 == 2:
                    await producer.open()
                    continue
                await producer.commit()
                for number in range(4):
                    expected[number % 2].append(b"%d-%d" % (turn, number))
    assert await asyncio.to_thread(seen, broker, name) == expected


async def test_what_is_given_up_is_not_seen(broker: Kafka, name: str) -> None:
    """Though all of it was acknowledged."""
    async with opened(broker.bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT)
        async with transactional(cluster, name) as producer:
            await producer.send(name, 0, batch(b"lost"))
            await producer.open()
            await producer.send(name, 0, batch(b"kept"))
            await producer.commit()
    assert await asyncio.to_thread(seen, broker, name) == {0: [b"kept"]}


async def test_who_opens_the_same_id_fences_the_one_before(broker: Kafka, name: str) -> None:
    """And ends its transaction, so that nothing of it is seen, whatever it does."""
    async with opened(broker.bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT)
        async with transactional(cluster, name) as zombie:
            await zombie.send(name, 0, batch(b"zombie"))
            async with transactional(cluster, name) as heir:
                late = zombie.send(name, 0, batch(b"late"))
                with pytest.raises(Fenced):
                    await zombie.commit()
                assert isinstance(late.exception(), Fenced)
                await heir.send(name, 0, batch(b"heir"))
                await heir.commit()
                with pytest.raises(Fenced):
                    await zombie.commit()
    assert await asyncio.to_thread(seen, broker, name) == {0: [b"heir"]}


async def test_a_transaction_that_takes_too_long_is_ended_and_said_to_be(broker: Kafka, name: str) -> None:
    """By the coordinator. The producer cannot tell that from a fence; opened again, it goes on."""
    async with opened(broker.bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT)
        async with transactional(cluster, name, ProduceSettings(transaction_timeout_ms=300)) as producer:
            with pytest.raises((Fenced, Aborted)):
                await send_until_it_is_ended(producer, name)
            await commit_in_time(producer, name, b"quick")
    assert await asyncio.to_thread(seen, broker, name) == {0: [b"quick"]}


async def test_a_refused_batch_takes_its_transaction_with_it(broker: Kafka, name: str) -> None:
    async with opened(broker.bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT | {"max.message.bytes": "500"})
        async with transactional(cluster, name) as producer:
            await producer.send(name, 0, batch(b"before"))
            with pytest.raises(BatchTooLarge):
                await producer.send(name, 0, batch(b"x" * 1000))
            with pytest.raises(Aborted):
                await producer.commit()
            await producer.open()
            await producer.send(name, 0, batch(b"after"))
            await producer.commit()
    assert await asyncio.to_thread(seen, broker, name) == {0: [b"after"]}


async def test_a_broker_that_restarts_within_a_transaction_is_waited_for(broker: Kafka, name: str) -> None:
    async with opened(broker.bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT)
        async with transactional(cluster, name) as producer:
            await producer.send(name, 0, batch(b"before"))
            await asyncio.to_thread(broker.restart)
            producer.send(name, 0, batch(b"after"))
            await producer.commit()
            await producer.send(name, 0, batch(b"next"))
            await producer.commit()
    assert await asyncio.to_thread(seen, broker, name) == {0: [b"before", b"after", b"next"]}


async def test_a_transaction_of_an_hour_is_refused_in_a_line(broker: Kafka, name: str) -> None:
    """Brokers allow a quarter of one."""
    async with opened(broker.bootstrap) as cluster:
        with pytest.raises(InvalidValue, match="INVALID_TRANSACTION_TIMEOUT"):
            await cluster.transactional(name, ProduceSettings(transaction_timeout_ms=3_600_000)).open()
