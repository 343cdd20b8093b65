"""When an alert is seen where: a Kafka consumer in each office, and how long that was after the sensor's last word."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from examples.ships.compare import percentile
from examples.ships.traffic import consumer

Alert = tuple[str, str]
"""A container and what is said of it."""


@dataclass(frozen=True, slots=True)
class Delays:
    """In seconds, over all alerts and offices."""

    median: float
    p99: float
    most: float
    count: int


class Sightings:
    """Alerts that were seen in an office."""

    def __init__(self) -> None:
        self.seen: dict[Alert, float] = {}
        """Seconds from the reading that showed it to its being read here."""
        self.twice: list[Alert] = []
        self.next_offset = 0
        """All before it was read."""

    def took(self, value: bytes, now: float) -> None:
        """Note an alert; `timestamp` in it is that of the record of the reading."""
        said = json.loads(value)
        alert = str(said["container"]), str(said["kind"])
        if alert in self.seen:
            self.twice.append(alert)
        else:
            self.seen[alert] = now - datetime.fromisoformat(said["timestamp"]).timestamp()


class Lookout(Sightings):
    """A thread that reads a topic of alerts, which has one partition, and notes when each came."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._consumer = consumer(bootstrap, "lookout", log_level=2)
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lookout-{bootstrap}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(100, 0.05):
                if message.error() is None:
                    self.took(message.value() or b"", time.time())
                    self.next_offset = (message.offset() or 0) + 1


def delays(seen: Mapping[str, Mapping[Alert, float]], alerts: Iterable[Alert]) -> Delays:
    """Of some alerts, in all offices that have seen them."""
    chosen = set(alerts)
    found = sorted(after for office in seen.values() for alert, after in office.items() if alert in chosen)
    if not found:
        return Delays(0, 0, 0, 0)
    return Delays(percentile(found, 0.5), percentile(found, 0.99), found[-1], len(found))
