"""Kafka Streams: internal topics, state that comes back from a changelog."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop.clients.java_vm import JavaVM
from tests.interop.clients.streams import StreamsLibrary
from tests.interop.site import Site

KEYS = 40
TIMES = 50


@pytest.fixture
def streams(java: JavaVM) -> StreamsLibrary:
    return StreamsLibrary(java)


def test_a_store_is_restored_from_its_changelog(
    streams: StreamsLibrary, site: Site, wide_topic: str, tmp_path: Path
) -> None:
    """An application that lost its local state has its counts again, and goes on from them where it stopped reading."""
    with streams.counting(site, wide_topic, tmp_path / "one") as application:
        send(site, wide_topic)
        application.wait_for({f"key {number}": TIMES for number in range(KEYS)})
    with streams.counting(site, wide_topic, tmp_path / "two") as application:
        application.wait_for({f"key {number}": TIMES for number in range(KEYS)})
        send(site, wide_topic)
        application.wait_for({f"key {number}": 2 * TIMES for number in range(KEYS)})


def send(site: Site, topic: str) -> None:
    """Each key so many times."""
    producer = Producer({"bootstrap.servers": site.of_stream, "linger.ms": 5})
    for number in range(KEYS * TIMES):
        producer.produce(topic, b"a", b"key %d" % (number % KEYS))
    assert producer.flush(20) == 0
