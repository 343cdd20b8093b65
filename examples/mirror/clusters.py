"""What the demo asks of clusters: two of Apache Kafka to be started, property files, and a mirror's positions."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.systems.kafka import SMALL, SMALL_HEAP, Kafka, kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition
from examples.mirror.counting import Partition
from examples.ships import ais, traffic
from examples.ships.asked import ANSWER_SECONDS, QUIET
from examples.ships.sites import SiteFailed

FLEETS = 24
"""Topics: ships by the last digits of their numbers."""
PARTITIONS = 3
FILES = Path(__file__).parent


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


def positions(bootstrap: str, mirror: str) -> Mapping[Partition, int]:
    """What a mirror's topic of positions says, by the names at the source."""
    topic = f"fairlead-mirror.{mirror}.internal"
    reader = traffic.consumer(bootstrap, "demo-mirror", **QUIET, **{"enable.partition.eof": True})
    found: dict[Partition, int] = {}
    try:
        left = set(reader.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions)
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
