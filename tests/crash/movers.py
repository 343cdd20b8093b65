"""Members of consumer groups that lose their site and go to another one, of three kinds of client.

Each notes every record that it is given, with its place, and how many of them it had when it last committed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from py4j.protocol import Py4JJavaError

from tests.interop.clients.java_vm import JavaVM
from tests.support.waiting import WAIT_SECONDS

SESSION_MS = 30_000
"""Nobody is thrown out on a busy machine. Its group is empty so long after its site was lost."""
_PATIENCE_SECONDS = 5
"""For an attempt to commit, or to leave: its site may be gone."""
OPTIONS = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 200,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
}


class Given(NamedTuple):
    """A record, as a consumer is given it."""

    partition: int
    offset: int
    value: bytes


class Mover(ABC):
    """The only member of its group, in a thread; it commits after each poll that gave it something."""

    def __init__(self, kafka: str, topic: str, group: str) -> None:
        self.kafka, self.topic, self.group = kafka, topic, group
        self.read: list[Given] = []
        self.committed = 0
        """So many of them it had read when it last committed."""
        self._stopping = threading.Event()
        self._lost = False
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._guarded)
        self._thread.start()

    def stop(self) -> None:
        """Commit all, leave and end. Raises what ended the member before."""
        self._end()
        if self._failed:
            raise self._failed[0]

    def give_up(self) -> None:
        """End; its site is gone, so it can neither commit nor leave, and may say so."""
        self._lost = True
        self._end()

    def next_offsets(self, count: int) -> dict[int, int]:
        """By partition, the offset after the first so many that it read."""
        return {each.partition: each.offset + 1 for each in self.read[:count]}

    def insisting(self) -> Iterator[None]:
        """Attempts of one that leaves in order to commit all that it has read.

        Raises:
            TimeoutError: there is no more time for them, or its site is lost after all.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline and not self._lost:
            yield
        raise TimeoutError(f"{type(self).__name__} of {self.group}: its last commit was not taken")

    def _end(self) -> None:
        self._stopping.set()
        self._thread.join(WAIT_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"not in {WAIT_SECONDS:g} s: the {type(self).__name__} of {self.group} ends")

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:  # shown to the test by stop()
            self._failed.append(error)

    @abstractmethod
    def run(self) -> None: ...


