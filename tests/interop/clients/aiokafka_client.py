"""aiokafka: the Kafka protocol for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition

from tests.interop.clients.base import PLAIN, SESSION_MS, Client, Membership, Message, ThreadMember
from tests.interop.site import Site
from tests.support.records import Content
from tests.support.waiting import in_time


class Aiokafka(Client):
    name = "aiokafka"
    memberships = frozenset({"static"})
    """Its heartbeats do not name the instance, so the older of two is told that it is unknown, and joins again."""

    def produce(
        self, site: Site, topic: str, messages: Sequence[Message], codec: str = "none", idempotent: bool = False
    ) -> None:
        asyncio.run(self._produce(site, topic, messages, None if codec == "none" else codec, idempotent))

    async def _produce(
        self, site: Site, topic: str, messages: Sequence[Message], codec: str | None, idempotent: bool
    ) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap(site),
            compression_type=codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
        )
        async with producer, in_time():
            sent = [
                await producer.send(self.topic(site, topic), m.value, m.key, 0, headers=list(m.headers))
                for m in messages
            ]
            await asyncio.gather(*sent)

    def consumer(self, site: Site, **options: Any) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap(site), auto_offset_reset="earliest", fetch_max_wait_ms=100, **options
        )

    def read(self, site: Site, topic: str, count: int) -> list[Content]:
        return asyncio.run(self._read(site, topic, count))

    async def _read(self, site: Site, topic: str, count: int) -> list[Content]:
        consumer = self.consumer(site)
        consumer.assign([TopicPartition(self.topic(site, topic), 0)])
        async with consumer, in_time():
            found = [await consumer.getone() for _ in range(count)]
        return [Content(r.key, r.value, r.timestamp, tuple(r.headers)) for r in found]

    def offset_at(self, site: Site, topic: str, timestamp_ms: int) -> int:
        return asyncio.run(self._offset_at(site, TopicPartition(self.topic(site, topic), 0), timestamp_ms))

    async def _offset_at(self, site: Site, partition: TopicPartition, timestamp_ms: int) -> int:
        async with self.consumer(site) as consumer, in_time():
            found = await consumer.offsets_for_times({partition: timestamp_ms})
        return int(found[partition].offset)

    def member(self, site: Site, topic: str, group: str, how: Membership = PLAIN) -> AiokafkaMember:
        return AiokafkaMember(self, site, self.topic(site, topic), group, how)


class AiokafkaMember(ThreadMember, ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, client: Aiokafka, site: Site, topic: str, group: str, how: Membership) -> None:
        self._client = client
        self._site = site
        self._topic = topic
        self._group = group
        self._how = how
        super().__init__()

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = self._client.consumer(
            self._site,
            group_id=self._group,
            group_instance_id=self._how.instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            metadata_max_age_ms=300,
        )
        consumer.subscribe([self._topic], listener=self)
        async with consumer:
            while not self._stopping.is_set():
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    self.values += [record.value for record in records]
                self.assigned = frozenset(part.partition for part in consumer.assignment())

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.given_up |= {part.partition for part in revoked}

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Seen after each poll."""
