"""Ordinary Kafka clients (confluent-kafka) that publish ships' messages and read them back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Generic, Protocol, TypeVar, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from examples.ships import ais
from examples.ships.compare import Handover, Headers, Held, Place, digest

STREAM = "/ships"
PREFIX = f"{STREAM}:"
"""A Kafka client names a topic of a stream `<stream>:<topic>`."""
CREATE_AT_ONCE = 500
CONSUME_AT_ONCE = 5000
IDLE_SECONDS = 60
"""Reading fails if nothing comes for so long."""

Progress = Callable[[int], None]
"""Told how many records are done."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def in_stream(message: ais.Message) -> str:
    """The topic of its ship in the stream of the demos."""
    return PREFIX + message.topic


def create_topics(bootstrap: str, names: Sequence[str], partitions: int = 1, prefix: str = PREFIX) -> None:
    """Make topics, some hundreds with a request."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    for first in range(0, len(names), CREATE_AT_ONCE):
        some = [NewTopic(prefix + name, partitions) for name in names[first : first + CREATE_AT_ONCE]]
        for done in admin.create_topics(some, request_timeout=60).values():
            done.result()


class Sendable(Protocol):
    """What a record is made of."""

    @property
    def key(self) -> bytes: ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...

    def value(self, time_ms: int) -> bytes:
        """For one that is sent at `time_ms`, milliseconds since 1970."""
        ...


M = TypeVar("M", bound=Sendable)


class Publisher(Generic[M]):
    """Publishes messages with the time of their sending; remembers each place that was acknowledged. `topic_of`: the
    name that a client has for the topic of a message."""

    def __init__(self, bootstrap: str, topic_of: Callable[[M], str], **settings: str | int | bool) -> None:
        self.acknowledged: set[Place] = set()
        self._topic_of = topic_of
        self.failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": 512_000,
                "topic.metadata.refresh.interval.ms": 300_000,
                **settings,
            }
        )

    def publish(self, messages: Iterable[M], progress: Progress, per_second: int | None = None) -> None:
        """Send all, at a steady rate if one is given, and wait for their acknowledgement."""
        began = time.monotonic()
        for sent, message in enumerate(messages):
            if per_second is not None and sent % 20 == 0:
                self._keep_pace(began + sent / per_second)
            self._send(message)
            if sent % 1000 == 0:
                progress(len(self.acknowledged))
        while self._producer.flush(0.2):
            progress(len(self.acknowledged))
        progress(len(self.acknowledged))

    def count_of(self, topics: Iterable[str]) -> int:
        """How many acknowledged records these topics have."""
        chosen = set(topics)
        return sum(place[0] in chosen for place in self.acknowledged)

    def _keep_pace(self, until: float) -> None:
        while (wait := until - time.monotonic()) > 0:
            self._producer.poll(wait)

    def _send(self, message: M) -> None:
        time_ms = now_ms()
        while True:
            try:
                self._producer.produce(
                    self._topic_of(message),
                    message.value(time_ms),
                    key=message.key,
                    timestamp=time_ms,
                    headers=[*message.headers],
                    on_delivery=partial(self._answered, message),
                )
                self._producer.poll(0)
                return
            except BufferError:  # its queue is full: the server is slower than we are
                self._producer.poll(0.1)

    def _answered(self, message: M, error: KafkaError | None, record: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.add(place_of(record))
            self._delivered(message, record)

    def _delivered(self, message: M, record: Message) -> None:
        """The message was acknowledged."""


class Endless(Publisher[M]):
    """An idempotent producer that sends messages without end, at a steady rate from a thread, until it is told to
    stop."""

    def __init__(
        self,
        bootstrap: str,
        messages: Iterable[M],
        per_second: int,
        topic_of: Callable[[M], str],
        **settings: str | int | bool,
    ) -> None:
        super().__init__(bootstrap, topic_of, **{"enable.idempotence": True, "log_level": 2, **settings})
        self._stopping = threading.Event()
        some = takewhile(lambda message: not self._stopping.is_set(), messages)
        self._thread = threading.Thread(target=self.publish, args=(some, lambda done: None, per_second), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until all is acknowledged."""
        self._stopping.set()
        self._thread.join()

    def give_up(self) -> None:
        """Its cluster may be gone: what was not acknowledged is not waited for."""
        self._stopping.set()
        join_without_answers(self._thread, self._producer)


def join_without_answers(thread: threading.Thread, producer: Producer) -> None:
    """Wait for a thread that sends no more and waits until all of its producer's records have an answer: those without
    one fail. Again and again, since it may have sent one more meanwhile."""
    while thread.is_alive():
        producer.purge()
        thread.join(0.1)


