"""Where ships are: ports, the ways between them, positions on a way, and the real track of a ship that got stuck.

The ways are those of real shipping lanes, as a library of sea routes gives them; they are kept here as a table, since
five ports need no library at run time.
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
    ("tokyo", "singapore"): (
        *((34.68, 139.55), (25.98, 127.84), (25.99, 127.38), (24.47, 123.98), (24.57, 123.42), (23.09, 122.12)),
        *((19.0, 120.0), (1.34, 104.48)),
    ),
    ("singapore", "sydney"): (
        *((1.34, 104.48), (1.13, 105.01), (-2.1, 108.28), (-2.32, 109.34), (-3.72, 110.15), (-4.18, 112.73)),
        *((-5.88, 119.11), (-5.67, 120.98), (-6.14, 122.47), (-7.97, 125.3), (-8.22, 126.35), (-10.45, 143.02)),
        *((-14.7, 145.4), (-16.7, 146.0), (-18.7, 147.1), (-20.82, 150.17), (-23.63, 151.82), (-24.58, 153.58)),
        *((-28.67, 153.83), (-32.48, 152.75), (-34.0, 151.5)),
    ),
    ("singapore", "london"): (
        *((1.1, 103.6), (2.0, 102.0), (5.81, 98.13), (6.47, 90.0), (5.8, 80.1), (8.76, 69.33), (11.08, 59.89)),
        *((13.3, 53.62), (12.0, 45.0), (12.4, 43.75), (13.68, 42.54), (14.51, 42.34), (17.1, 41.0), (23.6, 37.0)),
        *((28.44, 33.23), (30.32, 32.38), (31.34, 32.36), (31.7, 32.1), (34.8, 23.0), (36.4, 15.2), (37.5, 11.0)),
        *((37.2, 3.1), (35.95, -5.75), (36.8, -9.25), (40.78, -9.98), (43.0, -9.5), (44.93, -8.5), (48.67, -5.5)),
        *((50.8, 1.3), (51.47, 1.47)),
    ),
}
"""Of the shipping lanes that `searoute` 1.6 finds between these ports (Apache-2.0), the points without which a way
would be off by more than 8 nautical miles."""
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
