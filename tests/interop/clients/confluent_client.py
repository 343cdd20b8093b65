"""confluent-kafka: librdkafka for Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.interop.clients.base import PLAIN, SESSION_MS, Client, Membership, Message, ThreadMember
from tests.interop.site import Site
from tests.support.records import Content
from tests.support.waiting import WAIT_SECONDS

SESSION: dict[str, Any] = {"heartbeat.interval.ms": 200, "topic.metadata.refresh.interval.ms": 300}


class Confluent(Client):
    name = "confluent-kafka"

    def produce(
        self, site: Site, topic: str, messages: Sequence[Message], codec: str = "none", idempotent: bool = False
    ) -> None:
        """What fits is one batch, however slowly it is handed over: the flush ends the lingering."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap(site),
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 60_000,
            }
        )
        errors: list[object] = []
        for message in messages:
            producer.produce(
                self.topic(site, topic),
                message.value,
                message.key,
                0,
                headers=list(message.headers),
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        assert producer.flush(WAIT_SECONDS) == 0
        assert not errors, errors

    def consumer(self, site: Site, group: str, **options: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap(site),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 100,
                **options,
            }
        )

    def read(self, site: Site, topic: str, count: int) -> list[Content]:
        consumer = self.consumer(site, "none", **{"enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic(site, topic), 0, OFFSET_BEGINNING)])
        try:
            found: list[Any] = []
            while len(found) < count:
                message = self._one(consumer)
                assert message is not None, f"{len(found)} of {count} read in time"
                found.append(message)
        finally:
            consumer.close()
        return [Content(m.key(), m.value(), m.timestamp()[1], tuple(m.headers() or ())) for m in found]

    @staticmethod
    def _one(consumer: Consumer) -> Any:
        message = consumer.poll(WAIT_SECONDS)
        if message is not None and message.error():
            raise KafkaException(message.error())
        return message

    def offset_at(self, site: Site, topic: str, timestamp_ms: int) -> int:
        consumer = self.consumer(site, "none")
        try:
            (found,) = consumer.offsets_for_times(
                [TopicPartition(self.topic(site, topic), 0, timestamp_ms)], timeout=WAIT_SECONDS
            )
        finally:
            consumer.close()
        return int(found.offset)

    def member(self, site: Site, topic: str, group: str, how: Membership = PLAIN) -> ConfluentMember:
        settings = {**SESSION, "session.timeout.ms": SESSION_MS}
        if how.cooperative:
            settings["partition.assignment.strategy"] = "cooperative-sticky"
        if how.instance is not None:
            settings["group.instance.id"] = how.instance
        return ConfluentMember(self.consumer(site, group, **settings), self.topic(site, topic))


class ConfluentMember(ThreadMember):
    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        super().__init__()

    def _run(self) -> None:
        self._consumer.subscribe([self._topic], on_revoke=self._revoked, on_lost=self._revoked)
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.05):
                error = message.error()
                if error is None:
                    self.values.append(message.value() or b"")
                elif error.code() == KafkaError._FATAL:  # noqa: SLF001 - the library's name for it
                    raise KafkaException(error)
            self.assigned = frozenset(part.partition for part in self._consumer.assignment())
        self._consumer.close()

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.given_up |= {part.partition for part in partitions}
