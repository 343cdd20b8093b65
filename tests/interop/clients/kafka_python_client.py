"""kafka-python: the Kafka protocol in Python; it refuses topic names with `/` or `:`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from tests.interop.clients.base import PLAIN, SESSION_MS, Client, Membership, Message, ThreadMember
from tests.interop.site import Site
from tests.support.records import Content
from tests.support.waiting import WAIT_SECONDS


class KafkaPython(Client):
    name = "kafka-python"
    plain_names = True

    def produce(
        self, site: Site, topic: str, messages: Sequence[Message], codec: str = "none", idempotent: bool = False
    ) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap(site),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
        )
        try:
            sent = [producer.send(topic, message.value, message.key, list(message.headers), 0) for message in messages]
            producer.flush(WAIT_SECONDS)
            for future in sent:
                future.get(WAIT_SECONDS)
        finally:
            producer.close()

    def consumer(self, site: Site, **options: Any) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap(site), auto_offset_reset="earliest", fetch_max_wait_ms=100, **options
        )

    def read(self, site: Site, topic: str, count: int) -> list[Content]:
        consumer = self.consumer(site, consumer_timeout_ms=int(WAIT_SECONDS * 1000))
        consumer.assign([TopicPartition(topic, 0)])
        try:
            found = list(islice(consumer, count))
        finally:
            consumer.close()
        assert len(found) == count, f"{len(found)} of {count} read in time"
        return [Content(r.key, r.value, r.timestamp, tuple(r.headers)) for r in found]

    def offset_at(self, site: Site, topic: str, timestamp_ms: int) -> int:
        consumer = self.consumer(site)
        partition = TopicPartition(topic, 0)
        try:
            return int(consumer.offsets_for_times({partition: timestamp_ms})[partition].offset)
        finally:
            consumer.close()

    def member(self, site: Site, topic: str, group: str, how: Membership = PLAIN) -> KafkaPythonMember:
        assignors = {"partition_assignment_strategy": [CooperativeStickyAssignor]} if how.cooperative else {}
        consumer = self.consumer(
            site,
            group_id=group,
            group_instance_id=how.instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            metadata_max_age_ms=300,
            **assignors,
        )
        return KafkaPythonMember(consumer, topic)


_POLL_MS = 500
_JOIN_MS = 5_000
"""A leader that did not know the topic joins once more. Where its poll ends between the answers to JoinGroup and to
SyncGroup, it goes on with neither that join nor its heartbeats (kafka-python 3.0.12, whose `need_rejoin` is false by
then). So while it has no partition its polls last long enough for both; after a restart of the server it joins with
the partitions that it had."""


class KafkaPythonMember(ThreadMember, ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, consumer: KafkaConsumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        super().__init__()

    def _run(self) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        try:
            while not self._stopping.is_set():
                for records in self._consumer.poll(_POLL_MS if self.assigned else _JOIN_MS).values():
                    self.values += [record.value for record in records]
                self._see_assignment()
        except BaseException:
            # It may not commit any more. Left open, its thread would draw from `random` under the tests that follow.
            self._consumer.close(autocommit=False)
            raise
        self._consumer.close()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.given_up |= {part.partition for part in revoked}

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._see_assignment()

    def _see_assignment(self) -> None:
        self.assigned = frozenset(part.partition for part in self._consumer.assignment())
