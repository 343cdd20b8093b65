"""What a topic demands of records, and how producers show that one was not taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.clients.java_vm import JavaVM, refusal
from tests.interop.clients.producers import PRODUCERS, Make, Patience
from tests.interop.site import Site
from tests.interop.test_behaviours import stored
from tests.support.waiting import WAIT_SECONDS

KAFKA = "org.apache.kafka"
TEXTS = f"{KAFKA}.common.serialization.StringSerializer"
HOUR_MS = 3_600_000
REFUSED = re.compile(r"invalid_?record|failed to validate record|^UnknownError", re.IGNORECASE)
"""INVALID_RECORD as clients of Python show it; aiokafka does not know the code."""


def configure(site: Site, topic: str, **settings: str | None) -> None:
    """Give a topic settings; with None it has none of its own."""
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    site.broker.call(site.stream.set_configs(topic, configs))


@pytest.fixture(params=PRODUCERS, ids=lambda client: client.name)
def make(request: pytest.FixtureRequest) -> Make:
    return PRODUCERS[request.param]


def test_a_producer_is_told_that_a_record_without_key_is_not_taken(make: Make, site: Site, topic: str) -> None:
    """In a compacted topic: at once, by INVALID_RECORD, and nothing is stored."""
    configure(site, topic, cleanup_policy="compact,delete")
    producer = make(site, topic, Patience(10_000, 120_000))
    try:
        (failed,) = producer.outcomes([b"keyless"])
    finally:
        producer.close()
    assert REFUSED.search(repr(failed)), failed
    assert stored(site, topic) == []


class JavaProducer:
    """Java's, which shows the broker's own words."""

    def __init__(self, java: JavaVM, site: Site) -> None:
        self._java = java
        settings = {
            "bootstrap.servers": site.of_stream,
            "key.serializer": TEXTS,
            "value.serializer": TEXTS,
            "max.block.ms": str(int(WAIT_SECONDS * 1000)),
        }
        self.client = java.of(f"{KAFKA}.clients.producer.KafkaProducer")(java.map(settings))

    def refusal(self, topic: str, key: str | None, value: str, timestamp_ms: int | None = None) -> str | None:
        """How it shows that a record was not taken."""
        record = self._java.of(f"{KAFKA}.clients.producer.ProducerRecord")(topic, 0, timestamp_ms, key, value)
        sent = self.client.send(record)
        seconds = self._java.of("java.util.concurrent.TimeUnit").SECONDS
        return refusal(lambda: sent.get(int(WAIT_SECONDS), seconds))


@pytest.fixture(scope="module")
def producer(java: JavaVM, site: Site) -> Iterator[JavaProducer]:
    made = JavaProducer(java, site)
    yield made
    made.client.close()


CASES: dict[str, tuple[dict[str, str], tuple[Any, ...], str]] = {
    "no key": (
        {"cleanup_policy": "compact"},
        (None, "v"),
        "InvalidRecordException: Compacted topic cannot accept message without key in topic partition TOPIC-0.",
    ),
    "too large": ({"max_message_bytes": "1000"}, ("k", "v" * 1000), "RecordTooLargeException: "),
    "too old": (
        {"message_timestamp_before_max_ms": str(HOUR_MS)},
        ("k", "v", 1_700_000_000_000),
        "InvalidTimestampException: Timestamp 1700000000000 of message with offset 0 is out of range.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_java_shows_why_a_record_is_not_taken(case: str, producer: JavaProducer, site: Site, topic: str) -> None:
    """In the words of Kafka's broker. What the topic demands no more is taken from the same producer."""
    settings, record, why = CASES[case]
    configure(site, topic, **settings)
    shown = producer.refusal(topic, *record)
    assert shown is not None
    assert shown.startswith(why.replace("TOPIC", topic))
    configure(site, topic, **dict.fromkeys(settings))
    assert producer.refusal(topic, *record) is None
    assert len(stored(site, topic)) == 1
