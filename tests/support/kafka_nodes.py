"""A cluster of Apache Kafka whose nodes a test kills, and which clients reach over wires that a test cuts.

It has one node or several: KRaft, each both broker and controller, with small heaps.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.systems.common import Daemon, answers
from benchmarks.systems.common import properties as as_properties
from benchmarks.systems.kafka import JARS, SMALL, SMALL_HEAP, cluster_id, java, server_properties

from tests.support.ports import free_ports
from tests.support.waiting import wait_until
from tests.support.wires import Wire, Wires

INSIDE = "INSIDE"
"""The listener that brokers and the test's own clients use; it is never cut."""
OUTSIDE = "OUTSIDE"
"""The listener that is reached over wires."""


class Node:
    """One process."""

    def __init__(self, folder: Path, number: int, listeners: Sequence[str], wires: Wires | None) -> None:
        self.number = number
        self.folder = folder
        self.ports = dict(zip([*listeners, "CONTROLLER"], free_ports(len(listeners) + 1), strict=True))
        self.wire: Wire | None = None if wires is None else wires.to(f"http://127.0.0.1:{self.ports[OUTSIDE]}")
        self._daemon: Daemon | None = None

    def address(self, listener: str) -> str:
        """Where clients reach it."""
        if listener == OUTSIDE and self.wire is not None:
            return f"127.0.0.1:{self.wire.port}"
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def pid(self) -> int:
        assert self._daemon is not None
        return self._daemon.pid

    @property
    def file(self) -> Path:
        return self.folder / "server.properties"

    def launch(self) -> None:
        """Start the process; returns before it answers."""
        command = java("kafka.Kafka", SMALL_HEAP, str(self.file))
        self._daemon = Daemon(f"node {self.number}", command, self.folder / "kafka.log", os.environ)

    def answering(self) -> None:
        """Return once it answers."""
        assert self._daemon is not None
        answers(f"127.0.0.1:{self.ports[INSIDE]}", None, self._daemon.check)

    def start(self) -> None:
        self.launch()
        self.answering()

    def kill(self) -> None:
        """`kill -9`."""
        assert self._daemon is not None
        os.kill(self._daemon.pid, signal.SIGKILL)
        self._daemon.stop()
        self._daemon = None

    def end(self) -> None:
        """For good: in order it would wait for the others."""
        if self._daemon is not None:
            self.kill()


class KafkaNodes:
    """The nodes, and where clients find them."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    def bootstrap(self, listener: str = INSIDE) -> str:
        """All nodes, HOST:PORT,…"""
        return ",".join(node.address(listener) for node in self.nodes)

    @property
    def replicas(self) -> int:
        """As many as topics should have."""
        return len(self.nodes)

    def kill_all(self) -> None:
        for node in self.nodes:
            node.kill()

    def start_all(self) -> None:
        """Start those that do not run, at once; a quorum is needed before any answers."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.answering()


@contextmanager
def kafka_nodes(
    folder: Path,
    count: int = 1,
    *,
    wires: Wires | None = None,
    outside: str = "PLAINTEXT",
    listeners: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[KafkaNodes]:
    """A cluster of `count` nodes until the block ends; OUTSIDE is there if there are wires for it, with that
    security protocol; `listeners` are more of them, name → protocol; `settings` entries of server.properties."""
    if not any(JARS.glob("kafka_*.jar")):
        raise RuntimeError("Apache Kafka's server is not there; run scripts/interop-setup")
    reached = {} if wires is None else {OUTSIDE: outside}
    protocols = {INSIDE: "PLAINTEXT", **reached, **(listeners or {})}
    nodes = []
    for number in range(1, count + 1):
        (place := folder / f"node{number}").mkdir(parents=True)
        nodes.append(Node(place, number, list(protocols), wires))
    voters = ",".join(f"{node.number}@127.0.0.1:{node.ports['CONTROLLER']}" for node in nodes)
    for node in nodes:
        entries = _entries(node, protocols, voters, count)
        node.file.write_text(as_properties(entries | dict(settings or {})))
    _format(nodes)
    cluster = KafkaNodes(nodes)
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.end)
        cluster.start_all()
        yield cluster


def _entries(node: Node, protocols: Mapping[str, str], voters: str, count: int) -> dict[str, Any]:
    listening = {name: f"{name}://127.0.0.1:{node.ports[name]}" for name in [*protocols, "CONTROLLER"]}
    mapped = {"CONTROLLER": "PLAINTEXT", **protocols}
    in_sync = max(count - 1, 1)
    return {
        **server_properties(node.folder / "data", 0, 0),
        **SMALL,
        "node.id": node.number,
        "controller.quorum.voters": voters,
        "listeners": ",".join(listening.values()),
        "advertised.listeners": ",".join(f"{name}://{node.address(name)}" for name in protocols),
        "inter.broker.listener.name": INSIDE,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in mapped.items()),
        "num.network.threads": 2,
        "num.io.threads": 4,
        "default.replication.factor": count,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": count,
        "transaction.state.log.replication.factor": count,
        "transaction.state.log.min.isr": in_sync,
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "replica.lag.time.max.ms": 5000,
        "auto.create.topics.enable": "false",
        "group.coordinator.rebalance.protocols": "classic,consumer",
    }


def _format(nodes: Sequence[Node]) -> None:
    """Side by side: a JVM each."""
    cluster = cluster_id()
    started = []
    for node in nodes:
        command = java("kafka.tools.StorageTool", SMALL_HEAP, "format", "-t", cluster, "-c", str(node.file))
        log = (node.folder / "format.log").open("w")
        started.append((node, log, subprocess.Popen(command, stdout=log, stderr=log)))
    for node, log, process in started:
        wait_until(lambda process=process: process.poll() is not None, "the directory is formatted")  # type: ignore[misc]
        log.close()
        if process.returncode != 0:
            raise RuntimeError(f"kafka storage format: {(node.folder / 'format.log').read_text()}")
