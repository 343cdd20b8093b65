"""What a topic holds, read by an ordinary Kafka consumer, so that two sites can be compared record by record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.waiting import WAIT_SECONDS, wait_until

T = TypeVar("T")

_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LOOK_SECONDS = 10.0
"""For an answer; then it is asked anew, by what the cluster says then of its leaders."""


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
    ends = _ends(consumer, topics, deadline)
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


def ends(bootstrap: str, topic: str, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> list[int]:
    """Where each partition of a topic ends now for such readers; none while it is not there. The name is as the
    listener shows it. A cluster that is away is waited for.

    Whether it is there is asked first: a client that reads a topic waits for it, for longer than a test may.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def asked(seconds: float) -> list[int]:
        found = admin.list_topics(timeout=min(seconds, _LOOK_SECONDS)).topics.get(topic)
        if found is None or _is_unknown(found.error):
            return []
        if found.error is not None:
            raise KafkaException(found.error)
        places = {TopicPartition(topic, partition): _LATEST for partition in sorted(found.partitions)}
        told = admin.list_offsets(places, isolation_level=level, request_timeout=min(seconds, _LOOK_SECONDS))
        return [told[place].result(WAIT_SECONDS).offset for place in places]

    return _answered(asked, time.monotonic() + WAIT_SECONDS)


def wait_for_markers(bootstrap: str, topic: str) -> None:
    """Return once no transaction is open in a topic: who ends one is told so before every partition has its marker, and
    until then readers of committed records do not see it."""
    wait_until(
        lambda: ends(bootstrap, topic, IsolationLevel.READ_COMMITTED) == ends(bootstrap, topic),
        f"all transactions in {topic} have their markers",
    )


def _ends(consumer: Consumer, topics: list[str], deadline: float) -> dict[tuple[str, int], tuple[int, int]]:
    ends = {}
    for topic in topics:
        for partition in _answered(partial(_partitions, consumer, topic), deadline):
            place = TopicPartition(topic, partition)
            ends[topic, partition] = _answered(partial(_watermarks, consumer, place), deadline)
    return ends


def _answered(ask: Callable[[float], T], deadline: float) -> T:
    """What a cluster answers, who is asked with the seconds that are left; it is asked again, until the deadline, where
    it fails: while it moves its leaders, or is away."""
    while True:
        try:
            return ask(max(deadline - time.monotonic(), 0.1))
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _partitions(consumer: Consumer, topic: str, seconds: float) -> list[int]:
    found = consumer.list_topics(topic, timeout=seconds).topics[topic]
    if found.error is None:
        return list(found.partitions)
    if _is_unknown(found.error):
        raise LookupError(f"{topic}: {found.error}")
    raise KafkaException(found.error)


def _is_unknown(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def _watermarks(consumer: Consumer, place: TopicPartition, seconds: float) -> tuple[int, int]:
    return consumer.get_watermark_offsets(place, timeout=seconds)


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
