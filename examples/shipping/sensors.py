"""What sensors on containers say: position, temperature, humidity, acceleration, tilt, water; with real faults.

Everything here is made by seeded dice, so a run says the same each time. Times are those of the voyage, whose days the
demo tells in minutes: the sensor's own, which is wrong in some, and the receiver's. A record's time is the real one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import cos, pi

from examples.shipping.cargo import SEED, Container

HOUR_MS = 3_600_000
BEGAN_MS = 1_772_323_200_000
"""2026-03-01 00:00 UTC: the day of the loading in Tokyo."""
BATTERY_LOST_MS = 0
"""A clock that has lost its battery starts at 1970."""
WRONG_CLOCKS_EVERY = 9
"""One sensor of so many has a wrong clock, by turns of either kind."""
BAD_RADIOS_EVERY = 7
"""One sensor of so many is heard only at times, and says then what it has kept."""
HELD_BACK = 3
"""So many readings come together from a bad radio."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One record's value, as JSON."""

    container: str
    seq: int
    """Of this container, from 0 on, wherever it is: a history without a gap counts through."""
    time: int
    """The sensor's clock, milliseconds since 1970."""
    place: str
    """What it is on: a ship's or a port's name."""
    bay: int
    lat: float
    lon: float
    celsius: float
    humidity: float
    g: float
    """The strongest acceleration since the last reading, gravity taken off."""
    tilt: float
    """Degrees from upright."""
    wet: bool

    def value(self, heard_ms: int) -> bytes:
        """The record's value; the receiver adds by its own clock when it heard this."""
        return json.dumps({**asdict(self), "heard": heard_ms}).encode()


@dataclass(frozen=True, slots=True)
class Where:
    """Where and when a reading is taken."""

    place: str
    lat: float
    lon: float
    time_ms: int
    swell: float = 0.0
    """0 in a port, 1 in a gale."""


class Sensor:
    """The sensor of one container, which goes with it from dock to ship to dock."""

    def __init__(self, container: Container, index: int, seed: int = SEED) -> None:
        self.container = container
        self._dice = random.Random(f"{seed} {container.number}")
        self._seq = 0
        self._clock_off_ms = _wrong_by(index)
        self._bad_radio = index % BAD_RADIOS_EVERY == BAD_RADIOS_EVERY - 1
        self._held: list[Reading] = []
        self.cooling = True
        """A reefer's; once it fails, its cargo thaws."""
        self._inside: float | None = None

    def heard(self, where: Where) -> list[Reading]:
        """What is heard after one more reading is taken: that one; nothing, or several, of a bad radio."""
        self._held.append(self._take(where, self._dice.uniform(0, 2 + 15 * where.swell), wet=False))
        return [] if self._bad_radio and len(self._held) < HELD_BACK else self._said()

    def last_words(self) -> list[Reading]:
        """What a bad radio still holds, as when somebody walks by with a receiver."""
        return self._said()

    def overboard(self, where: Where) -> list[Reading]:
        """What is heard of a container that slips off the deck: it tilts, it falls, it is wet; then never more."""
        self._held.append(self._take(where, self._dice.uniform(30, 50), wet=False))
        self._held.append(self._take(where, self._dice.uniform(70, 120), wet=False, hit=self._dice.uniform(5, 9)))
        self._held.append(self._take(where, self._dice.uniform(80, 180), wet=True, hit=self._dice.uniform(5, 12)))
        return self._said()

    def _said(self) -> list[Reading]:
        said, self._held = self._held, []
        return said

    def _take(self, where: Where, tilt: float, *, wet: bool, hit: float = 0.0) -> Reading:
        dice, container = self._dice, self.container
        reading = Reading(
            container=container.number,
            seq=self._seq,
            time=max(where.time_ms + self._clock_off_ms, BATTERY_LOST_MS),
            place=where.place,
            bay=container.bay,
            lat=round(where.lat + dice.gauss(0, 0.0003), 5),
            lon=round(where.lon + dice.gauss(0, 0.0003), 5),
            celsius=round(self._celsius(where) + dice.gauss(0, 0.3), 1),
            humidity=round(min(max(dice.gauss(72 + 12 * where.swell, 3), 0), 100), 1),
            g=round(hit or abs(dice.gauss(0.05 + 0.3 * where.swell, 0.05)), 2),
            tilt=round(tilt, 1),
            wet=wet,
        )
        self._seq += 1
        return reading

    def _celsius(self, where: Where) -> float:
        """Within a box of steel: the air outside and the sun on it; in a reefer that cools, what it was set to."""
        outside = celsius_outside(where.lat, where.time_ms)
        if self.container.cargo != "tuna":
            return outside
        inside = -22.0 if self._inside is None else self._inside
        self._inside = -22.0 if self.cooling else inside + (outside - inside) * 0.06
        return self._inside


def celsius_outside(lat: float, time_ms: int) -> float:
    """Warm at the equator, cold at the poles, warmest at two in the afternoon."""
    hour = time_ms / HOUR_MS % 24
    return 29 - 0.4 * abs(lat) + 5 * cos((hour - 14) / 24 * 2 * pi)


def _wrong_by(index: int) -> int:
    """How far a sensor's clock is off: most are right, some are some hours ahead, some are in 1970."""
    if index % WRONG_CLOCKS_EVERY != WRONG_CLOCKS_EVERY - 1:
        return 0
    return 5 * HOUR_MS if index // WRONG_CLOCKS_EVERY % 2 == 0 else -BEGAN_MS


def round_of(sensors: Iterable[Sensor], where: Where) -> list[Reading]:
    """What is heard of all of them when each takes one reading."""
    return [reading for sensor in sensors for reading in sensor.heard(where)]
