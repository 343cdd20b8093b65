"""The client (`fairlead.kafka`) at a real broker of Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from kio.schema.errors import ErrorCode

from fairlead.kafka import EARLIEST, LATEST, Fetched, Fetcher, OffsetAndEpoch, TopicPartition
from fairlead.kafka.configuration.clients import Read, consumer_settings, producer_settings
from fairlead.model.errors import AlreadyExists, BatchTooLarge, InvalidValue, NotAllowed
from tests.interop.clients.java_vm import JavaVM
from tests.interop.kafka_pair import KafkaPair
from tests.kafka.client import batch, fetching, opened, producing, values_of
from tests.support.waiting import in_time

T = TypeVar("T")
_names = count(1)
KEPT = {"retention.ms": "-1"}


@pytest.fixture
def bootstrap(pair: KafkaPair) -> str:
    return pair.source.bootstrap


@pytest.fixture
def name() -> str:
    return f"client-{next(_names)}"


@pytest.mark.parametrize(
    ("name", "read"), [("consumer.ConsumerConfig", consumer_settings), ("producer.ProducerConfig", producer_settings)]
)
def test_no_key_of_java_s_clients_is_taken_for_a_misspelt_one(
    java: JavaVM, name: str, read: Callable[[dict[str, str], str], Read[Any]]
) -> None:
    """But for those that are no user's."""
    keys = {str(key) for key in java.of(f"org.apache.kafka.clients.{name}").configNames()}
    given = {key: "" for key in keys if not key.startswith("internal.")}
    _, warnings = read(given | {"bootstrap.servers": "127.0.0.1:9092"}, "file")
    assert [warning for warning in warnings if "misspelt" in warning] == []
    assert len(warnings) > 20


async def next_trouble(fetcher: Fetcher) -> Fetched:
    """The next error, or the place where the log went on otherwise."""
    async with in_time():
        while True:
            for fetched in await fetcher.next():
                if fetched.error or fetched.diverging:
                    return fetched


async def test_what_was_produced_is_fetched_in_order_and_once(bootstrap: str, name: str) -> None:
    """Over several connections, many batches in flight."""
    async with opened(bootstrap) as cluster:
        await cluster.create_topic(name, 3, KEPT)
        async with producing(await cluster.producer(connections=2)) as producer:
            sent = [producer.send(name, number % 3, batch(b"%d" % number)) for number in range(600)]
            assert await asyncio.gather(*sent) == [number // 3 for number in range(600)]
        for partition in range(3):
            async with fetching(cluster.fetcher()) as fetcher:
                fetcher.assign(TopicPartition(name, partition), 0)
                assert await values_of(fetcher, 200) == [b"%d" % number for number in range(partition, 600, 3)]


async def test_a_refused_batch_is_told_by_name_and_those_behind_it_go_on(bootstrap: str, name: str) -> None:
    """With sequences that the broker takes."""
    async with opened(bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT | {"max.message.bytes": "500"})
        async with producing(await cluster.producer()) as producer:
            values = [b"a", b"b" * 1000, b"c", b"d"]
            first, bad, *rest = [producer.send(name, 0, batch(value)) for value in values]
            with pytest.raises(BatchTooLarge, match=f"topic {name}, partition 0: MESSAGE_TOO_LARGE"):
                await bad
            assert await asyncio.gather(first, *rest) == [0, 1, 2]
            assert producer.down is None


async def test_topics_and_their_settings(bootstrap: str, name: str) -> None:
    async with opened(bootstrap) as cluster:
        await cluster.create_topic(name, 2, KEPT)
        with pytest.raises(AlreadyExists, match="TOPIC_ALREADY_EXISTS"):
            await cluster.create_topic(name, 2)
        with pytest.raises(InvalidValue, match="INVALID_CONFIG"):
            await cluster.create_topic(f"{name}-x", 1, {"retention.ms": "long"})
        await cluster.create_partitions(name, 4)
        found = await told(lambda: cluster.topics([name, "missing"]), lambda found: len(found[name].partitions) == 4)
        assert found[name].topic_id != bytes(16)
        configs = (await cluster.describe_configs([name]))[name]
        assert (configs["retention.ms"].value, configs["retention.ms"].own) == ("-1", True)
        assert not configs["segment.bytes"].own
        refused = await cluster.alter_configs({name: {"retention.ms": None, "segment.bytes": "1048576"}})
        assert not refused
        refused = await cluster.alter_configs({name: {"retention.ms": "long"}})
        assert "INVALID_CONFIG" in str(refused[name])
        configs = (
            await told(lambda: cluster.describe_configs([name]), lambda found: found[name]["segment.bytes"].own)
        )[name]
        assert configs["segment.bytes"].value == "1048576"
        assert not configs["retention.ms"].own


async def told(ask: Callable[[], Awaitable[T]], as_decided: Callable[[T], bool]) -> T:
    """The first answer that is so: a broker hears what its controller has decided a moment after who asked for it."""
    async with in_time():
        while not as_decided(found := await ask()):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.02)
        return found


