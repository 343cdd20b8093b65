"""An idempotent producer that keeps a ledger of what was acknowledged, for tests that kill processes under load."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping

from confluent_kafka import KafkaError, Message, Producer
from examples.ships.traffic import join_without_answers

from tests.support.records import Content, Place
from tests.support.waiting import WAIT_SECONDS


class Ledger:
    """Produces numbered records to some topics in a thread of its own until `stop`, and remembers each acknowledgement.

    `acknowledged` maps the place that the server named to the value that was sent. Every value is sent once.
    """

    def __init__(self, bootstrap: str, topics: list[str], *, prefix: str, label: str, per_second: int = 2000) -> None:
        self.acknowledged: dict[Place, bytes] = {}
        self.failed: list[str] = []
        self.sent = 0
        self._topics = topics
        self._prefix = prefix
        self._label = label
        self._pause_seconds = 20 / per_second
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.ms": 50,
            }
        )
        self._thread = threading.Thread(target=self._run, name="ledger")

    def __enter__(self) -> Ledger:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more, and wait until each record is acknowledged or has failed."""
        self._stopping.set()
        self._thread.join()

    def give_up(self) -> None:
        """Send no more; its server is gone, and what was not acknowledged is not waited for. It counts as failed."""
        self._stopping.set()
        join_without_answers(self._thread, self._producer)

    def wait_for(self, count: int, deadline_seconds: float = WAIT_SECONDS) -> None:
        """Return once that many records are acknowledged."""
        deadline = time.monotonic() + deadline_seconds
        while len(self.acknowledged) < count:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {count} acknowledged in time"
            self._stopping.wait(0.01)

    def _run(self) -> None:
        while not self._stopping.is_set():
            for _ in range(20):
                self._send()
            self._producer.poll(0)
            self._stopping.wait(self._pause_seconds)
        left = self._producer.flush(120)
        if left:
            self.failed.append(f"{left} records were neither acknowledged nor refused in 120 s")

    def _send(self) -> None:
        topic = self._topics[self.sent % len(self._topics)]
        value = f"{self._label}/{self.sent}".encode()
        self._producer.produce(self._prefix + topic, value, on_delivery=self._delivered)
        self.sent += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        assert value is not None
        self.acknowledged[Place(topic.removeprefix(self._prefix), partition, offset)] = value


def faults(acknowledged: Mapping[Place, bytes], stored: Mapping[Place, Content]) -> list[str]:
    """Acknowledged records that are lost or changed, and records that are there twice, a line each."""
    lines = [
        f"{place}: acknowledged as {value!r}, {'lost' if place not in stored else f'is {stored[place].value!r}'}"
        for place, value in acknowledged.items()
        if place not in stored or stored[place].value != value
    ]
    twice = [value for value, count in Counter(content.value for content in stored.values()).items() if count > 1]
    return sorted(lines) + [f"{value!r} is stored more than once" for value in sorted(map(repr, twice))]
