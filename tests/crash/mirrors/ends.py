"""Clusters at the two ends of a mirror, whose nodes can be killed, and wires to them that can be cut."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.support.kafka_nodes import OUTSIDE, KafkaNodes, kafka_nodes
from tests.support.ports import free_ports
from tests.support.sites import Site
from tests.support.wires import Wire, Wires

BringBack = Callable[[], None]


class End(Protocol):
    """A cluster."""

    name: str
    transactions: bool
    """Whether it takes transactional producers."""
    compacts: bool
    """Whether its compacted topics lose records soon."""

    keeps_all: bool
    """Whether a topic may be made that keeps its records for ever: so will its copy."""

    @property
    def inside(self) -> str:
        """Where the test's own clients find it."""

    @property
    def outside(self) -> str:
        """Where the mirror does."""

    @property
    def replicas(self) -> int:
        """Of each topic; with more than one, a node can be missed for good."""

    @property
    def wires(self) -> list[Wire]:
        """Those to it; none, if it cannot be reached over any."""

    def kill_one(self, choose: random.Random) -> BringBack:
        """`kill -9` of a node."""

    def kill_all(self) -> BringBack:
        """Of all nodes."""


class KafkaEnd:
    """Apache Kafka."""

    transactions = compacts = keeps_all = True

    def __init__(self, name: str, nodes: KafkaNodes) -> None:
        self.name = name
        self._nodes = nodes

    @property
    def inside(self) -> str:
        return self._nodes.bootstrap()

    @property
    def outside(self) -> str:
        return self._nodes.bootstrap(OUTSIDE)

    @property
    def replicas(self) -> int:
        return self._nodes.replicas

    @property
    def wires(self) -> list[Wire]:
        return [node.wire for node in self._nodes.nodes if node.wire is not None]

    def kill_one(self, choose: random.Random) -> BringBack:
        node = choose.choice(self._nodes.nodes)
        node.kill()
        return node.start

    def kill_all(self) -> BringBack:
        self._nodes.kill_all()
        return self._nodes.start_all


class FairleadEnd:
    """A cluster of Fairlead. Its main listener sends clients over the wire, if there is one; `inside`, that of the
    default stream with the same topics, does not."""

    transactions = compacts = keeps_all = False
    replicas = 1

    def __init__(self, site: Site, inside: str, wire: Wire | None) -> None:
        self.name = site.name
        self.inside = inside
        self.outside = site.kafka if wire is None else f"127.0.0.1:{wire.port}"
        self.wires = [] if wire is None else [wire]
        self._site = site

    def kill_one(self, choose: random.Random) -> BringBack:
        return self.kill_all()

    def kill_all(self) -> BringBack:
        self._site.kill()
        return self._site.start


@contextmanager
def kafka_end(folder: Path, name: str, nodes: int, wires: Wires) -> Iterator[End]:
    """A cluster of Apache Kafka until the block ends."""
    with kafka_nodes(folder / name, nodes, wires=wires) as cluster:
        yield KafkaEnd(name, cluster)


@contextmanager
def fairlead_end(folder: Path, name: str, wires: Wires) -> Iterator[End]:
    """A cluster of Fairlead until the block ends, with an address book of its own."""
    (place := folder / name).mkdir(parents=True)
    site = Site(name, place)
    wire = wires.to(f"http://{site.kafka}")
    site.advertised = f"127.0.0.1:{wire.port}"
    site.start()
    try:
        site.cli("cluster", "add", "-http", site.url)
        (port,) = free_ports(1)
        site.cli("stream", "expose", "-path", "/default", "-port", str(port))
        yield FairleadEnd(site, f"127.0.0.1:{port}", wire)
    finally:
        site.stop()
