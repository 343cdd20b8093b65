"""What very many topics of one stream cost: memory, idling, a restart, producing, metadata, a link.

A record goes to each topic, the server comes to rest, is looked at, and is started again. Then records go to (up to)
1,000 of the topics, in as many batches and requests whatever the number of topics; and where there are very many,
one to each of up to 100,000 in random order, as fast as it goes and at a fixed rate. The topics have bare names, so
they are those of Fairlead's default stream, and a client may ask for all of them.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from tests.support.sites import Site, descendants
from tests.support.waiting import wait_until

from benchmarks.case import Case, CheckFailed, Figures, Point
from benchmarks.load.content import Content
from benchmarks.load.launch import run
from benchmarks.load.raw import (
    METADATA,
    METADATA_VERSION,
    PRODUCE,
    PRODUCE_VERSION,
    BatchForm,
    Connection,
    check_produce_answer,
    frame,
    metadata_body,
    produce_body,
)
from benchmarks.systems import System, cpu_seconds, fairlead, kafka, pair_fairlead, rss_bytes
from benchmarks.systems.fairlead import FairleadPair
from fairlead.protocol.wire import string

RECORD_BYTES = 100
NAME = "t{:06d}"
WRITTEN = 1000
"""So many topics, or all, are written after the restart."""
BATCH_RECORDS = 100
REQUEST_BATCHES = 10
SPREAD_TOPICS = 100_000
SPREAD_RATE = 20_000
"""records/s, 100 topics in a request."""
FILL, FIRST, PRODUCED, CLOSED, OPEN, TICKS = producers = range(6)
"""The producer numbers that records carry."""
_MADE_AT_ONCE = 10_000
_REST_SECONDS = 2.0
_MERGED_SECONDS = 12.0
"""Longer than the 10 s after which a shard looks for something to merge: what was written is merged then."""
_REST_CORES = 0.15
"""A JVM that rests takes up to a tenth."""
_SETTLE_SECONDS = 90
_LINK_SECONDS = 300
_CLIENT_SECONDS = 300


def measure_fairlead(folder: Path, point: Point) -> Figures:
    """Topics are made by asking for them, as clients do that write a new one."""
    with ExitStack() as stack:
        pair = stack.enter_context(pair_fairlead(folder, warm=False)) if point.settings.get("link") else None
        system = pair.source if pair else stack.enter_context(fairlead(folder))
        _make_by_asking(system.bootstrap, point.settings["topics"])
        figures, records = _measure(system, point)
        return figures | _replicate(pair, point, records) if pair else figures


def measure_kafka(folder: Path, point: Point) -> Figures:
    """Topics are made by the admin interface."""
    with kafka(folder) as system:
        system.create_topics(point.settings["topics"])
        return _measure(system, point)[0]


def _make_by_asking(bootstrap: str, count: int) -> None:
    connection = Connection(bootstrap, _CLIENT_SECONDS)
    for number, first in enumerate(range(0, count, _MADE_AT_ONCE)):
        names = [string(NAME.format(topic), True) for topic in range(first, min(count, first + _MADE_AT_ONCE))]
        connection.send(frame(METADATA, METADATA_VERSION, number, metadata_body(names)))
        connection.receive(number)
    connection.close()


def _measure(system: System, point: Point) -> tuple[dict[str, Any], int]:
    """The figures, and how many records there are."""
    topics, settings = point.settings["topics"], point.settings
    filled = _produce(system, FILL, topics, topics, topics_per_request=min(topics, 1000), encode_ahead=False)
    _settle(system, min(_MERGED_SECONDS, settings["idle_seconds"]))
    figures: dict[str, Any] = {
        "fill records/s": filled["records"] / filled["seconds"],
        "memory MB": rss_bytes(system.pids) / 1e6,
        "idle cpu %": 100 * _cores(system.pids, settings["idle_seconds"]),
        "restart s": system.restart() + _first_record(system.bootstrap),
        "stop s": system.stop_seconds,
    }
    _settle(system)
    shape = {"batch_records": BATCH_RECORDS, "topics_per_request": REQUEST_BATCHES}
    produced = _produce(system, PRODUCED, min(topics, WRITTEN), settings["batches"] * BATCH_RECORDS, **shape)
    figures["produce records/s"] = produced["records"] / produced["seconds"]
    records = filled["records"] + 1 + produced["records"]
    if settings.get("spread_records"):
        found, more = _spread(system, min(topics, SPREAD_TOPICS), settings["spread_records"])
        figures |= found
        records += more
    # What was written is merged, which a shard looks for every 10 s, and whom that delays is not Metadata's doing.
    _settle(system, settings["idle_seconds"])
    asked = run("raw_metadata", _client(system) | {"topic": NAME.format(0), "producer": TICKS}, _CLIENT_SECONDS)
    figures |= {
        "metadata delay ms": max(asked["versions"]["max_ms"], asked["produced"]["max_ms"]),
        "produce ms without metadata": asked["quiet"]["max_ms"],
        "metadata s": asked["answer_seconds"],
    }
    figures["memory after load MB"] = rss_bytes(system.pids) / 1e6
    records += asked["records"]
    if not settings.get("link"):
        _check(system, NAME, topics, records)
    return figures, records


def _client(system: System) -> dict[str, Any]:
    return {"bootstrap": system.bootstrap, "record_bytes": RECORD_BYTES, "deadline_seconds": _CLIENT_SECONDS}


def _produce(system: System, producer: int, topics: int, records: int, **more: Any) -> dict[str, Any]:
    names = {"format": NAME, "count": topics}
    given = {"topics": names, "records": records, "producer": producer, **more}
    return run("raw_produce", _client(system) | given, _CLIENT_SECONDS)


def _spread(system: System, topics: int, records: int) -> tuple[dict[str, float], int]:
    shape = {"topics_per_request": 100, "shuffle": True}
    closed = _produce(system, CLOSED, topics, records, **shape)
    opened = _produce(system, OPEN, topics, records, **shape, rate=SPREAD_RATE)
    found = {
        "spread records/s": closed["records"] / closed["seconds"],
        "spread p50 ms": opened["requests_latency"]["p50_ms"],
        "spread p99 ms": opened["requests_latency"]["p99_ms"],
    }
    return found, closed["records"] + opened["records"]


def _first_record(bootstrap: str) -> float:
    """Seconds until a record is acknowledged."""
    name = string(NAME.format(0), True)
    values = Content(RECORD_BYTES).values(FIRST, 0, 0)[None]
    batch = BatchForm(1, RECORD_BYTES).build(values, int(1000 * time.time()))
    began = time.monotonic()
    connection = Connection(bootstrap, _CLIENT_SECONDS)
    connection.send(frame(PRODUCE, PRODUCE_VERSION, 0, produce_body([name], batch)))
    check_produce_answer(connection.receive(0), [name])
    connection.close()
    return time.monotonic() - began


def _check(system: System, name: str, topics: int, records: int) -> dict[str, Any]:
    """Every record is there once, with its content."""
    more = {"topics": {"format": name, "count": topics}, "records": records, "producers": list(producers)}
    return run("raw_consume", _client(system) | more, _CLIENT_SECONDS)


def _settle(system: System, rest_seconds: float = _REST_SECONDS) -> None:
    """Return when the server has hardly worked for so long."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while _cores(system.pids, rest_seconds) > _REST_CORES and time.monotonic() < deadline:
        pass


