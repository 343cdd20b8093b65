"""Ships in port write containers' readings, a topic a container; the port sends them on to an office and headquarters.

How many records a second come to headquarters until lag grows: the rate is doubled until headquarters is more than a
second behind when a step ends, twice, since one stall is no lag that grows, or the ships can write no more on this
machine. And how long an alert takes, from the moment when it was to be written on board to its arrival in the port, the
office and headquarters, while all ships write at the first rate; the worst of the three is in the figures. These three
are every cluster ashore here; the demo has seven. The alert is a plain record that the load program writes on board:
the time of the Spark job that finds out about a lost container, in the demo, is not in it. Each ship, and the port, has
a replicator of its own, all on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from math import ceil, inf
from pathlib import Path
from typing import Any

from tests.support.sites import Site, sites
from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.cases.replicas import Arrivals
from benchmarks.load import launch
from benchmarks.systems.common import create_topics

PORT, OFFICE, HEADQUARTERS = "singapore", "tokyo", "losangeles"
ASHORE = (PORT, OFFICE, HEADQUARTERS)
CONTAINERS, ALERTS = "/containers", "/alerts"
RECORD_BYTES = 250
"""About that of a reading of the demo."""
ALERTS_PER_SECOND = 5
PER_PROGRAM_MAX = 5_000
"""Records a second of one load program; a ship has as many of them as it needs."""
TOPICS_PER_PROGRAM_MAX = 1_000
"""Its client's time for a record grows with its topics: with 10,000 it sends 1,500 records a second at the most."""
KEPT = 0.95
"""The part of a rate that was written at least, or the machine had no more to give."""
BEHIND_SECONDS = 1.0
TRIES = 2
"""Of each rate."""
_WAIT_SECONDS = 120


