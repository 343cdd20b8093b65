"""Three masters of one another, 2,000 records/s at each: from when each was to be produced to its arrival at another.

The half of a site's topics is consumed at one of the others, the other half at the second, so that all six ways are in
the figures; those are of the way that is worst. At the end all three sites hold the same, record by record.
The point `one-way` is the same load at one site with one link.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

from tests.support.records import differences, read_all
from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.cases.replicas import Arrivals
from benchmarks.load import launch
from benchmarks.systems import Sampler, pair_fairlead
from benchmarks.systems.meshes import TOPICS, Mesh, mesh_fairlead, mesh_mirrormaker

RECORD_BYTES = 200
_WARM_UP = 1
"""Number of the producer whose records are passed over."""


@dataclass(frozen=True)
class Way:
    """Topics that are written at one server and read at another."""

    topics: list[str]
    source: str
    replica: str


def measure_mesh(make: Any, folder: Path, point: Point) -> Figures:
    """Warm up, load, compare."""
    with make(folder) as mesh:
        for number, site in enumerate(mesh.sites):
            _write_first(site.bootstrap, mesh.topics(number))
        with ExitStack() as stack:
            looks = [stack.enter_context(closing(Arrivals(s.bootstrap, s.topic, 3 * TOPICS))) for s in mesh.sites]
            wait_until(lambda: all(look.count() >= 3 * TOPICS for look in looks), "all topics are everywhere", 180)
        pids = [pid for site in mesh.sites for pid in site.pids]
        with Sampler(lambda: [*mesh.carrier_pids, *pids], 3600) as sampler:
            figures = _listen([_way(mesh, here, there) for here, there in permutations(range(3), 2)], point)
        _check(mesh)
        return figures | {"cpu %": 100 * sampler.cpu_seconds / sampler.seconds}


def _way(mesh: Mesh, here: int, there: int) -> Way:
    half = slice(0, TOPICS // 2) if (there - here) % 3 == 1 else slice(TOPICS // 2, TOPICS)
    return Way(mesh.topics(here)[half], mesh.sites[here].bootstrap, mesh.sites[there].bootstrap)


def measure_one_way(folder: Path, point: Point) -> Figures:
    """One link, and the load of one site."""
    with pair_fairlead(folder) as pair:
        pair.source.create_topics(TOPICS)
        topics = [pair.source.topic(number) for number in range(TOPICS)]
        pair.start_replication(TOPICS)
        _write_first(pair.source.bootstrap, topics)
        with closing(Arrivals(pair.replica.bootstrap, pair.replica_topic, TOPICS)) as look:
            wait_until(lambda: look.count() >= TOPICS, "all topics are at the replica", 180)
        halves = topics[: TOPICS // 2], topics[TOPICS // 2 :]
        return _listen([Way(half, pair.source.bootstrap, pair.replica.bootstrap) for half in halves], point)


def measure(folder: Path, point: Point) -> Figures:
    """Fairlead's."""
    return (
        measure_one_way(folder, point) if point.settings["sites"] == 2 else measure_mesh(mesh_fairlead, folder, point)
    )


def _write_first(bootstrap: str, topics: list[str]) -> None:
    arguments = {"records": len(topics), "record_bytes": RECORD_BYTES, "producer": _WARM_UP}
    launch.run("producer", {"bootstrap": bootstrap, "topics": topics, **arguments})


def _listen(ways: list[Way], point: Point) -> dict[str, Any]:
    """All at once; each record is looked for, once, in order, with its content."""
    rate, seconds, warm = (point.settings[name] for name in ("rate", "seconds", "warm seconds"))
    load = {"rate": rate / 2, "seconds": warm + seconds, "warm_records": round(warm * rate / 2)}
    clients = [
        launch.start(
            "open_loop",
            {
                **load,
                "bootstrap": way.source,
                "topics": way.topics,
                "consume_bootstrap": way.replica,
                "record_bytes": RECORD_BYTES,
                "producer": 0,
            },
        )
        for way in ways
    ]
    found = launch.go(clients)
    figures = {
        f"{name} ms": max(each["consumed"][f"{key}_ms"] for each in found)
        for name, key in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p99_9"), ("max", "max"))
    }
    return figures | {
        "acknowledged p99 ms": max(each["acknowledged"]["p99_ms"] for each in found),
        "client late p99 ms": max(each["late"]["p99_ms"] for each in found),
        "records": sum(each["records"] for each in found),
    }


def _check(mesh: Mesh) -> None:
    """All is everywhere, though it was consumed at one other site only."""
    topics = [topic for number in range(3) for topic in mesh.topics(number)]
    servers = [site.bootstrap for site in mesh.sites]
    with suppress(TimeoutError):  # what follows says what differs
        wait_until(lambda: len({len(read_all(each, topics, prefix="")) for each in servers}) == 1, "all is there", 60)
    first, *others = [read_all(each, topics, prefix="") for each in servers]
    if wrong := [line for other in others for line in differences(first, other)]:
        raise CheckFailed(f"{len(wrong)} records differ: {wrong[:3]}")


def _point(name: str, sites: int, seconds: int, warm_seconds: int, *systems: str) -> Point:
    settings = {"sites": sites, "rate": 2000, "seconds": seconds, "warm seconds": warm_seconds}
    return Point(name, settings, systems)


MIRRORMAKER = "mirrormaker-tuned"
CASE = Case(
    name="mesh",
    systems={HOME: measure, MIRRORMAKER: partial(measure_mesh, mesh_mirrormaker)},
    points=[
        _point("one-way", 2, 30, 10, HOME),
        _point("three-sites", 3, 30, 10, HOME, MIRRORMAKER),
    ],
    quick=[_point("three-sites", 3, 4, 3, HOME)],
)
