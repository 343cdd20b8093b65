"""What the demo asks of Kafka clusters: two of Apache Kafka to be started, ends, positions and lags."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.systems.common import LATEST
from benchmarks.systems.kafka import SMALL, SMALL_HEAP, Kafka, kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from examples.mirror.counting import Partition
from examples.ships import ais, traffic
from examples.ships.sites import SiteFailed

FLEETS = 24
"""Topics: ships by the last digits of their numbers."""
PARTITIONS = 3
FILES = Path(__file__).parent
QUIET = {"log_level": 2}
"""Of clients, which otherwise tell of each connection that ends with its cluster."""
_NO_LEADER_YET = {
    KafkaError._NOENT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}
_ANSWER_SECONDS = 30


def fleet(message: ais.Message) -> str:
    """The topic of a message; all of a ship lie in one partition, as the ship is the key."""
    return f"fleet-{message.ship % FLEETS:02d}"


@contextmanager
def kafkas(folder: Path, names: Sequence[str]) -> Iterator[list[Kafka]]:
    """Clusters of Apache Kafka, of one node each, with small heaps.

    Raises:
        SiteFailed: one does not start.
    """
    with ExitStack() as stack:
        try:
            started = [stack.enter_context(kafka(folder / name, SMALL, name, SMALL_HEAP)) for name in names]
        except RuntimeError as error:
            raise SiteFailed(str(error)) from error
        try:
            yield started
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C does not leave them behind


def property_file(folder: Path, name: str, bootstrap: str, like: str | None = None, **changed: str) -> None:
    """One of the files of `examples/mirror/`, or one like it, with the address that a cluster got."""
    values = {"bootstrap.servers": bootstrap, **{key.replace("_", "."): value for key, value in changed.items()}}
    lines = (FILES / (like or name)).read_text().splitlines()
    kept = [line for line in lines if line.partition("=")[0] not in values and not line.startswith("#")]
    (folder / name).write_text("\n".join([*(f"{key}={value}" for key, value in values.items()), *kept, ""]))


class Asked:
    """What some topics of a cluster are asked again and again."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.topics = topics
        self._places = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        self._bootstrap = bootstrap

    def ends(self) -> Mapping[Partition, int]:
        """Where each partition ends; those that are not there yet are missing."""
        admin = self._admin()
        asked = admin.list_offsets(dict.fromkeys(self._places, LATEST), request_timeout=_ANSWER_SECONDS)
        found: dict[Partition, int] = {}
        for place, answer in asked.items():
            error = answer.exception(_ANSWER_SECONDS)
            if error is None:
                found[place.topic, place.partition] = answer.result().offset
            elif not (isinstance(error, KafkaException) and error.args[0].code() in _NO_LEADER_YET):
                raise error
        return found

    def records(self) -> int:
        """How many offsets have been given."""
        return sum(self.ends().values())

    def lag(self, group: str) -> int:
        """How far a group is behind, as every tool shows it."""
        asking = traffic.consumer(self._bootstrap, group, **QUIET)
        try:
            committed = asking.committed(self._places, timeout=_ANSWER_SECONDS)
        finally:
            asking.close()
        return self.records() - sum(max(each.offset, 0) for each in committed)

    def partitions(self) -> Mapping[str, int]:
        """How many each topic has; those that are not there are missing."""
        there = self._admin().list_topics(timeout=_ANSWER_SECONDS).topics
        return {place.topic: len(there[place.topic].partitions) for place in self._places if place.topic in there}

    def _admin(self) -> AdminClient:
        """A new one: it would remember for long that a topic is not there."""
        return AdminClient({"bootstrap.servers": self._bootstrap, **QUIET})


def positions(bootstrap: str, mirror: str) -> Mapping[Partition, int]:
    """What a mirror's topic of positions says, by the names at the source."""
    topic = f"fairlead-mirror.{mirror}.internal"
    reader = traffic.consumer(bootstrap, "demo-mirror", **QUIET, **{"enable.partition.eof": True})
    found: dict[Partition, int] = {}
    try:
        left = set(reader.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic].partitions)
        reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        while left:
            for message in reader.consume(500, 0.1):
                error = message.error()
                if error is None:
                    found.update(_position(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition() or 0)
                else:
                    raise KafkaException(error)
    finally:
        reader.close()
    return found


def _position(message: Message) -> Mapping[Partition, int]:
    key, value = json.loads(message.key() or b"{}"), json.loads(message.value() or b"{}")
    return {(value["name"], key["partition"]): value["offset"]} if key.get("of") == "position" else {}
