"""Where ships are: ports, the ways between them, positions on a way, and the real track of a ship that got stuck.

The ways are made up of a few points of the usual sea lanes; between two of them a ship follows the great circle. No
library of sea routes is used: none is needed for five ports.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import asin, cos, radians, sin, sqrt
from pathlib import Path

Place = tuple[float, float]
"""Latitude and longitude, in degrees."""
PORTS: dict[str, Place] = {
    "tokyo": (35.61, 139.79),
    "singapore": (1.26, 103.82),
    "sydney": (-33.97, 151.22),
    "london": (51.50, 0.48),
    "losangeles": (33.74, -118.26),
}
WAYS: dict[tuple[str, str], tuple[Place, ...]] = {
    ("tokyo", "singapore"): ((34.5, 139.6), (30.5, 132.0), (22.0, 121.5), (12.0, 112.0), (2.5, 105.0)),
    ("singapore", "sydney"): ((-3.0, 107.5), (-8.5, 116.0), (-9.8, 128.0), (-10.5, 142.2), (-25.0, 154.0)),
    ("singapore", "london"): (
        *((5.8, 95.0), (6.0, 80.0), (12.2, 45.0), (27.5, 34.2), (29.93, 32.56), (31.3, 32.35), (36.5, 14.0)),
        *((35.95, -5.6), (43.5, -9.8), (50.5, -1.0)),
    ),
}
EARTH_NM = 3440.065
"""Its radius, in nautical miles."""
EVER_GIVEN = Path(__file__).resolve().parents[3] / "shared" / "data" / "ever-given-2021-03.csv"
"""Ships around the Suez Canal in March 2021 (movingpandas-examples, data by VesselsValue)."""
EVER_GIVEN_ID = 235


@dataclass(frozen=True, slots=True)
class Position:
    """Where a ship says that it is."""

    ship: str
    company: str
    time_ms: int
    lat: float
    lon: float
    knots: float
    bound: str


def distance_nm(one: Place, other: Place) -> float:
    """The great circle between two places, in nautical miles (haversine)."""
    lat1, lon1, lat2, lon2 = map(radians, (*one, *other))
    half = sin((lat2 - lat1) / 2) ** 2 + cos(lat1) * cos(lat2) * sin((lon2 - lon1) / 2) ** 2
    return 2 * EARTH_NM * asin(sqrt(half))


def way(start: str, end: str) -> tuple[Place, ...]:
    """All points from port to port."""
    return (PORTS[start], *WAYS[start, end], PORTS[end])


def length_nm(points: Sequence[Place]) -> float:
    """Along all points."""
    return sum(distance_nm(one, other) for one, other in pairwise(points))


def place_at(points: Sequence[Place], part: float) -> Place:
    """The place at `part` (0 to 1) of the way's length."""
    left = min(max(part, 0.0), 1.0) * length_nm(points)
    for one, other in pairwise(points):
        leg = distance_nm(one, other)
        if left <= leg and leg > 0:
            share = left / leg
            return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])
        left -= leg
    return points[-1]


def voyage(ship: str, company: str, start: str, end: str, began_ms: int, hours: float, seed: int) -> Iterator[Position]:
    """A position each hour, from port to port at an even speed, with what a receiver adds: some metres and tenths."""
    points, dice = way(start, end), random.Random(seed)
    knots = length_nm(points) / hours
    steps = max(int(hours), 1)
    for step in range(steps + 1):
        lat, lon = place_at(points, step / steps)
        speed = 0.0 if step in (0, steps) else max(knots + dice.gauss(0, 0.4), 0)
        noisy = (lat + dice.gauss(0, 0.0005), lon + dice.gauss(0, 0.0005))
        time_ms = began_ms + int(step * hours / steps * 3_600_000)
        yield Position(ship, company, time_ms, round(noisy[0], 5), round(noisy[1], 5), round(speed, 1), end)


def recorded(file: Path = EVER_GIVEN, only: int | None = EVER_GIVEN_ID) -> list[Position]:
    """Real positions, with speeds by the way from the one before; `only` one ship's, or all.

    Raises:
        FileNotFoundError: the recording is not here.
    """
    found: list[Position] = []
    last: dict[str, tuple[int, Place]] = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            if only is not None and int(row["ID"]) != only:
                continue
            ship, place = f"ship-{row['ID']}", (float(row["latitude"]), float(row["longitude"]))
            when = datetime.strptime(row["ais_pos_timestamp"], "%d/%m/%Y %H:%M").replace(tzinfo=UTC)
            time_ms = int(when.timestamp() * 1000)
            before = last.get(ship)
            hours = 0.0 if before is None else (time_ms - before[0]) / 3_600_000
            knots = distance_nm(before[1], place) / hours if before is not None and hours > 0 else 0.0
            last[ship] = time_ms, place
            found.append(Position(ship, "recorded", time_ms, *place, round(knots, 1), "suez"))
    return found
