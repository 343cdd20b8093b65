"""Clients of the failover demo: writers that go on until they are told to stop, and a consumer group that commits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from confluent_kafka import KafkaError, Message, TopicPartition
from examples.ships import ais
from examples.ships.compare import Place, digest
from examples.ships.sites import Site
from examples.ships.traffic import PREFIX, Endless, Follower, consumer, in_stream, place_of

COMMIT_EVERY_SECONDS = 1.0
Read = tuple[Place, bytes]
"""Where a record was read, and its content."""


def content(message: Message) -> bytes:
    """A record's content: its value holds a number that no other has."""
    return digest(message.key(), message.value(), 0, ())


def numbered(messages: Sequence[ais.Message], first: int) -> Iterator[ais.Message]:
    """Messages over and over, for ever, each with a number from `first` on that makes it unlike all others."""
    for number in count(first):
        message = messages[number % len(messages)]
        yield replace(message, body=message.body + b'"n": %d, ' % number)


class Writer(Endless[ais.Message]):
    """Sends ships' messages, numbered from `first` on, until it is told to stop."""

    def __init__(
        self,
        bootstrap: str,
        messages: Sequence[ais.Message],
        per_second: int,
        first: int,
        topic_of: Callable[[ais.Message], str] = in_stream,
        **settings: str | int | bool,
    ) -> None:
        self.sure: dict[bytes, str] = {}
        """What was acknowledged: the content, and the topic."""
        super().__init__(bootstrap, numbered(messages, first), per_second, topic_of, **settings)

    def _delivered(self, message: ais.Message, record: Message) -> None:
        self.sure[content(record)] = place_of(record)[0]


class Group:
    """A member of a consumer group, which reads and commits once a second."""

    def __init__(self, site: Site, group: str, topics: Sequence[str]) -> None:
        self.read: list[Read] = []
        self.committed = 0
        """So many of them were read when it last committed."""
        self.positions: list[TopicPartition] = []
        """What it committed last."""
        self._asked: deque[int] = deque()
        """How many were read at each commit that has no answer yet."""
        self._consumer = consumer(site.kafka, group, on_commit=self._answered, log_level=2)
        self._topics = [PREFIX + topic for topic in topics]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Join."""
        self._consumer.subscribe(self._topics)
        self._thread.start()

    def stop(self) -> None:
        """End without a commit, as one whose cluster is gone."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        due = time.monotonic() + COMMIT_EVERY_SECONDS
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    self.read.append((place_of(message), content(message)))
            if time.monotonic() >= due and len(self.read) > self.committed:
                # Without waiting: its cluster may be gone, and a commit waits for ever then.
                self._asked.append(len(self.read))
                self._consumer.commit()
                due = time.monotonic() + COMMIT_EVERY_SECONDS

    def _answered(self, error: KafkaError | None, positions: list[TopicPartition]) -> None:
        count = self._asked.popleft()
        if error is None:
            self.positions = [each for each in positions if each.offset >= 0]
            self.committed = count


class Reader(Follower):
    """Reads all topics of a site, and knows the contents that the writers were told of."""

    def __init__(self, site: Site, topics: Sequence[str]) -> None:
        self.contents: dict[Place, bytes] = {}
        super().__init__(site.kafka, topics)

    def _take(self, message: Message) -> None:
        super()._take(message)
        if message.error() is None:
            self.contents[place_of(message)] = content(message)
