"""What the cases of one server share: which servers there are, loads with their figures, the check of all records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.case import CheckFailed, Measure, Point
from benchmarks.load.launch import Client, ClientFailed, go, run, start
from benchmarks.systems import System, cpu_seconds, fairlead, kafka
from benchmarks.systems.kafka import FLUSH

T = TypeVar("T")
DEADLINE_SECONDS = 240
TUNED_HEAP = ("-Xmx6G", "-Xms6G")
TUNED: Mapping[str, Any] = {
    "num.network.threads": 8,
    "num.io.threads": 16,
    "socket.send.buffer.bytes": 1_048_576,
    "socket.receive.buffer.bytes": 1_048_576,
}
"""With the heap, what Apache Kafka's documentation has for production: 6 GB, more threads, larger socket buffers."""

Settings = Mapping[str, Any]
Figures = dict[str, Any]

OPEN: Mapping[str, Callable[[Path], AbstractContextManager[System]]] = {
    "fairlead": fairlead,
    "kafka": kafka,
    "kafka-tuned": lambda folder: kafka(folder, TUNED, "kafka-tuned", TUNED_HEAP),
    "kafka-flush": lambda folder: kafka(folder, FLUSH, "kafka-flush"),
}


def on(measure: Callable[[System, Settings], Figures], *names: str) -> dict[str, Measure]:
    """The same question to each of these servers, started for it."""
    return {name: partial(on_fresh, OPEN[name], measure) for name in names}


def on_fresh(
    opened: Callable[[Path], AbstractContextManager[System]],
    measure: Callable[[System, Settings], Figures],
    folder: Path,
    point: Point,
) -> Figures:
    """The question to a server that is started for it."""
    with opened(folder) as system:
        return measure(system, point.settings)


def topics(system: System, count: int) -> list[str]:
    """Names of the first so many."""
    return [system.topic(number) for number in range(count)]


def shares(numbers: Sequence[T], count: int) -> list[Sequence[T]]:
    """As many parts, each with every `count`th."""
    return [numbers[part::count] for part in range(count)]


def together(system: System | None, clients: Sequence[Client]) -> tuple[list[Figures], float]:
    """Let them run; what each said, and the server's processor time of just that while."""
    with ExitStack() as stack:
        for client in clients:
            stack.callback(client.close)
        for client in clients:
            client.wait_ready()
        before = cpu_seconds(system.pids) if system else 0.0
        found = go(clients, DEADLINE_SECONDS)
        return found, cpu_seconds(system.pids) - before if system else 0.0


def throughput(found: Sequence[Figures], server_cpu_seconds: float) -> Figures:
    """Of programs that ran together; the time is that of the slowest."""
    seconds = max(each["seconds"] for each in found)
    return {
        "MB/s": sum(each["bytes"] for each in found) / seconds / 1e6,
        "records/s": sum(each["records"] for each in found) / seconds,
        "seconds": seconds,
        "client cpu s": sum(each["cpu_seconds"] for each in found),
        "server cpu s": server_cpu_seconds,
    }


def producers(bootstrap: str, names: Sequence[str], settings: Settings) -> list[Client]:
    """`producers` programs, each with its part of the records, to all topics."""
    count = settings.get("producers", 1)
    load = {"bootstrap": bootstrap, "topics": names, "record_bytes": settings["record_bytes"]}
    return [start("producer", {**load, "records": settings["records"] // count, "producer": n}) for n in range(count)]


def check(
    system: System, names: Sequence[str] | Mapping[str, Any], settings: Settings, records: int | None = None
) -> None:
    """Read everything back, untimed: content, and that each sequence of each producer is there once and in order. Many
    names are said as the load programs are told them, by a format and a count.

    Raises:
        CheckFailed: it is not.
    """
    load = {
        "bootstrap": system.bootstrap,
        "topics": names,
        "records": settings["records"] if records is None else records,
        "record_bytes": settings["record_bytes"],
        "producers": list(range(settings.get("producers", 1))),
    }
    try:
        run("raw_consume", {**load, "check": True, "partition_bytes": 32_000_000}, DEADLINE_SECONDS)
    except ClientFailed as wrong:
        raise CheckFailed(str(wrong)) from wrong
