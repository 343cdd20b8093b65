"""Records at a steady rate, 200 B over 10 topics: from the time each was to be produced to its arrival at a consumer of
the replica. Everything is warm: replication runs, and the first seconds are not in the figures.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.replicas import MakePair, numbered, replicate_first
from benchmarks.load import launch
from benchmarks.load.latency import as_figures
from benchmarks.systems import Pair, Sampler, pair_fairlead, pair_mirrormaker

TOPICS = 10
RECORD_BYTES = 200
_WARM_UP = 1
"""Number of the producer whose records are passed over."""
LOW_LATENCY = {"target.producer.linger.ms": 0}
"""MirrorMaker 2 has this above its other tuning; its consumer waits for no more than one byte already."""


def measure(make_pair: MakePair, folder: Path, point: Point) -> Figures:
    """Start replication, then load and listen."""
    with make_pair(folder) as pair:
        replicate_first(pair, TOPICS, _WARM_UP, RECORD_BYTES)
        with Sampler(lambda: [*pair.carrier_pids, *pair.source.pids, *pair.replica.pids], 3600) as sampler:
            found = listen(pair, point.settings["rate"], point.settings["seconds"], point.settings["warm seconds"])
        return found | {"cpu %": 100 * sampler.cpu_seconds / sampler.seconds}


def listen(pair: Pair, rate: float, seconds: float, warm_seconds: float, producer: int = 0) -> dict[str, Any]:
    """Latencies at the replica under an open-loop load of a producer that has not written there yet.

    Raises:
        ClientFailed: a record did not arrive, or not once, in order, with its content.
    """
    found = launch.run(
        "open_loop",
        {
            "bootstrap": pair.source.bootstrap,
            "topics": numbered(pair.source.topic, TOPICS),
            "consume_bootstrap": pair.replica.bootstrap,
            "consume_topics": numbered(pair.replica_topic, TOPICS),
            "rate": rate,
            "seconds": warm_seconds + seconds,
            "warm_records": round(warm_seconds * rate),
            "record_bytes": RECORD_BYTES,
            "producer": producer,
        },
    )
    return as_figures(found["consumed"]) | {
        "acknowledged p50 ms": found["acknowledged"]["p50_ms"],
        "acknowledged p99 ms": found["acknowledged"]["p99_ms"],
        "client late p99 ms": found["late"]["p99_ms"],
        "records": found["records"],
    }


def _point(name: str, rate: float, seconds: int, warm_seconds: int = 10) -> Point:
    return Point(name, {"rate": rate, "seconds": seconds, "warm seconds": warm_seconds})


CASE = Case(
    name="steady",
    systems={
        HOME: partial(measure, pair_fairlead),
        "mirrormaker-tuned": partial(measure, partial(pair_mirrormaker, tuned=True, overrides=LOW_LATENCY)),
    },
    points=[
        _point("0.5-per-second", 0.5, 40),
        _point("1000-per-second", 1000, 30),
        _point("10000-per-second", 10_000, 30),
    ],
    quick=[_point("1000-per-second", 1000, 3, 2)],
)
