"""What is heard and written at a place, by an ordinary Kafka client into the cluster there; and histories read back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, Producer, TopicPartition
from examples.ships.asked import Asked
from examples.ships.sites import SiteFailed
from examples.ships.traffic import consumer

Places = Mapping[tuple[str, int], bytes]
"""Topic and offset, with the value there. Topics have one partition, as a history has one order."""
FLUSH_SECONDS = 120
READ_SECONDS = 120


class Receiver:
    """Writes into one cluster, and knows what was acknowledged."""

    def __init__(self, place: str, bootstrap: str) -> None:
        self.place = place
        self.written: dict[tuple[str, int], bytes] = {}
        self._failed: list[str] = []
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 2}
        self._producer = Producer(settings)

    def write(self, topic: str, value: bytes, key: str | None = None) -> None:
        self._producer.produce(topic, value, key=key, on_delivery=partial(self._delivered, value))
        self._producer.poll(0)

    def done(self) -> None:
        """Return once everything is acknowledged.

        Raises:
            SiteFailed: something was refused, or has no answer.
        """
        left = self._producer.flush(FLUSH_SECONDS)
        if left or self._failed:
            raise SiteFailed(f"{self.place}: {left} records without an answer; refused: {self._failed[:3]}")

    def give_up(self) -> None:
        """What was not acknowledged is not waited for."""
        self._producer.purge()
        self._producer.flush(1)

    def _delivered(self, value: bytes, error: KafkaError | None, message: Message) -> None:
        topic, offset = message.topic(), message.offset()
        if error is not None:
            self._failed.append(error.str())
        elif topic is not None and offset is not None:
            self.written[topic, offset] = value


def read(bootstrap: str, topics: Sequence[str], count: int) -> dict[tuple[str, int], bytes]:
    """What topics hold, once they are all there with `count` records together, or more.

    Raises:
        SiteFailed: they did not come.
    """
    messages = _messages(bootstrap, topics, count)
    return {(str(each.topic()), each.offset() or 0): each.value() or b"" for each in messages}


def latest(bootstrap: str, topic: str, count: int = 1) -> list[dict[str, Any]]:
    """The JSON that a topic holds, once it has `count` records; the last record of each key. Raises: SiteFailed."""
    newest = {each.key(): each.value() or b"" for each in _messages(bootstrap, [topic], count)}
    return [json.loads(value) for value in newest.values()]


def _messages(bootstrap: str, topics: Sequence[str], count: int) -> list[Message]:
    """In the order of each topic."""
    ends = _ends(Asked(bootstrap, topics, 1), count)
    reader = consumer(bootstrap, "shipping-history", log_level=2)
    try:
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
        found: list[Message] = []
        deadline = time.monotonic() + READ_SECONDS
        while len(found) < ends:
            for message in reader.consume(ends - len(found), 0.2):
                if (error := message.error()) is not None:
                    raise SiteFailed(f"{bootstrap}: {error.str()}")
                found.append(message)
            if time.monotonic() > deadline:
                raise SiteFailed(f"{bootstrap}: {len(found):,} of {ends:,} records were read in {READ_SECONDS} s")
        return found
    finally:
        reader.close()


def _ends(asked: Asked, count: int) -> int:
    """How many records topics have, once they have `count`."""
    deadline = time.monotonic() + READ_SECONDS
    while True:
        ends = asked.ends()
        if len(ends) == len(asked.topics) and sum(ends.values()) >= count:
            return sum(ends.values())
        if time.monotonic() > deadline:
            raise SiteFailed(f"{asked.bootstrap}: {sum(ends.values()):,} of {count:,} records came in {READ_SECONDS} s")
        time.sleep(0.1)


def gapless(found: Places, topic: str) -> bool:
    """Whether a topic's offsets count through from 0 on."""
    offsets = sorted(offset for name, offset in found if name == topic)
    return bool(offsets) and offsets == list(range(len(offsets)))
