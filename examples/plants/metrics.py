"""What plants measure: readings of machines, and the program of a plant that sends them and counts what it has sent.

The story that these plants come from has a topic `Line 2_Asia`. Kafka's names have no space, so every plant calls its
topic `line-2`, and the link to North America puts `asia.` before it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from confluent_kafka import Message
from examples.ships.traffic import Endless

STREAM = "/metrics"
PREFIX = f"{STREAM}:"
PLANTS = {"asia": 4, "europe": 3}
"""Where they stand, and how many lines each has."""
NAME_OF_THE_STORY = "Line 2_Asia"
PARTITIONS = 2
MACHINES = 6
"""On each line."""
FAULTS = ("heat", "jam", "no material", "quality")


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

    @property
    def key(self) -> bytes:
        return self.machine.encode()

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        return ()

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


class Plant(Endless[Reading]):
    """Sends a plant's readings until it is told to stop."""

    def __init__(self, name: str, bootstrap: str, per_second: int) -> None:
        self.made = {line: Made() for line in range(1, PLANTS[name] + 1)}
        """Of each line, what was acknowledged."""
        settings = {"linger.ms": 20}
        super().__init__(bootstrap, readings(name), per_second, lambda each: PREFIX + topic_of(each.line), **settings)

    @property
    def total(self) -> int:
        """Readings that were acknowledged."""
        return sum(line.readings for line in self.made.values())

    def _delivered(self, message: Reading, record: Message) -> None:
        self.made[message.line].add(message)
