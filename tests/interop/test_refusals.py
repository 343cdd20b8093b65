"""What clients show of what this broker does not serve, word for word as the guide says, and at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaProducer

from tests.interop.clients.java_vm import JavaVM, refusal
from tests.interop.site import Site

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "kafka-clients.md"
CLIENTS = "org.apache.kafka.clients"
TEXTS = "org.apache.kafka.common.serialization.String"
SOON_SECONDS = 30
"""Long before a client gives up by itself (60 s and more), with room for a busy machine."""
EXAMPLE_ADDRESS = "127.0.0.1:9092"
"""Of the broker in the guide's texts."""


def java_producer(java: JavaVM, bootstrap: str) -> str | None:
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": "orders",
        "key.serializer": TEXTS + "Serializer",
        "value.serializer": TEXTS + "Serializer",
        "max.block.ms": str(SOON_SECONDS * 1000),
    }
    producer = java.of(f"{CLIENTS}.producer.KafkaProducer")(java.map(settings))
    try:
        return refusal(producer.initTransactions)
    finally:
        producer.close()


def librdkafka_producer(_: JavaVM, bootstrap: str) -> str:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "orders", "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(SOON_SECONDS)
    assert refused.value.args[0].fatal()
    # A broker is `bootstrap` to it until it has heard the broker's id.
    return str(refused.value.args[0].str()).replace("/bootstrap:", "/1:")


def kafka_python_producer(_: JavaVM, bootstrap: str) -> str:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="orders", max_block_ms=SOON_SECONDS * 1000)
    try:
        with pytest.raises(Exception, match="coordinator") as refused:
            producer.init_transactions()
    finally:
        producer.close(timeout=1)
    return str(refused.value)


def aiokafka_producer(_: JavaVM, bootstrap: str) -> str:
    async def shown() -> str:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="orders")
        try:
            with pytest.raises(Exception, match="orders") as refused:
                await asyncio.wait_for(producer.start(), SOON_SECONDS)
        finally:
            await producer.stop()
        return str(refused.value)

    return asyncio.run(shown())


def java_consumer(java: JavaVM, bootstrap: str) -> str | None:
    return java_polls(java, bootstrap, {"group.id": "new protocol", "group.protocol": "consumer"})


def java_with_a_password(java: JavaVM, bootstrap: str) -> str | None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        "group.id": "secret",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="u" password="p";',
    }
    return java_polls(java, bootstrap, settings)


def java_polls(java: JavaVM, bootstrap: str, more: dict[str, str]) -> str | None:
    settings = {
        "bootstrap.servers": bootstrap,
        "key.deserializer": TEXTS + "Deserializer",
        "value.deserializer": TEXTS + "Deserializer",
        **more,
    }
    consumer = java.of(f"{CLIENTS}.consumer.KafkaConsumer")(java.map(settings))
    try:
        consumer.subscribe(["any"])
        return refusal(lambda: consumer.poll(java.of("java.time.Duration").ofSeconds(SOON_SECONDS)))
    finally:
        consumer.close()


def librdkafka_consumer(_: JavaVM, bootstrap: str) -> str:
    settings = {"bootstrap.servers": bootstrap, "group.id": "new protocol", "group.protocol": "consumer"}
    consumer = Consumer({**settings, "log_level": 0})
    try:
        consumer.subscribe(["any"])
        message = consumer.poll(SOON_SECONDS)
        assert message is not None, "the client waits without a word"
        error = message.error()
        assert error is not None
        return str(error.str())
    finally:
        consumer.close()


SHOWN: dict[tuple[str, str], Callable[[JavaVM, str], str | None]] = {
    ("transactional.id", "Java"): java_producer,
    ("transactional.id", "librdkafka"): librdkafka_producer,
    ("transactional.id", "kafka-python"): kafka_python_producer,
    ("transactional.id", "aiokafka"): aiokafka_producer,
    ("group.protocol=consumer", "Java"): java_consumer,
    ("group.protocol=consumer", "librdkafka"): librdkafka_consumer,
    ("security.protocol=SASL_PLAINTEXT", "Java"): java_with_a_password,
}
UNTESTED = {("transactional.id", "franz-go")}
"""No test needs Go. The text was seen with the version that the guide names; it is the code that its version of the
request gets, which `test_transactions_have_no_coordinator` holds."""


def told() -> dict[tuple[str, str], str]:
    """What the guide says that a client shows, by setting and client."""
    rows = re.findall(r"^\| `([\w.=]+)` \| ([\w-]+) \| `([^`]+)` \|$", GUIDE.read_text(), re.MULTILINE)
    return {(setting, client): text for setting, client, text in rows}


def test_the_guide_has_a_text_for_each_client() -> None:
    """And none that nobody checks."""
    assert told().keys() - UNTESTED == SHOWN.keys()


@pytest.mark.parametrize(("setting", "client"), SHOWN, ids=" ".join)
def test_what_is_refused_is_shown_as_the_guide_says(setting: str, client: str, java: JavaVM, site: Site) -> None:
    """A person reads there what to do, instead of looking for a missing permission, or waiting for a time-out."""
    shown = SHOWN[setting, client](java, site.main)
    assert shown is not None, "it was not refused"
    assert shown.replace(site.main, EXAMPLE_ADDRESS) == told()[setting, client]
