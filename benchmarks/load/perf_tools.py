"""Kafka's own performance tools as clients: the Java client, with its defaults where nothing else is said.

They come with no gate: each counts from when its client exists, its JVM's warming up included. What several did
together lasts from the first such moment to the last end.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from benchmarks.load.launch import ClientFailed
from fairlead.spark.java import find_java

JARS = Path(__file__).parents[2] / ".make" / "kafka"
"""Those of the interop tests: Kafka's tools with the Java client, without a logger that prints."""
HEAP = "-Xmx512M"
"""As kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh."""
_TOTAL = re.compile(
    r"(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec .* ms avg latency, (?P<max>[\d.]+) ms max latency, "
    r"(?P<p50>\d+) ms 50th, \d+ ms 95th, (?P<p99>\d+) ms 99th, (?P<p999>\d+) ms 99\.9th\."
)
"""The last line of ProducerPerformance; those of the intervals before it have no percentiles."""
_LATENCIES = {"p50": "p50", "p99": "p99", "p99.9": "p999", "max": "max"}
"""By the names of our figures."""
_CONSUMED_CELLS = 10
"""Of the only line of ConsumerPerformance: start, end, MB, MB/s, records, records/s, ms without partitions, ..."""
_QUIET_MS = 15_000
"""A member that shares a topic ends when nothing has come for so long; it looks ten times a second. Kafka lets a new
group wait three seconds, and longer while members join."""


class Span(NamedTuple):
    """What one tool did."""

    began: float
    """Seconds on a clock that tools side by side share, as is `ended`."""
    ended: float
    records: int
    figures: Mapping[str, float]
    cpu_seconds: float


class Tool:
    """One of the tools in a process of its own."""

    def __init__(self, main: str, options: Sequence[str]) -> None:
        self.name = main.rpartition(".")[2]
        self.lines: list[str] = []
        self.ended = 0.0
        """time.monotonic() at its last line."""
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        command = [str(find_java(os.environ)), HEAP, "-cp", f"{JARS}/*", f"org.apache.kafka.tools.{main}", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        self._reader = threading.Thread(target=self._read, name=self.name, daemon=True)
        self._reader.start()

    def finish(self, deadline_seconds: float) -> float:
        """Wait for its end; the processor time that it took.

        Raises:
            ClientFailed: it ended with an error, or not in time.
        """
        self._reader.join(deadline_seconds)
        if self._reader.is_alive():
            raise ClientFailed(f"{self.name} did not end within {deadline_seconds:g} s: {self.lines[-3:]}")
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._process.returncode != 0:
            self._errors.seek(0)
            said = self._errors.read().strip()[-2000:]
            raise ClientFailed(
                f"{self.name} ended with {self._process.returncode} (is scripts/bench-setup done?): {said}"
            )
        return usage.ru_utime + usage.ru_stime

    def close(self) -> None:
        """End it, if it runs; to be called in any case."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.lines.append(line.strip())
                self.ended = time.monotonic()


def produce(
    bootstrap: str,
    topic: str,
    records: int,
    record_bytes: int,
    count: int = 1,
    rate: float = -1,
    config: Mapping[str, Any] | None = None,
    deadline_seconds: float = 240,
) -> list[Span]:
    """`count` producers side by side, each with its part of the records; `config` has settings of the Java client.

    Raises:
        ClientFailed: one of them failed, or a record was not acknowledged.
    """
    each = records // count
    settings = {"bootstrap.servers": bootstrap, **(config or {})}
    options = [
        *("--topic", topic, "--num-records", str(each), "--record-size", str(record_bytes)),
        *("--throughput", f"{rate:g}", "--producer-props", *(f"{name}={value}" for name, value in settings.items())),
    ]
    with ExitStack() as stack:
        tools = [stack.enter_context(closing(Tool("ProducerPerformance", options))) for _ in range(count)]
        return [_produced(tool, tool.finish(deadline_seconds), each) for tool in tools]


def _produced(tool: Tool, cpu_seconds: float, records: int) -> Span:
    found = parse_produced(tool.lines)
    if found is None or found.pop("records") != records:
        raise ClientFailed(f"{tool.name} does not say that {records} records were acknowledged: {tool.lines[-3:]}")
    return Span(tool.ended - found.pop("seconds"), tool.ended, records, found, cpu_seconds)


def parse_produced(lines: Sequence[str]) -> dict[str, float] | None:
    """Records, seconds and latencies of the last line of ProducerPerformance; None when that is another."""
    total = _TOTAL.fullmatch(lines[-1]) if lines else None
    if total is None:
        return None
    records = int(total["records"])
    return {
        "records": records,
        "seconds": records / float(total["rate"]),
        **{f"{name} ms": float(total[key]) for name, key in _LATENCIES.items()},
    }


def consume(bootstrap: str, topic: str, records: int, count: int = 1, deadline_seconds: float = 240) -> list[Span]:
    """`count` members of a group, which read a topic from its beginning until there is no more.

    Which member reads how much is the group's matter, so each but a lone one ends when nothing has come for a while.

    Raises:
        ClientFailed: one of them failed, or together they did not read so many records.
    """
    options = [
        *("--bootstrap-server", bootstrap, "--topic", topic, "--messages", str(records)),
        *("--group", f"perf-{topic[-6:]}", "--timeout", str(_QUIET_MS), "--hide-header"),
    ]
    with ExitStack() as stack:
        tools = [stack.enter_context(closing(Tool("ConsumerPerformance", options))) for _ in range(count)]
        spans = [_consumed(tool, tool.finish(deadline_seconds), records) for tool in tools]
    if sum(span.records for span in spans) != records:
        raise ClientFailed(f"{[span.records for span in spans]} records were read of {records}")
    return spans


def _consumed(tool: Tool, cpu_seconds: float, records: int) -> Span:
    found = parse_consumed(tool.lines)
    if found is None:
        raise ClientFailed(f"{tool.name} does not say what it read: {tool.lines[-3:]}")
    quiet = _QUIET_MS / 1000 if found.records < records else 0.0
    return found._replace(ended=found.ended - quiet, cpu_seconds=cpu_seconds)


def parse_consumed(lines: Sequence[str]) -> Span | None:
    """The last line of ConsumerPerformance, on the machine's clock; the time without partitions comes before it."""
    cells = lines[-1].split(", ") if lines else []
    if len(cells) != _CONSUMED_CELLS:
        return None
    began, ended = (datetime.strptime(cell, "%Y-%m-%d %H:%M:%S:%f").timestamp() for cell in cells[:2])
    rebalance_seconds = int(cells[6]) / 1000
    return Span(began + rebalance_seconds, ended, int(cells[4]), {}, 0.0)


def seconds_of(spans: Sequence[Span]) -> float:
    """From the first beginning to the last end."""
    return max(span.ended for span in spans) - min(span.began for span in spans)
