"""Clients that rely on the list of all topics, on the main listener."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException, Producer

from fairlead.cluster.values import StreamSettings
from fairlead.model.settings import Settings
from tests.interop.clients.confluent_client import SESSION, Confluent
from tests.interop.clients.kafka_tools import PATIENCE, java
from tests.interop.clients.process import run
from tests.interop.site import Site
from tests.support.broker import run_broker
from tests.support.waiting import WAIT_SECONDS

TOPICS = ["/far/away:positions", "/ships:positions"]


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site that lists all streams; two have a topic, and a record in it."""
    settings = replace(Settings(), initial_rebalance_delay_ms=200, listed_streams="all")
    with run_broker(tmp_path_factory.mktemp("site"), name="site", settings=settings) as broker:
        for name in TOPICS:
            stream = broker.call(broker.cluster.create_stream(name.split(":")[0], StreamSettings()))
            broker.call(stream.create_topic("positions", 1))
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for name in TOPICS:
            producer.produce(name, name)
        assert producer.flush(WAIT_SECONDS) == 0
        yield Site(broker, "/empty")


def test_a_subscription_to_a_pattern_finds_topics_of_every_stream(confluent: Confluent, site: Site) -> None:
    """librdkafka looks for them in the list."""
    consumer = confluent.consumer(site, "pattern", **SESSION)
    try:
        consumer.subscribe(["^/.*:positions$"])
        found: list[str] = []
        while len(found) < len(TOPICS):
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"only {found} came"
            if message.error():
                raise KafkaException(message.error())
            found.append(str(message.topic()))
    finally:
        consumer.close()
    assert sorted(found) == TOPICS


def test_kafkas_tools_see_topics_of_every_stream(site: Site) -> None:
    """kafka-topics lists and describes them; kafka-console-consumer reads them by a pattern."""
    topics = ("TopicCommand", "--bootstrap-server", site.main)
    assert sorted(run(java(*topics, "--list")).split()) == TOPICS
    described = run(java(*topics, "--describe"))
    assert all(f"Topic: {name}\t" in described for name in TOPICS)
    read = run(
        java(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", site.main, "--include", "/.*:positions", "--from-beginning"),
            *("--max-messages", str(len(TOPICS)), *PATIENCE),
        )
    )
    assert sorted(read.split()) == TOPICS