class ConfluentMover(Mover):
    """librdkafka."""

    def __init__(self, kafka: str, topic: str, group: str) -> None:
        self._asked: deque[int] = deque()
        super().__init__(kafka, topic, group)

    def run(self) -> None:
        options = {**OPTIONS, "fetch.wait.max.ms": 100, "reconnect.backoff.max.ms": 500, "log_level": 2}
        told = {"bootstrap.servers": self.kafka, "group.id": self.group, "on_commit": self._answered}
        consumer = Consumer({**told, **options})
        consumer.subscribe([self.topic])
        while not self._stopping.is_set():
            if self._take(consumer):
                self._asked.append(len(self.read))
                consumer.commit()  # without waiting, which would be for ever once its site is gone
        if self._lost:
            return  # not close(), which waits for ever for a commit that was on its way when its site went
        for _ in self.insisting():
            if self._has_committed_all(consumer):
                break
            self._take(consumer)
        consumer.close()

    def _take(self, consumer: Consumer) -> bool:
        """Whether it was given something."""
        found = [each for each in consumer.consume(500, timeout=0.05) if each.error() is None]
        for message in found:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.read.append(Given(partition, offset, message.value() or b""))
        return bool(found)

    def _has_committed_all(self, consumer: Consumer) -> bool:
        wanted = self.next_offsets(len(self.read))
        with suppress(KafkaException):  # nothing is new, or it has to join again
            consumer.commit(asynchronous=False)
        with suppress(KafkaException):
            found = consumer.committed([TopicPartition(self.topic, each) for each in wanted], WAIT_SECONDS)
            return {each.partition: each.offset for each in found} == wanted
        return False

    def _answered(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        count = self._asked.popleft() if self._asked else len(self.read)
        if error is None:
            self.committed = count


class AiokafkaMover(Mover):
    """aiokafka."""

    def run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        options = {name.replace(".", "_"): value for name, value in OPTIONS.items()}
        consumer = AIOKafkaConsumer(
            self.topic, bootstrap_servers=self.kafka, group_id=self.group, fetch_max_wait_ms=100, **options
        )
        await consumer.start()
        try:
            while not self._stopping.is_set():
                if await self._take(consumer):
                    await self._commit(consumer)
            if not self._lost:
                for _ in self.insisting():
                    if await self._has_committed_all(consumer):
                        break
                    await self._take(consumer)
        finally:
            with suppress(TimeoutError, AiokafkaError):
                await asyncio.wait_for(consumer.stop(), _PATIENCE_SECONDS if self._lost else WAIT_SECONDS)

    async def _take(self, consumer: AIOKafkaConsumer) -> bool:
        """Whether it was given something."""
        found = await consumer.getmany(timeout_ms=50)
        for records in found.values():
            self.read += [Given(each.partition, each.offset, each.value or b"") for each in records]
        return bool(found)

    async def _has_committed_all(self, consumer: AIOKafkaConsumer) -> bool:
        await self._commit(consumer)
        wanted = self.next_offsets(len(self.read))
        with suppress(AiokafkaError):
            found = {each: await consumer.committed(AiokafkaPartition(self.topic, each)) for each in wanted}
            return found == wanted
        return False

    async def _commit(self, consumer: AIOKafkaConsumer) -> None:
        if not consumer.assignment():
            return
        count = len(self.read)
        committing = asyncio.ensure_future(consumer.commit())
        while not committing.done() and not self._lost:
            await asyncio.wait([committing], timeout=0.05)
        if not committing.done():
            committing.cancel()
            return
        with suppress(AiokafkaError):
            committing.result()
            self.committed = count


class JavaMover(Mover):
    """Kafka's own client."""

    def __init__(self, java: JavaVM, kafka: str, topic: str, group: str) -> None:
        self._java = java
        super().__init__(kafka, topic, group)

    def run(self) -> None:
        text = "org.apache.kafka.common.serialization.StringDeserializer"
        options = {
            **{name: str(value).lower() for name, value in OPTIONS.items()},
            "bootstrap.servers": self.kafka,
            "group.id": self.group,
            "fetch.max.wait.ms": "100",
            "reconnect.backoff.max.ms": "500",
            "key.deserializer": text,
            "value.deserializer": text,
        }
        millis: Callable[[int], Any] = self._java.of("java.time.Duration").ofMillis
        consumer = self._java.of("org.apache.kafka.clients.consumer.KafkaConsumer")(self._java.map(options))
        consumer.subscribe(self._java.list(self.topic))
        while not self._stopping.is_set():
            if self._take(consumer, millis):
                self._commit(consumer, millis)
        if self._lost:
            consumer.close(millis(0))
            return
        for _ in self.insisting():
            if self._has_committed_all(consumer, millis):
                break
            self._take(consumer, millis)
        consumer.close()

    def _take(self, consumer: Any, millis: Callable[[int], Any]) -> bool:
        """Whether it was given something."""
        records = consumer.poll(millis(50)).iterator()
        before = len(self.read)
        while records.hasNext():
            each = records.next()
            self.read.append(Given(each.partition(), each.offset(), each.value().encode()))
        return len(self.read) > before

    def _has_committed_all(self, consumer: Any, millis: Callable[[int], Any]) -> bool:
        self._commit(consumer, millis)
        wanted = self.next_offsets(len(self.read))
        places = {each: self._java.of("org.apache.kafka.common.TopicPartition")(self.topic, each) for each in wanted}
        asked = self._java.of("java.util.HashSet")(self._java.list(*places.values()))
        with suppress(Py4JJavaError):
            found = consumer.committed(asked)
            return all(_offset(found.get(place)) == wanted[each] for each, place in places.items())
        return False

    def _commit(self, consumer: Any, millis: Callable[[int], Any]) -> None:
        count = len(self.read)
        try:
            consumer.commitSync(millis(_PATIENCE_SECONDS * 1000))
        except Py4JJavaError:
            return  # its site is gone, or it has to join again
        self.committed = count


def _offset(committed: Any) -> int | None:
    return None if committed is None else int(committed.offset())
