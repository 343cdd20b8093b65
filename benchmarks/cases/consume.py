"""How fast records are read: from memory right after they were produced, and after a restart with a cold cache.

The client fetches as fast as it can, the same for both: its queue is deep, and it asks again after 1 ms where it would
wait a second by default once the queue was full, which would hide the server. Before the measured records a server is
asked for those of another topic, so that the JVM, which after the restart is a new one, has compiled what matters.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.case import Case, Point
from benchmarks.cases.common import (
    DEADLINE_SECONDS,
    Figures,
    Settings,
    check,
    on,
    producers,
    shares,
    throughput,
    together,
    topics,
)
from benchmarks.cases.produce import PAIR, RECORD_BYTES, RECORDS, WARM_PART
from benchmarks.load.launch import Client, go, start
from benchmarks.systems import System

CLIENT = {
    "fetch.queue.backoff.ms": 1,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 512_000,
}


def measure(system: System, settings: Settings) -> Figures:
    """Fill, warm up, read and count, then read again and check."""
    count = settings["topics"]
    system.create_topics(count + 1)
    names, other = topics(system, count), [system.topic(count)]
    few = {**settings, "records": settings["records"] // WARM_PART}
    for filled, load in ((other, few), (names, settings)):
        go(producers(system.bootstrap, filled, load), DEADLINE_SECONDS)
    if settings["cold"]:
        system.restart()
    go([_consumer(system, other, few, few["records"])], DEADLINE_SECONDS)
    if settings["cold"]:
        system.drop_caches()
    parts = shares(names, settings["consumers"])
    each = settings["records"] // count
    loaded = together(system, [_consumer(system, part, settings, each * len(part)) for part in parts])
    check(system, names, settings)
    return throughput(*loaded)


def _consumer(system: System, names: Sequence[str], settings: Settings, records: int) -> Client:
    load = {"record_bytes": settings["record_bytes"], "records": records, "config": CLIENT}
    return start("consumer", {"bootstrap": system.bootstrap, "topics": list(names), **load})


def _point(size: str, topic_count: int, count: int, cold: bool) -> Point:
    plural = "s" if count > 1 else ""
    name = f"{size}-{topic_count}topic{'s' if topic_count > 1 else ''}-{count}consumer{plural}"
    settings = {"record_bytes": RECORD_BYTES[size], "records": RECORDS[size], "topics": topic_count}
    return Point(f"{name}-{'cold' if cold else 'memory'}", {**settings, "consumers": count, "cold": cold})


QUICK = {"record_bytes": 1_000, "records": 40_000, "topics": 4, "consumers": 2}

CASE = Case(
    "consume",
    on(measure, *PAIR),
    points=[
        *(
            _point(*shape, cold)
            for shape in (("1KB", 1, 1), ("100B", 1, 1), ("10KB", 1, 1), ("1KB", 100, 1), ("1KB", 100, 4))
            for cold in (False, True)
        ),
        _point("100B", 100, 1, False),
        _point("1KB", 4, 4, False),
    ],
    quick=[Point(f"1KB-4topics-2consumers-{name}", {**QUICK, "cold": name == "cold"}) for name in ("memory", "cold")],
)
