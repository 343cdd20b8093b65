"""How long a produced record takes to be acknowledged: 1,000 records/s of 1 KB, linger 0, one record after the other.

The load is open-loop: latencies count from the moment when a record was due, whatever the server does. Fairlead
acknowledges after fdatasync, `kafka` when the record is in its page cache, `kafka-flush` after a flush of each append
(log.flush.interval.messages=1, which flush.messages=1 is for a topic).
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import Case, Point
from benchmarks.cases.common import Figures, Settings, check, on, together, topics
from benchmarks.load.latency import as_figures
from benchmarks.load.launch import start
from benchmarks.systems import System

LOAD: dict[str, Any] = {"record_bytes": 1_000, "rate": 1_000, "warm_seconds": 5, "seconds": 20}


def measure(system: System, settings: Settings) -> Figures:
    """Load, check."""
    system.create_topics(settings["topics"])
    names = topics(system, settings["topics"])
    rate, seconds = settings["rate"], settings["warm_seconds"] + settings["seconds"]
    load = {"bootstrap": system.bootstrap, "topics": names, "record_bytes": settings["record_bytes"]}
    warm = rate * settings["warm_seconds"]
    client = start("open_loop", {**load, "rate": rate, "seconds": seconds, "warm_records": warm})
    (found,), server = together(system, [client])
    check(system, names, settings, rate * seconds)
    return as_figures(found["acknowledged"]) | {
        "client late p99 ms": found["late"]["p99_ms"],
        "server cpu %": 100 * server / found["seconds"],
    }


CASE = Case(
    "latency",
    on(measure, "fairlead", "kafka", "kafka-flush"),
    points=[Point("1topic", {**LOAD, "topics": 1}), Point("100topics", {**LOAD, "topics": 100})],
    quick=[Point("10topics", {**LOAD, "topics": 10, "warm_seconds": 1, "seconds": 2})],
)
