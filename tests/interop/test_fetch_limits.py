"""Answers that are no larger than a client allows."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Producer, TopicPartition

from tests.interop.clients.confluent_client import Confluent
from tests.interop.site import Site
from tests.support.waiting import WAIT_SECONDS

MESSAGE = bytes(921_000)
LIMIT = 1_000_000


def test_librdkafka_reads_two_batches_that_do_not_fit_into_one_answer(
    confluent: Confluent, site: Site, wide_topic: str
) -> None:
    """It refuses an answer that is larger than it allows, and asks for the same again."""
    name = confluent.topic(site, wide_topic)
    producer = Producer({"bootstrap.servers": site.main, "linger.ms": 0})
    for partition in range(4):
        for _ in range(2):
            producer.produce(name, MESSAGE, partition=partition)
            assert producer.flush(WAIT_SECONDS) == 0  # a batch each
    limits = {"fetch.max.bytes": LIMIT, "receive.message.max.bytes": LIMIT + 512}
    consumer = confluent.consumer(site, "none", **limits, **{"enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in range(4)])
        found: list[tuple[int | None, int | None]] = []
        while len(found) < 8:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"only {found} came"
            if message.error():
                raise KafkaException(message.error())
            found.append((message.partition(), message.offset()))
    finally:
        consumer.close()
    assert sorted(found) == [(partition, offset) for partition in range(4) for offset in range(2)]
