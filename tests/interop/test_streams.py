"""Kafka Streams: internal topics, state that comes back from a changelog."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.clients.java_vm import JavaVM
from tests.interop.clients.streams import StreamsLibrary
from tests.interop.site import Site
from tests.support.waiting import WAIT_SECONDS, wait_until

KEYS = 40
TIMES = 50


@pytest.fixture
def streams(java: JavaVM) -> StreamsLibrary:
    return StreamsLibrary(java)


def test_a_store_is_restored_from_its_changelog(
    streams: StreamsLibrary, site: Site, wide_topic: str, tmp_path: Path
) -> None:
    """An application that lost its local state has its counts again, and goes on from them where it stopped reading.

    What it has taken from its repartition topic is deleted there.
    """
    with streams.counting(site, wide_topic, tmp_path / "one") as application:
        send(site, wide_topic)
        application.wait_for({f"key {number}": TIMES for number in range(KEYS)})
    with streams.counting(site, wide_topic, tmp_path / "two") as application:
        application.wait_for({f"key {number}": TIMES for number in range(KEYS)})
        send(site, wide_topic)
        application.wait_for({f"key {number}": 2 * TIMES for number in range(KEYS)})
        again = f"counting-{wide_topic}-again-repartition"

        def purged() -> bool:
            """It deletes when it commits, and commits when something comes."""
            send(site, wide_topic, 1)
            return first_offsets(site, again) > 0

        wait_until(purged, "Streams deletes what it has taken", every_seconds=0.2)


def first_offsets(site: Site, topic: str) -> int:
    """The sum of the first offsets of two partitions."""
    consumer = Consumer({"bootstrap.servers": site.of_stream, "group.id": "none"})
    try:
        parts = [TopicPartition(topic, partition) for partition in range(2)]
        return sum(consumer.get_watermark_offsets(part, timeout=WAIT_SECONDS, cached=False)[0] for part in parts)
    finally:
        consumer.close()


def send(site: Site, topic: str, times: int = TIMES) -> None:
    """Each key so many times."""
    producer = Producer({"bootstrap.servers": site.of_stream, "linger.ms": 5})
    for number in range(KEYS * times):
        producer.produce(topic, b"a", b"key %d" % (number % KEYS))
    assert producer.flush(WAIT_SECONDS) == 0
