"""How fast records are taken: acks=all, uncompressed, from the first produce to the last acknowledgement.

Fairlead acknowledges after fdatasync, Kafka when the records are in its page cache. Each server first takes an untimed
load to a topic of its own, a quarter of the measured one, so that the JVM has compiled what matters. The system
`client` is librdkafka with its own mock broker in the same process: what the client can do at most, with the broker's
work on top. At the `raw` points the requests were encoded before, 1 MB each and 8 under way, which leaves the server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.case import Case, Point
from benchmarks.cases.common import Figures, Settings, check, on, producers, throughput, together, topics
from benchmarks.load.launch import Client, go, start
from benchmarks.systems import System

RECORDS = {"100B": 5_000_000, "1KB": 1_500_000, "10KB": 150_000}
"""Some seconds each."""
RECORD_BYTES = {"100B": 100, "1KB": 1_000, "10KB": 10_000}
RAW_BATCH = {"100B": 9_000, "1KB": 1_000}
"""Records in a batch of just less than 1 MB, the most that Kafka takes by default."""
WARM_PART = 4
PAIR = ("fairlead", "kafka")


def measure(system: System, settings: Settings) -> Figures:
    """Warm up, load, check."""
    count = settings["topics"]
    system.create_topics(count + 1)
    names = topics(system, count)
    warm = {**settings, "records": settings["records"] // WARM_PART, "producers": 1}
    go(_clients(system.bootstrap, [system.topic(count)], warm))
    loaded = together(system, _clients(system.bootstrap, names, settings))
    check(system, names, settings)
    return throughput(*loaded)


def client_alone(_folder: Path, point: Point) -> Figures:
    """The same program without a server."""
    return throughput(*together(None, producers("mock", ["t000000"], point.settings)))


def _clients(bootstrap: str, names: list[str], settings: Settings) -> list[Client]:
    batch = settings.get("raw_batch_records")
    if not batch:
        return producers(bootstrap, names, settings)
    load = {"record_bytes": settings["record_bytes"], "records": settings["records"] // batch * batch}
    return [start("raw_produce", {**load, "bootstrap": bootstrap, "topics": names, "batch_records": batch})]


def _point(size: str, topic_count: int, count: int, *systems: str) -> Point:
    plural = "s" if count > 1 else ""
    name = f"{size}-{topic_count}topic{'s' if topic_count > 1 else ''}-{count}producer{plural}"
    return Point(name, _settings(size, topics=topic_count, producers=count), (*PAIR, *systems))


def _raw(size: str) -> Point:
    batch = RAW_BATCH[size]
    settings = _settings(size, topics=1, raw_batch_records=batch)
    return Point(f"raw-{size}-1topic", {**settings, "records": settings["records"] // batch * batch}, PAIR)


def _settings(size: str, **more: int) -> dict[str, Any]:
    return {"record_bytes": RECORD_BYTES[size], "records": RECORDS[size], **more}


CASE = Case(
    "produce",
    {**on(measure, *PAIR, "kafka-tuned"), "client": client_alone},
    points=[
        _point("1KB", 1, 1, "kafka-tuned", "client"),
        _point("100B", 1, 1, "client"),
        _point("10KB", 1, 1, "client"),
        _point("1KB", 100, 1),
        _point("1KB", 1, 4),
        _point("100B", 100, 1),
        _point("1KB", 100, 4),
        _raw("1KB"),
        _raw("100B"),
    ],
    quick=[
        Point("1KB-10topics-2producers", {"record_bytes": 1_000, "records": 40_000, "topics": 10, "producers": 2}),
        Point("raw-1KB-1topic", {"record_bytes": 1_000, "records": 40_000, "topics": 1, "raw_batch_records": 1_000}),
    ],
)
