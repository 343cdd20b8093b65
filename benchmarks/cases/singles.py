"""One record a request, spread over many topics: what each request costs, as nothing is shared between records.

The worst a client can do to a broker of many topics: ten connections, each with its own part of the topics, which are
there already, in random order; eight or fifty requests under way on each. The requests are encoded beforehand. One
Python process sends all of them, and `client cpu s` beside `seconds` says how much of the time it was itself at work.
"""

from __future__ import annotations

from benchmarks.case import Case, Point
from benchmarks.cases.common import Figures, Settings, check, on, throughput, together
from benchmarks.load.launch import start
from benchmarks.systems import System

CONNECTIONS = 10
RECORD_BYTES = 100


def measure(system: System, settings: Settings) -> Figures:
    """Produce as fast as answers come, and read everything back."""
    count, records = settings["topics"], settings["records"]
    system.create_topics(count)
    names = {"format": system.topic(0).removesuffix("000000") + "{:06d}", "count": count}
    load = {
        "bootstrap": system.bootstrap,
        "topics": names,
        "records": records,
        "record_bytes": settings["record_bytes"],
        "topics_per_request": 1,
        "connections": settings["connections"],
        "in_flight": settings["in_flight"],
        "shuffle": True,
    }
    found, server = together(system, [start("raw_produce", load)])
    check(system, names, settings)
    latency = found[0]["requests_latency"]
    figures = {"p50 ms": latency["p50_ms"], "p99 ms": latency["p99_ms"], "server µs/record": 1e6 * server / records}
    return throughput(found, server) | figures


def _point(topics: int, in_flight: int, records: int, *systems: str) -> Point:
    settings = {
        "topics": topics,
        "in_flight": in_flight,
        "records": records,
        "connections": CONNECTIONS,
        "record_bytes": RECORD_BYTES,
    }
    return Point(f"{topics}-topics-{in_flight}-under-way", settings, systems)


CASE = Case(
    "singles",
    on(measure, "fairlead", "kafka"),
    points=[
        *(_point(10_000, in_flight, 100_000) for in_flight in (8, 50)),
        *(_point(100_000, in_flight, 200_000, "fairlead") for in_flight in (8, 50)),
    ],
    quick=[_point(1_000, 8, 5_000)],
)