def place_of(message: Message) -> Place:
    """Where a record lies, its topic without the stream."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("a record without a place")
    return topic.removeprefix(PREFIX), partition, offset


class Follower:
    """Reads all topics of one site from their beginning, in a thread, until told how many records there are.

    A consumer with every partition assigned, no group: nothing is committed.
    """

    def __init__(
        self, bootstrap: str, topics: Sequence[str], partitions: int = 1, prefix: str = PREFIX, **settings: Any
    ) -> None:
        self.held = Held()
        self.delays_ms: list[float] = []
        """From the time in a record (its producer's) to its being consumed here, for those sent after `measure`."""
        self.failure: str | None = None
        self._measured_from: int | None = None
        self._stopping = threading.Event()
        self._consumer = consumer(bootstrap, "ships-demo-reader", **settings)
        places = [(prefix + topic, number) for topic in topics for number in range(partitions)]
        self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
        self._thread = threading.Thread(target=self._run, name=f"follower-{bootstrap}")
        self._thread.start()

    def measure(self) -> None:
        """From now on, note the delay of records that are sent after this."""
        self._measured_from = now_ms()

    def wait_for(self, count: int, progress: Progress) -> None:
        """Return once so many records have been read.

        Raises:
            TimeoutError: nothing came for a while; or the consumer failed.
        """
        seen, since = len(self.held.records), time.monotonic()
        while len(self.held.records) < count:
            if self.failure is not None:
                raise TimeoutError(self.failure)
            if len(self.held.records) > seen:
                seen, since = len(self.held.records), time.monotonic()
            elif time.monotonic() - since > IDLE_SECONDS:
                raise TimeoutError(f"{seen:,} of {count:,} records came, and no more for {IDLE_SECONDS} s")
            progress(seen)
            self._stopping.wait(0.1)
        progress(count)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(CONSUME_AT_ONCE, 0.05):
                self._take(message)

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self.failure = str(error)
            return
        (_, time_ms), key, value = message.timestamp(), message.key(), message.value()
        if self._measured_from is not None and time_ms >= self._measured_from:
            self.delays_ms.append(time.time_ns() / 1e6 - time_ms)
        content = digest(key, value, time_ms, cast(Headers, message.headers() or ()))
        self.held.add(place_of(message), content, len(key or b"") + len(value or b""))


def consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """A consumer that commits only when told."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "fetch.message.max.bytes": 262_144,
            "queued.min.messages": 100_000,
            "queued.max.messages.kbytes": 65_536,
            "topic.metadata.refresh.interval.ms": 300_000,
            **settings,
        }
    )


def hand_over(first: str, second: str, topics: Sequence[str], expected: frozenset[Place]) -> Handover:
    """A group reads half of some topics at the first site and, once its commits are known there, the rest at the next.

    Raises:
        TimeoutError: they do not come.
    """
    group = "harbour-office"
    names = [PREFIX + topic for topic in topics]
    reader = consumer(first, group)
    try:
        reader.subscribe(names)
        read_first = read_places(reader, len(expected) // 2)
        committed = _next_of(read_first)
        reader.commit(offsets=committed, asynchronous=False)
    finally:
        reader.close()
    reader = consumer(second, group)
    try:
        _wait_until_known(reader, committed)
        reader.subscribe(names)
        return Handover(tuple(read_first), tuple(read_places(reader, len(expected) - len(read_first))), expected)
    finally:
        reader.close()


def _wait_until_known(reader: Consumer, committed: Sequence[TopicPartition]) -> None:
    """Until a group's commits, made elsewhere, are known here."""
    asked = [TopicPartition(each.topic, each.partition) for each in committed]
    deadline = time.monotonic() + IDLE_SECONDS
    while True:
        known = {(each.topic, each.partition): each.offset for each in reader.committed(asked, timeout=30)}
        if all(known[each.topic, each.partition] >= each.offset for each in committed):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {IDLE_SECONDS} s the second site does not know what the group has committed")
        time.sleep(0.1)


def read_places(reader: Consumer, count: int) -> list[Place]:
    """So many records; fewer if they do not come in time."""
    places: list[Place] = []
    deadline = time.monotonic() + IDLE_SECONDS
    while len(places) < count and time.monotonic() < deadline:
        for message in reader.consume(min(count - len(places), 500), 0.5):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            places.append(place_of(message))
    return places


def _next_of(places: Iterable[Place]) -> list[TopicPartition]:
    """What a group commits after reading these: the offset behind the last of each partition."""
    following: dict[tuple[str, int], int] = {}
    for topic, partition, offset in places:
        following[topic, partition] = max(following.get((topic, partition), 0), offset + 1)
    return [TopicPartition(PREFIX + topic, partition, offset) for (topic, partition), offset in following.items()]