async def test_ends_times_and_groups(bootstrap: str, name: str) -> None:
    """A group that another client looks at, and one that has members."""
    place = TopicPartition(name, 0)
    async with opened(bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT)
        async with producing(await cluster.producer()) as producer:
            await producer.send(name, 0, batch(b"a", b"b"))
        assert (await cluster.offsets([place], EARLIEST))[place].offset == 0
        assert (await cluster.offsets([place], LATEST, committed=True))[place] == OffsetAndEpoch(2, 0)
        assert (await cluster.offsets([place], 1_600_000_000_000))[place].offset == 0
        assert (await cluster.offsets([place], 1_800_000_000_000))[place].offset == 2
        group = f"{name}-group"
        await cluster.commit(group, {place: OffsetAndEpoch(1, 0)})
        assert await cluster.committed(group, [place]) == {place: OffsetAndEpoch(1, 0)}
        assert await asyncio.to_thread(_first_read, bootstrap, group, name) == b"b"
        assert (await cluster.committed(group, [place]))[place].offset == 2
        listed = (await cluster.groups())[group]
        assert (listed.protocol, listed.state) == ("consumer", "Empty")
        assert (await cluster.all_committed({group: listed.node}))[group][place].offset == 2  # type: ignore[index]


def _first_read(bootstrap: str, group: str, topic: str) -> bytes:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        consumer.commit(message=message, asynchronous=False)
        return message.value() or b""
    finally:
        consumer.close()


async def test_a_commit_for_a_group_with_members_is_refused(bootstrap: str, name: str) -> None:
    """So a mirror of before that still runs is noticed."""
    place = TopicPartition(name, 0)
    async with opened(bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT)
        async with producing(await cluster.producer()) as producer:
            await producer.send(name, 0, batch(b"a"))
        options = {"bootstrap.servers": bootstrap, "group.id": f"{name}-group", "auto.offset.reset": "earliest"}
        consumer = Consumer(options)
        try:
            consumer.subscribe([name])
            assert await asyncio.to_thread(consumer.poll, 60) is not None
            with pytest.raises(NotAllowed, match="UNKNOWN_MEMBER_ID"):
                await cluster.commit(f"{name}-group", {place: OffsetAndEpoch(1, 0)})
        finally:
            await asyncio.to_thread(consumer.close)


async def test_aborted_transactions_are_named_and_open_ones_hold(bootstrap: str, name: str) -> None:
    """An answer for readers of committed records."""
    place = TopicPartition(name, 0)
    async with opened(bootstrap) as cluster:
        await cluster.create_topic(name, 1, KEPT)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        await asyncio.to_thread(_abort_then_leave_open, producer, name)
        async with fetching(cluster.fetcher()) as fetcher:
            fetcher.assign(place, 0)
            found = await next_records(fetcher)
            assert [first for _, first in found.aborted] == [0]
            assert (found.last_stable, fetcher.position(place)) == (2, 2)
            assert found.high_watermark == 3
        await asyncio.to_thread(producer.abort_transaction)


def _abort_then_leave_open(producer: Producer, topic: str) -> None:
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    producer.flush()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()


async def next_records(fetcher: Fetcher) -> Fetched:
    async with in_time():
        while True:
            for fetched in await fetcher.next():
                if len(fetched.records):
                    return fetched


async def test_positions_that_are_not_in_the_log_come_out(bootstrap: str, name: str) -> None:
    """Beyond the end with an epoch that the log has: it went on otherwise; without one: out of range."""
    place = TopicPartition(name, 0)
    async with opened(bootstrap) as cluster, fetching(cluster.fetcher()) as fetcher:
        await cluster.create_topic(name, 1, KEPT)
        async with producing(await cluster.producer()) as producer:
            await producer.send(name, 0, batch(b"a", b"b"))
        fetcher.assign(place, 9)
        assert (await next_trouble(fetcher)).error == ErrorCode.offset_out_of_range
        fetcher.assign(place, 9, epoch=0)
        assert (await next_trouble(fetcher)).diverging == (0, 2)
        fetcher.assign(place, 0, topic_id=b"x" * 16)
        assert (await next_trouble(fetcher)).error == ErrorCode.unknown_topic_id
