"""Java's consumer with its fetch sessions (KIP-227), by which it says and is told only what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.interop.clients.java_vm import JavaVM
from tests.interop.site import Site
from tests.support.waiting import WAIT_SECONDS, wait_until

KAFKA = "org.apache.kafka"
PARTITIONS = 50
STRINGS = f"{KAFKA}.common.serialization.StringDeserializer"


@pytest.fixture
def wide(site: Site, topic: str) -> str:
    return site.make_topic(f"wide-{topic}", PARTITIONS)


@pytest.fixture
def consumer(java: JavaVM, site: Site, wide: str) -> Iterator[Any]:
    """It reads all partitions, from their beginnings."""
    settings = {
        "bootstrap.servers": site.of_stream,
        "key.deserializer": STRINGS,
        "value.deserializer": STRINGS,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": "100",
        "fetch.max.bytes": "2000",
    }
    with java.closing(java.of(f"{KAFKA}.clients.consumer.KafkaConsumer")(java.map(settings))) as consumer:
        places = [java.of(f"{KAFKA}.common.TopicPartition")(wide, number) for number in range(PARTITIONS)]
        consumer.assign(java.list(*places))
        yield consumer


def read(java: JavaVM, consumer: Any, count: int) -> list[tuple[int, str]]:
    """So many records: partition and value."""
    found: list[tuple[int, str]] = []
    patience = java.of("java.time.Duration").ofMillis(500)
    for _ in range(int(2 * WAIT_SECONDS)):
        records = consumer.poll(patience).iterator()
        while records.hasNext():
            record = records.next()
            found.append((record.partition(), record.value()))
        if len(found) >= count:
            break
    return found


def requested_bytes(consumer: Any) -> float:
    """How large the consumer's requests are on average."""
    metrics = consumer.metrics()
    for name in metrics:
        if (name.name(), name.group()) == ("request-size-avg", "consumer-metrics"):
            return float(metrics[name].metricValue())
    raise AssertionError("the consumer has no such metric")


def test_javas_consumer_reads_everything_in_a_session(java: JavaVM, site: Site, wide: str, consumer: Any) -> None:
    """What is there, in answers that hold little; then what comes while it waits; then after the topic has grown."""
    producer = Producer({"bootstrap.servers": site.of_stream, "linger.ms": 0})

    def publish(label: str, each: int) -> list[tuple[int, str]]:
        sent = [(partition, f"{label} {number}") for number in range(each) for partition in range(PARTITIONS)]
        for partition, value in sent:
            producer.produce(wide, value, partition=partition)
        assert producer.flush(WAIT_SECONDS) == 0
        return sorted(sent)

    for grown, (label, each) in enumerate((("first", 5), ("second", 1), ("third", 2)), 1):
        sent = publish(label, each)
        assert sorted(read(java, consumer, len(sent))) == sent
        site.broker.call(site.stream.set_partitions(wide, PARTITIONS + grown))


def test_javas_consumer_names_what_is_idle_only_once(java: JavaVM, consumer: Any) -> None:
    """Its requests are of a few bytes then; all fifty partitions take more than 1,500."""
    for _ in range(30):
        assert read_nothing(java, consumer)

    def asks_for_little() -> bool:
        """On average, in which the first request has its part: a slow broker is not asked often."""
        assert read_nothing(java, consumer)
        return requested_bytes(consumer) < 500

    wait_until(asks_for_little, "requests are small")


def read_nothing(java: JavaVM, consumer: Any) -> bool:
    return bool(consumer.poll(java.of("java.time.Duration").ofMillis(200)).isEmpty())
