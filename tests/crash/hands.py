"""Members of a consumer group that commit by hand, each in a thread of its own; they note what they are refused."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import CommitFailedError as CommitRefused
from kafka.errors import KafkaError
from py4j.protocol import Py4JJavaError

from tests.interop.clients.java_vm import JavaVM

SESSION_MS = 30_000
"""Nobody is thrown out on a busy machine."""
OUT = frozenset({"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "FENCED_INSTANCE_ID"})
"""Why a member may not commit: it has to join again."""


class Hand(ABC):
    """A member; after each poll it commits where it stands, also where it stood before."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.assigned: frozenset[int] = frozenset()
        self.commits = 0
        self.refused: list[str] = []
        self._stopping = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._guarded)
        self._thread.start()

    def stop(self) -> None:
        """Commit, leave and end. Raises what ended the member before."""
        self._stopping.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises what ended the member."""
        if self._failed:
            raise self._failed[0]

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:  # shown to the test by stop()
            self._failed.append(error)

    def run(self) -> None:
        self.open()
        while not self._stopping.is_set():
            self.poll()
            self.commit()
        self.close()

    @abstractmethod
    def open(self) -> None: ...
    @abstractmethod
    def poll(self) -> None: ...
    @abstractmethod
    def commit(self) -> None: ...
    @abstractmethod
    def close(self) -> None: ...


class Owners:
    """Who owns a partition, by what the clients are told; two at once is a fault."""

    def __init__(self) -> None:
        self._by_partition: dict[int, object] = {}
        self._lock = threading.Lock()
        self.faults: list[str] = []

    def assign(self, member: object, partitions: list[Any]) -> None:
        with self._lock:
            for each in partitions:
                if self._by_partition.setdefault(each.partition, member) is not member:
                    self.faults.append(f"partition {each.partition} has two owners")

    def revoke(self, member: object, partitions: list[Any]) -> None:
        with self._lock:
            for each in partitions:
                if self._by_partition.get(each.partition) is member:
                    del self._by_partition[each.partition]


class ConfluentHand(Hand):
    """librdkafka."""

    def __init__(
        self,
        kafka: str,
        topic: str,
        group: str,
        *,
        others: Sequence[str] = (),
        owners: Owners | None = None,
        **options: Any,
    ) -> None:
        """`others`: topics that it reads beside the one."""
        self._topic = topic
        self._others = others
        self._owners = owners or Owners()
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": group,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 200,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
                "fetch.wait.max.ms": 100,
                **{key.replace("_", "."): value for key, value in options.items()},
            }
        )
        super().__init__()

    def open(self) -> None:
        topics = [self._topic, *self._others]
        self._consumer.subscribe(topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)

    def _assign(self, _: Consumer, partitions: list[Any]) -> None:
        self._owners.assign(self, partitions)

    def _revoke(self, _: Consumer, partitions: list[Any]) -> None:
        self._owners.revoke(self, partitions)

    def poll(self) -> None:
        for message in self._consumer.consume(500, timeout=0.05):
            if message.error() is None:
                self.values.append(message.value() or b"")
        self.assigned = frozenset(part.partition for part in self._consumer.assignment())

    def commit(self) -> None:
        positions = [at for at in self._consumer.position(self._consumer.assignment()) if at.offset >= 0]
        if not positions:
            return
        try:
            done: list[TopicPartition] = self._consumer.commit(offsets=positions, asynchronous=False) or []
        except KafkaException as error:
            self._note(error.args[0].name())
            return
        for each in done:
            if each.error is not None:
                self._note(each.error.name())
        self.commits += 1

    def _note(self, name: str) -> None:
        if name in OUT:
            self.refused.append(name)

    def close(self) -> None:
        self._consumer.close()
        self._owners.revoke(self, [TopicPartition(self._topic, number) for number in range(100)])


class KafkaPythonHand(Hand):
    """kafka-python."""

    def __init__(self, kafka: str, topic: str, group: str) -> None:
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=kafka,
            group_id=group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            reconnect_backoff_max_ms=500,
            fetch_max_wait_ms=100,
        )
        super().__init__()

    def open(self) -> None:
        return

    def poll(self) -> None:
        for records in self._consumer.poll(timeout_ms=50).values():
            self.values += [record.value for record in records]
        self.assigned = frozenset(part.partition for part in self._consumer.assignment())

    def commit(self) -> None:
        if not self.assigned:
            return
        try:
            self._consumer.commit()
            self.commits += 1
        except CommitRefused as error:
            self.refused.append(f"CommitFailedError: {error}")
        except KafkaError:
            return  # the server is away

    def close(self) -> None:
        self._consumer.close()


class AiokafkaHand(Hand):
    """aiokafka."""

    def __init__(self, kafka: str, topic: str, group: str) -> None:
        self._options = {"bootstrap_servers": kafka, "group_id": group}
        self._topic = topic
        super().__init__()

    def run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = AIOKafkaConsumer(
            self._topic,
            **self._options,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        async with consumer:
            while not self._stopping.is_set():
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    self.values += [record.value or b"" for record in records]
                self.assigned = frozenset(part.partition for part in consumer.assignment())
                await self._commit(consumer)

    async def _commit(self, consumer: AIOKafkaConsumer) -> None:
        if not self.assigned:
            return
        try:
            await consumer.commit()
            self.commits += 1
        except CommitFailedError as error:
            self.refused.append(f"CommitFailedError: {error}")

    def open(self) -> None: ...
    def poll(self) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


class JavaHand(Hand):
    """Kafka's own client."""

    def __init__(self, java: JavaVM, kafka: str, topic: str, group: str, **options: Any) -> None:
        self._java = java
        self._topic = topic
        self._options = {
            "bootstrap.servers": kafka,
            "group.id": group,
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": "200",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": "500",
            "fetch.max.wait.ms": "100",
            # Java's client 4 forgets all topics when no broker answers (KIP-1102); a leader that looks at them then
            # asks for a rebalance, whatever the server has kept.
            "metadata.recovery.strategy": "none",
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            **{key.replace("_", "."): value for key, value in options.items()},
        }
        super().__init__()

    def open(self) -> None:
        consumer = self._java.of("org.apache.kafka.clients.consumer.KafkaConsumer")
        self._millis: Callable[[int], Any] = self._java.of("java.time.Duration").ofMillis
        self._consumer = consumer(self._java.map(self._options))
        self._consumer.subscribe(self._java.list(self._topic))

    def poll(self) -> None:
        records = self._consumer.poll(self._millis(50)).iterator()
        while records.hasNext():
            self.values.append(records.next().value().encode())
        self.assigned = frozenset(part.partition() for part in self._consumer.assignment())

    def commit(self) -> None:
        if not self.assigned:
            return
        try:
            self._consumer.commitSync()
            self.commits += 1
        except Py4JJavaError as error:
            name = error.java_exception.getClass().getSimpleName()
            if name != "TimeoutException":
                self.refused.append(f"{name}: {error.java_exception.getMessage()}")

    def close(self) -> None:
        self._consumer.close()
