"""How long Kafka's own Java client waits for an acknowledgement, with its defaults, while there is little to do.

The rate is about a tenth of what Kafka takes at the most from one such producer if it flushes each append
(`kafka-flush`). The client is ProducerPerformance: a latency counts from when the record is given to the client, so its
linger of 5 ms is in it, and so is the warming up of its JVM: some half a second, which is to be much less than a
hundredth of the run. In three runs of a minute the 99th percentile was 14, 25 and 202 ms; how much of that it was is
not known.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import Case, Point
from benchmarks.cases.common import DEADLINE_SECONDS, Figures, Settings, on
from benchmarks.cases.java_produce import PEERS, check, settings_of
from benchmarks.load.perf_tools import produce
from benchmarks.systems import System, cpu_seconds

RATE = {"100B": 6_400, "1KB": 1_100}
SECONDS = 150


def measure(system: System, settings: Settings) -> Figures:
    """Warm up, load, check."""
    system.create_topics(2)
    load: dict[str, Any] = {"record_bytes": settings["record_bytes"], "rate": settings["rate"]}
    produce(system.bootstrap, system.topic(1), 5 * settings["rate"], **load)
    before = cpu_seconds(system.pids)
    (found,) = produce(
        system.bootstrap, system.topic(0), settings["records"], **load, deadline_seconds=DEADLINE_SECONDS
    )
    server = cpu_seconds(system.pids) - before
    check(system, system.topic(0), settings)
    return {**found.figures, "server cpu %": 100 * server / (found.ended - found.began)}


def _point(size: str, seconds: int) -> Point:
    return Point(size, settings_of(size, RATE[size] * seconds) | {"rate": RATE[size]})


CASE = Case(
    "java_latency",
    on(measure, *PEERS),
    points=[_point(size, SECONDS) for size in RATE],
    quick=[_point("1KB", 3)],
)
