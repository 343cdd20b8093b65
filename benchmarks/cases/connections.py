"""How many connections are served, and what one costs: 1,000 that do nothing, and 200 that produce all the time.

An idle connection is served when it is answered at once and again after some seconds of nothing. A busy one has one
request under way at a time, of a record of 200 B to a topic of its own. Memory is that of the server without
mapped files and without the kernel's buffers, against what it was before the connections; a busy one has requests in
it. The heap of a JVM grows in steps that have little to do with connections.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from benchmarks.case import Case, CheckFailed, Point
from benchmarks.cases.common import Figures, Settings, check, on, throughput, together, topics
from benchmarks.load.launch import go, start
from benchmarks.load.raw import Connection, frame
from benchmarks.systems import Sampler, System, own_bytes
from fairlead.protocol.wire import string

API_VERSIONS, API_VERSIONS_VERSION = 18, 3
API_VERSIONS_BODY = string("benchmark", True) + string("1", True) + b"\x00"
SECONDS = 30.0
"""The longest wait for an answer."""


def measure(system: System, settings: Settings) -> Figures:
    """Idle or busy."""
    return idle(system, settings) if "idle_seconds" in settings else busy(system, settings)


def idle(system: System, settings: Settings) -> Figures:
    """Connect, be answered, wait, be answered again."""
    count = settings["connections"]
    _ask_all(system, settings["warm_connections"], 0)
    before = own_bytes(system.pids)
    began = time.monotonic()
    used, opened = _ask_all(system, count, settings["idle_seconds"])
    return {
        "served": count,
        "KB/connection": (used - before) / count / 1000,
        "connect ms": 1000 * (opened - began) / count,
    }


def _ask_all(system: System, count: int, idle_seconds: float) -> tuple[int, float]:
    """The server's memory while all are open, and when all were."""
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connections.append(connection := Connection(system.bootstrap, SECONDS))
            stack.callback(connection.close)
            _ask(connection, 0)
        opened = time.monotonic()
        time.sleep(idle_seconds)
        used = own_bytes(system.pids)
        for connection in connections:
            _ask(connection, 1)
    return used, opened


def _ask(connection: Connection, correlation: int) -> None:
    connection.send(frame(API_VERSIONS, API_VERSIONS_VERSION, correlation, API_VERSIONS_BODY))
    answer = connection.receive(correlation)
    if answer[4:6] != b"\x00\x00":
        raise CheckFailed(f"ApiVersions was answered with error {int.from_bytes(answer[4:6])}")


def busy(system: System, settings: Settings) -> Figures:
    """Produce on all of them as fast as answers come."""
    count, records = settings["connections"], settings["records"]
    system.create_topics(2 * count)
    names = topics(system, 2 * count)
    load = {
        "bootstrap": system.bootstrap,
        "record_bytes": settings["record_bytes"],
        "batch_records": settings["batch_records"],
        "in_flight": 1,
    }
    go([start("raw_produce", {**load, "topics": names[count:], "records": records // 4})])
    before = own_bytes(system.pids)
    client = start("raw_produce", {**load, "topics": names[:count], "records": records, "connections": count})
    with Sampler(lambda: system.pids, 0.5, own_bytes) as sampler:
        found, server = together(system, [client])
    latency = found[0]["requests_latency"]
    check(system, names[:count], settings)
    return {
        "served": count,
        "KB/connection": (sampler.memory_bytes_max - before) / count / 1000,
        "p50 ms": latency["p50_ms"],
        "p99 ms": latency["p99_ms"],
        "max ms": latency["max_ms"],
        **throughput(found, server),
    }


IDLE = {"connections": 1_000, "warm_connections": 100, "idle_seconds": 5}
BUSY = {"connections": 200, "record_bytes": 200, "batch_records": 1, "records": 32_000}
"""Some megabytes: what a server keeps in memory of the records themselves is to be little beside the connections."""

CASE = Case(
    "connections",
    on(measure, "fairlead", "kafka"),
    points=[Point("1000-idle", IDLE), Point("200-busy", BUSY)],
    quick=[
        Point("100-idle", {**IDLE, "connections": 100, "warm_connections": 10, "idle_seconds": 1}),
        Point("50-busy", {**BUSY, "connections": 50, "records": 10_000}),
    ],
)
