"""Writers that look for the owner of their topic, and note each acknowledgement with the site that gave it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from tests.support.records import Place
from tests.support.sites import Site
from tests.support.waiting import wait_until

BATCH = 10
PAUSE_SECONDS = 0.2
"""Between two batches, so that the sites can keep up."""


class Acknowledged(NamedTuple):
    """A record that a site has promised to keep; two sites may promise others at one place, if one of them was lost."""

    place: Place
    value: bytes
    site: str


class Writer:
    """Writes one topic at one site until that refuses or does not answer, then at the next. No value is sent twice by
    it: what failed may have been written all the same."""

    def __init__(self, name: str, topic: str, prefix: str, partitions: int, sites: Sequence[Site], at: Site) -> None:
        self.topic = topic
        self.acknowledged: list[Acknowledged] = []
        self.turns = 0
        """Batches that were answered, whatever the answer."""
        self.name = name
        self._prefix = prefix
        self._partitions = partitions
        self._sites = sites
        self._at = at
        self._sent = 0
        self._producers: dict[str, Producer] = {}
        self._stopping = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._guarded, name=name)
        self._thread.start()

    def move_to(self, site: Site) -> None:
        """Write there from the next batch on."""
        self._at = site

    def wait_for_turns(self, count: int) -> None:
        """So many more batches are answered."""
        until = self.turns + count
        wait_until(lambda: self.turns >= until or self._failed, f"{self.name} writes, or is refused")
        self.check()

    def wait_for_acknowledged(self, count: int) -> None:
        """So many more records are taken."""
        until = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= until or self._failed, f"{self.name} writes {self.topic}")
        self.check()

    @property
    def is_stopped(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def check(self) -> None:
        """Raises what ended it."""
        if self._failed:
            raise self._failed[0]

    def _guarded(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
                self._stopping.wait(PAUSE_SECONDS)
        except BaseException as error:  # shown to the test by check()
            self._failed.append(error)

    def _turn(self) -> None:
        site = self._at
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error)
                return
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            self.acknowledged.append(Acknowledged(Place(self.topic, partition, offset), value, site.name))

        producer = self._producer(site)
        for _ in range(BATCH):
            value, self._sent = f"{self.name}/{self._sent}", self._sent + 1
            partition = self._sent % self._partitions
            producer.produce(self._prefix + self.topic, value, partition=partition, on_delivery=delivered)
        producer.flush()
        if refused:
            del self._producers[site.name]  # some errors are fatal to it
            if self._at is site:
                self._at = self._sites[(self._sites.index(site) + 1) % len(self._sites)]
        self.turns += 1

    def _producer(self, site: Site) -> Producer:
        if site.name not in self._producers:
            self._producers[site.name] = Producer(
                {
                    "bootstrap.servers": site.kafka,
                    "enable.idempotence": True,
                    "linger.ms": 2,
                    "message.timeout.ms": 10_000,
                    "retry.backoff.ms": 50,
                    "reconnect.backoff.max.ms": 300,
                    "log_level": 0,
                }
            )
        return self._producers[site.name]