def _cores(pids: Iterable[int], seconds: float) -> float:
    """Processor time per time."""
    pids = list(pids)
    before, began = cpu_seconds(pids), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pids) - before) / (time.monotonic() - began)


# The link


def _replicate(pair: FairleadPair, point: Point, records: int) -> dict[str, float]:
    """Link the stream; when the replica has all, check it there, and listen to the link at rest."""
    source, replica = pair.source.site, pair.replica.site
    began = time.monotonic()
    paths = ("-path", f"/mapr/{source.name}/default", "-replica", f"/mapr/{replica.name}/copy")
    source.cli("stream", "replica", "autosetup", *paths)
    wait_until(lambda: _in_sync(source), "the replica has all", _LINK_SECONDS, 1)
    seconds = time.monotonic() - began
    found = _check(pair.replica, "/copy:" + NAME, point.settings["topics"], records)
    if found["topic_records_min"] < 1:
        raise CheckFailed("a topic of the replica is empty")
    _settle(pair.replica)
    senders = {source.pid, *descendants(source.pid), *pair.carrier_pids}
    idle = point.settings["idle_seconds"]
    return {
        "replication s": seconds,
        "replicated topics": found["topics"],
        "replica memory MB": rss_bytes([replica.pid]) / 1e6,
        "idle link B/s": bytes_between(senders, {replica.pid}, idle) / idle,
    }


def _in_sync(source: Site) -> bool:
    try:
        return source.in_sync("/default")
    except httpx.TimeoutException:  # it is busy
        return False


def bytes_between(some: set[int], others: set[int], seconds: float) -> int:
    """What TCP connections between processes carry, both ways; one that lives less than half a second may be missed."""
    first = last = _carried(some, others)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.5)
        last = last | _carried(some, others)
    return sum(last.values()) - sum(first.values())


def _carried(some: set[int], others: set[int]) -> dict[tuple[str, str], int]:
    """Payload bytes so far of each connection, by the addresses of its end among `some`."""
    text = subprocess.run(["ss", "-tinpOH"], capture_output=True, text=True, check=True).stdout
    ends = {}
    for line in text.splitlines():
        fields = line.split()
        pids = {int(part.split(",")[0]) for part in line.split("pid=")[1:]}
        numbers = dict(field.split(":") for field in fields if field.startswith(("bytes_acked:", "bytes_received:")))
        ends[fields[3], fields[4]] = (pids, sum(map(int, numbers.values())))
    nobody: tuple[set[int], int] = (set(), 0)
    return {
        (near, far): count
        for (near, far), (pids, count) in ends.items()
        if pids & some and ends.get((far, near), nobody)[0] & others
    }


def _point(topics: int, *systems: str, once: bool = False, **more: Any) -> Point:
    settings = {"topics": topics, "idle_seconds": 20, "batches": 20_000, **more}
    return Point(f"{topics}-topics", settings, systems, once)


CASE = Case(
    "topics",
    {"fairlead": measure_fairlead, "kafka": measure_kafka},
    points=(
        _point(10),
        _point(10_000),
        _point(100_000, "fairlead", spread_records=200_000),
        _point(1_000_000, "fairlead", once=True, spread_records=200_000, link=True),
    ),
    quick=(_point(5_000, idle_seconds=2, batches=2_000, spread_records=20_000),),
    limit_seconds=1200,
)
