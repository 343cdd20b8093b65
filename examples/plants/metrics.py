"""What plants measure: readings of machines, and the program of a plant that sends them and counts what it has sent.

The story that these plants come from has a topic `Line 2_Asia`. Kafka's names have no space, so every plant calls its
topic `line-2`, and the link to North America puts `asia.` before it.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile

from confluent_kafka import KafkaError, Message, Producer
from examples.ships.compare import Place
from examples.ships.traffic import now_ms, place_of

STREAM = "/metrics"
PREFIX = f"{STREAM}:"
PLANTS = {"asia": 4, "europe": 3}
"""Where they stand, and how many lines each has."""
NAME_OF_THE_STORY = "Line 2_Asia"
PARTITIONS = 2
MACHINES = 6
"""On each line."""
FAULTS = ("heat", "jam", "no material", "quality")
_AT_ONCE = 20
"""Readings between two looks at the clock."""


def topic_of(line: int) -> str:
    """The topic of a line, in its plant."""
    return f"line-{line}"


def topics(plant: str, prefix: str = "") -> list[str]:
    """Of all lines of a plant, behind the prefix that its link puts before them."""
    return [prefix + topic_of(line) for line in range(1, PLANTS[plant] + 1)]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a machine says."""

    line: int
    machine: str
    units: int
    """Made since the last time."""
    fault: str | None
    """What kept it from making more."""
    celsius: float

    def value(self, time_ms: int) -> bytes:
        """The record's value: a JSON object."""
        said = {"units": self.units, "fault": self.fault, "celsius": self.celsius, "time": time_ms}
        return json.dumps(said).encode()


@dataclass(slots=True)
class Made:
    """What a line made, as its plant counts it."""

    readings: int = 0
    units: int = 0
    faults: int = 0

    def add(self, reading: Reading) -> None:
        self.readings += 1
        self.units += reading.units
        self.faults += reading.fault is not None


def readings(plant: str) -> Iterator[Reading]:
    """Of a plant, for ever, line after line; the same at every call. Lines with higher numbers fail more often."""
    dice = random.Random(plant)
    lines = PLANTS[plant]
    for number in count():
        line = number % lines + 1
        fault = dice.choice(FAULTS) if dice.random() < 0.01 * line else None
        units = dice.randint(0, 2) if fault else dice.randint(4, 9)
        heat = 20.0 if fault == "heat" else 0.0
        machine = f"machine-{number // lines % MACHINES + 1}"
        yield Reading(line, machine, units, fault, round(dice.gauss(60, 4) + heat, 1))


class Plant:
    """An idempotent producer that sends a plant's readings from a thread at a steady rate until it is told to stop."""

    def __init__(self, name: str, bootstrap: str, per_second: int) -> None:
        self.name = name
        self.made = {line: Made() for line in range(1, PLANTS[name] + 1)}
        """Of each line, what was acknowledged."""
        self.acknowledged: set[Place] = set()
        self.failed: list[str] = []
        self._per_second = per_second
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 2}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"plant-{name}", daemon=True)
        self._thread.start()

    @property
    def total(self) -> int:
        """Readings that were acknowledged."""
        return sum(line.readings for line in self.made.values())

    def stop(self) -> None:
        """Send no more, and wait until all is acknowledged."""
        self._stopping.set()
        self._thread.join()

    def give_up(self) -> None:
        """Its cluster may be gone: what was not acknowledged is not waited for."""
        self._stopping.set()
        while self._thread.is_alive():
            self._producer.purge()
            self._thread.join(0.1)

    def _run(self) -> None:
        began = time.monotonic()
        for sent, reading in enumerate(takewhile(lambda _: not self._stopping.is_set(), readings(self.name))):
            if sent % _AT_ONCE == 0:
                self._keep_pace(began + sent / self._per_second)
            self._send(reading)
        self._producer.flush()

    def _keep_pace(self, until: float) -> None:
        while (wait := until - time.monotonic()) > 0:
            self._producer.poll(wait)

    def _send(self, reading: Reading) -> None:
        """The rate is far below what its queue holds, and a full queue would end the demo."""
        time_ms = now_ms()
        self._producer.produce(
            PREFIX + topic_of(reading.line),
            reading.value(time_ms),
            key=reading.machine,
            timestamp=time_ms,
            on_delivery=partial(self._delivered, reading),
        )

    def _delivered(self, reading: Reading, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.add(place_of(message))
            self.made[reading.line].add(reading)