class Fleet:
    """Ships, each with as many containers, linked to the port."""

    def __init__(self, ships: Sequence[Site], ashore: Sequence[Site], containers: int) -> None:
        self.ships = ships
        self.ashore = {site.name: site for site in ashore}
        self._containers = containers
        self._producers = 0
        self.written = 0
        self.kept = 1.0
        """The part that was written of the rate asked for last."""

    def link(self) -> None:
        """Streams, links, topics; all of it is known at headquarters."""
        for stream in (CONTAINERS, ALERTS):
            for site in (*self.ships, self.ashore[PORT]):
                site.cli("stream", "create", "-path", f"/mapr/{site.name}{stream}")
            for ship in self.ships:
                _link(ship, self.ashore[PORT], stream, "-multimaster", "true")
            for office in (OFFICE, HEADQUARTERS):
                _link(self.ashore[PORT], self.ashore[office], stream)
        for number, ship in enumerate(self.ships):
            create_topics(ship.kafka, [_topic(number, each) for each in range(self._containers)])
        create_topics(self.ships[0].kafka, [_alerts(name) for name in ASHORE])
        self.load(self._containers * len(self.ships), 1)
        for name in ASHORE:
            wait_until(lambda: self.arrived(name) == self.written, f"every topic is in {name}", _WAIT_SECONDS)  # noqa: B023

    def load(self, rate: float, seconds: float, others: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
        """All ships write so many records a second together; what the `others`, which run beside it, say."""
        parts = [(ship, containers) for ship in range(len(self.ships)) for containers in _slices(self._containers)]
        each = rate / len(parts)
        programs = ceil(each / PER_PROGRAM_MAX)
        loads = [self._load(*part, each / programs, seconds) for part in parts for _ in range(programs)]
        found = launch.go([launch.start("open_loop", arguments) for arguments in (*loads, *others)])
        mine = found[: len(loads)]
        self.written += sum(int(said["records"]) for said in mine)
        self.kept = sum(float(said["achieved_rate"]) for said in mine) / rate
        return found[len(loads) :]

    def _load(self, number: int, containers: range, rate: float, seconds: float) -> dict[str, Any]:
        self._producers += 1
        name = f"{CONTAINERS}:ship{number}-{{:06d}}"
        return {
            "bootstrap": self.ships[number].kafka,
            "topics": {"format": name, "first": containers.start, "count": len(containers)},
            "rate": rate,
            "seconds": seconds,
            "record_bytes": RECORD_BYTES,
            "producer": self._producers,
            "linger_ms": 5,
        }

    def alerts(self, seconds: float) -> list[dict[str, Any]]:
        """Loads of alerts, one for each cluster ashore, which is where they are read."""
        common = {"bootstrap": self.ships[0].kafka, "rate": ALERTS_PER_SECOND, "seconds": seconds}
        return [
            {**common, "topics": [_alerts(name)], "consume_bootstrap": site.kafka, "fetch_wait_ms": 100}
            for name, site in self.ashore.items()
        ]

    def arrived(self, name: str) -> int:
        """Readings in a cluster ashore."""
        count = 0
        for number in range(len(self.ships)):
            with closing(self._look(name, number)) as look:
                count += look.count()
        return count

    def _look(self, name: str, ship: int) -> Arrivals:
        return Arrivals(self.ashore[name].kafka, lambda each: _topic(ship, each), self._containers)


def _link(source: Site, replica: Site, stream: str, *more: str) -> None:
    pair = ("-path", f"/mapr/{source.name}{stream}", "-replica", f"/mapr/{replica.name}{stream}")
    source.cli("stream", "replica", "autosetup", *pair, "-useexistingreplica", "true", *more)


def _slices(containers: int) -> list[range]:
    """Equal parts for the load programs."""
    size = ceil(containers / ceil(containers / TOPICS_PER_PROGRAM_MAX))
    return [range(first, min(first + size, containers)) for first in range(0, containers, size)]


def _topic(ship: int, container: int) -> str:
    return f"{CONTAINERS}:ship{ship}-{container:06d}"


def _alerts(office: str) -> str:
    return f"{ALERTS}:for-{office}"


@contextmanager
def fleet(folder: Path, ships: int, containers: int) -> Iterator[Fleet]:
    """Clusters, linked, which all end."""
    with ExitStack() as stack:
        names = [*(f"ship{number}" for number in range(ships)), *ASHORE]
        started = stack.enter_context(sites(folder, *names))
        made = Fleet(started[:ships], started[ships:], containers)
        made.link()
        yield made


def measure(folder: Path, point: Point) -> Figures:
    """Alerts under the first rate, then doubled rates until lag grows."""
    settings = point.settings
    with fleet(folder, settings["ships"], settings["containers"]) as made:
        said = made.load(settings["rate"], settings["seconds"], made.alerts(settings["seconds"]))
        alerts = [each["consumed"] for each in said]
        figures = {f"alert {name} ms": max(each[f"{name}_ms"] for each in alerts) for name in ("p50", "p99", "max")}
        return {**figures, **_until_lag_grows(made, settings)}


def _until_lag_grows(made: Fleet, settings: Any) -> Figures:
    rate, held, lag = float(settings["rate"]), 0.0, 0.0
    while rate <= settings["rate max"]:
        tries = (_seconds_behind(made, rate, settings["seconds"]) for _ in range(TRIES))
        behind = next((seconds for seconds in tries if seconds <= BEHIND_SECONDS), None)
        if behind is None:
            break
        rate, held, lag = rate * 2, rate, behind
    _caught_up(made)
    return {"records/s": held, "behind s": lag, "records": made.written}


def _seconds_behind(made: Fleet, rate: float, seconds: float) -> float:
    """How far headquarters is behind when a step at this rate ends; without end, if the ships could write no more."""
    _caught_up(made)
    made.load(rate, seconds)
    return inf if made.kept < KEPT else (made.written - made.arrived(HEADQUARTERS)) / rate


def _caught_up(made: Fleet) -> None:
    """Everywhere ashore is what ships have written, and no more.

    Raises:
        CheckFailed: it does not come, or there is more.
    """
    for name in ASHORE:
        try:
            wait_until(lambda: made.arrived(name) >= made.written, f"all is in {name}", _WAIT_SECONDS)  # noqa: B023
        except TimeoutError as error:
            raise CheckFailed(str(error)) from error
        if (found := made.arrived(name)) != made.written:
            raise CheckFailed(f"{found:,} records in {name} of {made.written:,} that were written")


def _point(ships: int, containers: int, rate: int, rate_max: int, seconds: float) -> Point:
    """`containers` of each ship."""
    settings = {"ships": ships, "containers": containers, "rate": rate, "rate max": rate_max, "seconds": seconds}
    return Point(f"{ships}-ship{'s' if ships > 1 else ''}-{ships * containers}-containers", settings)


CASE = Case(
    name="shipping",
    systems={HOME: measure},
    points=[
        _point(1, 100, 500, 64_000, 15),
        _point(1, 10_000, 500, 64_000, 15),
        _point(3, 1000, 500, 64_000, 15),
    ],
    quick=[_point(1, 20, 200, 200, 3)],
)
