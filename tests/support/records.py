"""What a topic holds, read by an ordinary Kafka consumer, so that two sites can be compared record by record."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.support.waiting import WAIT_SECONDS


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Content:
    """All of a record that a copy must keep."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def read_all(
    bootstrap: str, topics: Iterable[str], *, prefix: str, deadline_seconds: float = WAIT_SECONDS
) -> dict[Place, Content]:
    """Every record of the topics from the first offset to the end that each partition has now.

    `prefix` (such as `/ships:`) stands before the names that the listener shows and is left out of the answer.

    Raises:
        TimeoutError: a partition's end was not reached in time; the message says which and where it stands.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-without-a-group",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        return _read_all(consumer, [prefix + topic for topic in topics], prefix, time.monotonic() + deadline_seconds)
    finally:
        consumer.close()


def _read_all(consumer: Consumer, topics: list[str], prefix: str, deadline: float) -> dict[Place, Content]:
    found: dict[Place, Content] = {}
    ends = _ends(consumer, topics)
    waiting = {place for place, (low, high) in ends.items() if high > low}
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in waiting])
    while waiting:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not read to the end: {[(place, ends[place]) for place in sorted(waiting)][:5]}")
        for message in consumer.consume(10_000, timeout=0.2):
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            place = (topic, partition)
            if message.error() is None:
                _keep(found, message, prefix)
            if offset >= ends[place][1] - (message.error() is None):
                waiting.discard(place)
    return found


def ends(bootstrap: str, topic: str) -> list[int]:
    """Where each partition of a topic ends now; the name as the listener shows it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads-without-a-group"})
    try:
        return [high for _, (_, high) in sorted(_ends(consumer, [topic]).items())]
    finally:
        consumer.close()


def _ends(consumer: Consumer, topics: list[str]) -> dict[tuple[str, int], tuple[int, int]]:
    ends = {}
    for topic in topics:
        metadata = consumer.list_topics(topic, timeout=10).topics[topic]
        if metadata.error is not None:
            raise LookupError(f"{topic}: {metadata.error}")
        for partition in metadata.partitions:
            ends[topic, partition] = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
    return ends


def _keep(found: dict[Place, Content], message: object, prefix: str) -> None:
    place = Place(message.topic().removeprefix(prefix), message.partition(), message.offset())  # type: ignore[attr-defined]
    assert place not in found, f"{place} was read twice"
    found[place] = Content(
        message.key(),  # type: ignore[attr-defined]
        message.value(),  # type: ignore[attr-defined]
        message.timestamp()[1],  # type: ignore[attr-defined]
        tuple(message.headers() or ()),  # type: ignore[attr-defined]
    )


def differences(source: Mapping[Place, Content], replica: Mapping[Place, Content]) -> list[str]:
    """What is not equal, a line each; empty when the replica holds the same record at each offset and no other."""
    lines = [f"{place}: only at the source" for place in source.keys() - replica.keys()]
    lines += [f"{place}: only at the replica" for place in replica.keys() - source.keys()]
    lines += [f"{place}: differs" for place in source.keys() & replica.keys() if source[place] != replica[place]]
    return sorted(lines)
