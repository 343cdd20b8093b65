"""Apache Kafka, one combined broker and controller (KRaft), as its scripts start it."""

from __future__ import annotations

import base64
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support.class_archives import SERVER, archive_flags
from tests.support.ports import free_ports

from benchmarks.systems.common import (
    STREAM,
    Daemon,
    answers,
    create_topics,
    drop_caches,
    properties,
    raise_open_files,
)
from fairlead.spark.java import find_java

JARS = Path(__file__).parents[2] / ".make" / "bench" / "jars"
FLUSH = {"log.flush.interval.messages": 1}
"""Each append is on the disk before it is acknowledged, as at Fairlead; Kafka's default leaves that to the kernel."""
SERVER_HEAP = ("-Xmx1G", "-Xms1G")
"""As kafka-server-start.sh."""
SMALL_HEAP = ("-Xms192m", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *archive_flags(SERVER))
SMALL = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 200,
    "log.retention.check.interval.ms": 300,
    "log.initial.task.delay.ms": 200,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
"""Where nothing is measured: a server that starts quickly, and soon does what it does at intervals."""
_PERFORMANCE = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
)
"""KAFKA_JVM_PERFORMANCE_OPTS of kafka-run-class.sh."""
_LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")


class Kafka:
    """A running server; its files lie in `folder`."""

    def __init__(
        self,
        folder: Path,
        overrides: Mapping[str, Any],
        name: str,
        heap: tuple[str, ...],
        features: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.stop_seconds = 0.0
        self._folder = folder
        self._heap = heap
        self._topics = 0
        broker, controller = free_ports(2)
        self._bootstrap = f"127.0.0.1:{broker}"
        self._file = folder / "server.properties"
        self._file.write_text(properties(server_properties(folder / "data", broker, controller) | dict(overrides)))
        self._format(features)
        self._daemon = self._start()

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def pids(self) -> list[int]:
        return [self._daemon.pid]

    def topic(self, number: int, stream: str = STREAM) -> str:
        """The stream is not part of the name: Kafka has none."""
        return f"t{number:06}"

    def create_topics(self, count: int, partitions: int = 1) -> None:
        """By the admin interface, 1,000 a request."""
        create_topics(self.bootstrap, [self.topic(number) for number in range(count)], partitions)
        self._topics = max(self._topics, count)

    def restart(self, meanwhile: Callable[[Path], None] | None = None) -> float:
        """Stop, do something with its folder of data, and start; how long it took to start."""
        self.stop_seconds = self._daemon.stop()
        if meanwhile is not None:
            meanwhile(self._folder / "data")
        began = time.monotonic()
        self._daemon = self._start()
        return time.monotonic() - began

    def drop_caches(self) -> None:
        drop_caches(self._folder)

    def stop(self) -> None:
        self._daemon.stop()

    def _format(self, features: Mapping[str, int]) -> None:
        options = ["-t", cluster_id(), "-c", str(self._file)]
        for feature, version in features.items():
            options += ["--feature", f"{feature}={version}"]
        command = java("kafka.tools.StorageTool", SMALL_HEAP, "format", *options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"kafka storage format (is scripts/bench-setup done?): {done.stdout}{done.stderr}")

    def _start(self) -> Daemon:
        daemon = Daemon(
            self.name, java("kafka.Kafka", self._heap, str(self._file)), self._folder / "kafka.log", os.environ
        )
        try:
            answers(self.bootstrap, self.topic(self._topics - 1) if self._topics else None, daemon.check)
        except BaseException:
            daemon.stop()
            raise
        return daemon


def java(main: str, heap: tuple[str, ...], *options: str) -> list[str]:
    """The command of one of Kafka's processes."""
    return [str(find_java(os.environ)), *heap, *_PERFORMANCE, *_LOGGING, "-cp", f"{JARS}/*", main, *options]


def server_properties(data: Path, broker: int, controller: int) -> dict[str, Any]:
    """Settings of a single node; what the distribution's config/server.properties does not set stays as it is."""
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "num.network.threads": 3,
        "num.io.threads": 8,
        "log.dirs": data,
        "num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }


def cluster_id() -> str:
    """A new one, in Kafka's spelling of a UUID: URL-safe base64 without padding, and no dash in front."""
    return "a" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


@contextmanager
def kafka(
    folder: Path,
    overrides: Mapping[str, Any] | None = None,
    name: str = "kafka",
    heap: tuple[str, ...] = SERVER_HEAP,
    features: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[Kafka]:
    """A server with a fresh data directory; `overrides` are entries of server.properties, `features` of the cluster
    that are not to have their newest version.

    10,000 topics need 20,000 mapped files; vm.max_map_count (65,530) allows some 30,000 topics, the heap maybe fewer.
    """
    raise_open_files()
    folder.mkdir(parents=True, exist_ok=True)
    system = Kafka(folder, overrides or {}, name, heap, features)
    try:
        yield system
    finally:
        system.stop()
