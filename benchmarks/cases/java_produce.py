"""How fast records of Kafka's own Java client are taken, with its defaults: batches of 16 KB, linger 5 ms, acks=all.

The client is ProducerPerformance, of the same version as the server that is the peer. It counts from the beginning of
its client, so the points last some seconds. Fairlead acknowledges after fdatasync, `kafka` when the records are in its
page cache, `kafka-flush` after a flush of each append. A server first takes an untimed load, so that the JVM of Kafka's
has compiled what matters. At `single` each record is a request of its own, so many under way; `big` are batches of
1 MB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.case import Case, CheckFailed, Point
from benchmarks.cases.common import DEADLINE_SECONDS, Figures, Settings, on
from benchmarks.load.launch import ClientFailed, run
from benchmarks.load.perf_tools import Span, produce, seconds_of
from benchmarks.systems import System, cpu_seconds

PEERS = ("fairlead", "kafka", "kafka-flush")
RECORD_BYTES = {"100B": 100, "1KB": 1_000}
RECORDS = {"100B": 2_000_000, "1KB": 150_000}
"""Some seconds each."""
WARM_PART = 4
SINGLE: Mapping[str, Any] = {"linger.ms": 0, "batch.size": 0, "enable.idempotence": "false"}
"""No record waits for another, and a request has one batch of a partition. More than five under way are allowed to
producers without idempotence only."""


def measure(system: System, settings: Settings) -> Figures:
    """Warm up, load, check."""
    partitions = settings["partitions"]
    system.create_topics(2, partitions)
    load = {name: settings[name] for name in ("record_bytes", "config")}
    warm = settings["records"] // WARM_PART
    produce(system.bootstrap, system.topic(1), warm, **load, deadline_seconds=DEADLINE_SECONDS)
    before = cpu_seconds(system.pids)
    spans = produce(
        system.bootstrap,
        system.topic(0),
        settings["records"],
        **load,
        count=settings["producers"],
        deadline_seconds=DEADLINE_SECONDS,
    )
    server = cpu_seconds(system.pids) - before
    check(system, system.topic(0), settings)
    return throughput(spans, settings["record_bytes"], server)


def check(system: System, topic: str, settings: Settings) -> None:
    """Read everything back, untimed.

    Raises:
        CheckFailed: it is not what ProducerPerformance sends.
    """
    names = ("partitions", "records", "record_bytes", "producers")
    load = {"bootstrap": system.bootstrap, "topic": topic, **{name: settings[name] for name in names}}
    try:
        run("perf_check", load, DEADLINE_SECONDS)
    except ClientFailed as wrong:
        raise CheckFailed(str(wrong)) from wrong


def throughput(spans: list[Span], record_bytes: int, server_cpu_seconds: float) -> Figures:
    """Of tools that ran side by side."""
    seconds, records = seconds_of(spans), sum(span.records for span in spans)
    return {
        "MB/s": records * record_bytes / seconds / 1e6,
        "records/s": records / seconds,
        "seconds": seconds,
        "client cpu s": sum(span.cpu_seconds for span in spans),
        "server cpu s": server_cpu_seconds,
    }


def settings_of(
    size: str, records: int, config: Mapping[str, Any] | None = None, partitions: int = 1, producers: int = 1
) -> dict[str, Any]:
    """Of a point; `config` are the Java client's own."""
    shape = {"record_bytes": RECORD_BYTES[size], "records": records, "partitions": partitions, "producers": producers}
    return {**shape, "config": config or {}}


def _defaults(size: str, partitions: int) -> Point:
    name = f"{size}-{partitions}partition{'s' if partitions > 1 else ''}"
    return Point(name, settings_of(size, RECORDS[size], partitions=partitions))


def _side_by_side(size: str, records: int, producers: int) -> Point:
    return Point(f"{size}-{producers}producers", settings_of(size, records, producers=producers), PEERS[:2])


def _single(records: int, under_way: int) -> Point:
    config = {**SINGLE, "max.in.flight.requests.per.connection": under_way}
    return Point(f"single-1KB-{under_way}-under-way", settings_of("1KB", records, config), PEERS[:2])


def _big(compression: str) -> Point:
    config = {"batch.size": 1_000_000, "compression.type": compression}
    return Point(f"big-1KB-{compression}", settings_of("1KB", 600_000, config), PEERS[:2])


CASE = Case(
    "java_produce",
    on(measure, *PEERS),
    points=[
        *(_defaults(size, partitions) for size in RECORDS for partitions in (1, 16)),
        _side_by_side("100B", 2_000_000, 4),
        _side_by_side("1KB", 200_000, 4),
        Point("1KB-8producers-acks1", settings_of("1KB", 240_000, {"acks": 1}, producers=8), PEERS[:2]),
        _single(15_000, 1),
        _single(60_000, 50),
        _big("none"),
        _big("lz4"),
    ],
    quick=[
        Point("1KB-2partitions", settings_of("1KB", 20_000, partitions=2)),
        Point("100B-2producers", settings_of("100B", 100_000, producers=2)),
    ],
)
