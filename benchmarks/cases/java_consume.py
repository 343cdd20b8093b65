"""How fast Kafka's own Java client reads with its defaults what it has just produced with its defaults.

The client is ConsumerPerformance, alone or as three members of a group. Its rate counts from when it has partitions, so
how long a group waits for members is not in it. Both wait as long as Kafka does by default, so that three JVMs that
start at once are in the first generation: one that comes later is noticed with a heartbeat, which is not the question
here. Everything is read once more afterwards and checked.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from benchmarks.case import Case, Point
from benchmarks.cases.common import DEADLINE_SECONDS, Figures, Settings, on, on_fresh
from benchmarks.cases.java_produce import WARM_PART, check, settings_of, throughput
from benchmarks.cases.produce import PAIR
from benchmarks.load.perf_tools import consume, produce
from benchmarks.systems import System, cpu_seconds, fairlead

KAFKA_REBALANCE_DELAY_MS = 3_000
"""Its group.initial.rebalance.delay.ms."""


def measure(system: System, settings: Settings) -> Figures:
    """Fill, warm up, read and count, then read again and check."""
    system.create_topics(2, settings["partitions"])
    topic, other = system.topic(0), system.topic(1)
    few = settings["records"] // WARM_PART
    for filled, records in ((other, few), (topic, settings["records"])):
        produce(system.bootstrap, filled, records, settings["record_bytes"], deadline_seconds=DEADLINE_SECONDS)
    consume(system.bootstrap, other, few, deadline_seconds=DEADLINE_SECONDS)
    before = cpu_seconds(system.pids)
    spans = consume(system.bootstrap, topic, settings["records"], settings["consumers"], DEADLINE_SECONDS)
    server = cpu_seconds(system.pids) - before
    check(system, topic, settings)
    return throughput(spans, settings["record_bytes"], server)


def _waiting(folder: Path) -> AbstractContextManager[System]:
    return fairlead(folder, settings={"initial_rebalance_delay_ms": KAFKA_REBALANCE_DELAY_MS})


def _point(size: str, records: int, consumers: int) -> Point:
    name = f"{size}-{consumers}consumer{'s' if consumers > 1 else ''}"
    return Point(name, settings_of(size, records, partitions=3) | {"consumers": consumers})


CASE = Case(
    "java_consume",
    {**on(measure, *PAIR), "fairlead": partial(on_fresh, _waiting, measure)},
    points=[
        _point(size, records, consumers)
        for size, records in (("1KB", 800_000), ("100B", 5_000_000))
        for consumers in (1, 3)
    ],
    quick=[_point("1KB", 40_000, 2)],
)
