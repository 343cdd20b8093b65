"""Three systems of a kind, each a master whose topics both others have."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

from tests.support.sites import Site, descendants

from benchmarks.systems.common import STREAM, Daemon, System, create_topics, properties
from benchmarks.systems.fairlead import SPARK, Fairlead, fairlead
from benchmarks.systems.kafka import Kafka, java, kafka
from benchmarks.systems.mirrormaker import HEAP, TUNED

NAMES = ("tokyo", "ship", "singapore")
TOPICS = 10
"""Of each site."""


@dataclass
class Mesh:
    """The sites, which have all topics of all, and what copies."""

    sites: Sequence[System]
    carriers: list[Daemon] = field(default_factory=list)

    @property
    def carrier_pids(self) -> list[int]:
        return [pid for each in self.carriers for pid in (each.pid, *descendants(each.pid))]

    def topics(self, number: int) -> list[str]:
        """Those of a site, by its number."""
        return [self.sites[number].topic(TOPICS * number + each) for each in range(TOPICS)]


@contextmanager
def mesh_fairlead(folder: Path) -> Iterator[Mesh]:
    """Each link carries what its own site has taken (`-forward own`): every record goes over one link to each site."""
    with ExitStack() as stack:
        systems = [stack.enter_context(fairlead(folder, name)) for name in NAMES]
        mesh = Mesh(systems)
        for system in systems:
            system.create_stream()
        for here, there in permutations([system.site for system in systems], 2):
            there.cli("stream", "upstream", "add", "-path", _path(there), "-upstream", _path(here))
            here.cli("stream", "replica", "add", "-path", _path(here), "-replica", _path(there), "-forward", "own")
        _create(mesh)
        mesh.carriers += [_replicator(stack, folder, system) for system in systems]
        yield mesh


def _path(site: Site) -> str:
    return f"/mapr/{site.name}{STREAM}"


def _replicator(stack: ExitStack, folder: Path, system: Fairlead) -> Daemon:
    site = system.site
    command = [sys.executable, "-m", *SPARK, "--data", str(site.data), "--server", site.url]
    daemon = Daemon("replicator", command, folder / f"replicator-{site.name}.log", os.environ)
    stack.callback(daemon.stop)
    return daemon


@contextmanager
def mesh_mirrormaker(folder: Path, **overrides: Any) -> Iterator[Mesh]:
    """One dedicated process with a flow from each site to each other. Names stay the same, and a flow takes the
    own topics of its source only, as nothing else would keep a record from going round."""
    with ExitStack() as stack:
        systems = [stack.enter_context(kafka(folder / name)) for name in NAMES]
        mesh = Mesh(systems)
        _create(mesh)
        file = folder / "mm2.properties"
        file.write_text(properties(_flows(systems, mesh) | overrides))
        command = java("org.apache.kafka.connect.mirror.MirrorMaker", HEAP, str(file))
        daemon = Daemon("mirrormaker", command, folder / "mirrormaker.log", os.environ)
        stack.callback(daemon.stop)
        mesh.carriers.append(daemon)
        yield mesh


def _flows(systems: Sequence[Kafka], mesh: Mesh) -> dict[str, Any]:
    """The tuning of a pair, with what it says of source and target said of each site."""
    tuned = {name: value for name, value in TUNED.items() if "->" not in name}
    ends = {name.partition(".")[2]: value for name, value in tuned.items() if name.startswith(("source.", "target."))}
    both = {name: value for name, value in tuned.items() if not name.startswith(("source.", "target."))}
    factors = (
        *("replication.factor", "checkpoints.topic.replication.factor", "heartbeats.topic.replication.factor"),
        *("offset-syncs.topic.replication.factor", "offset.storage.replication.factor"),
        *("status.storage.replication.factor", "config.storage.replication.factor"),
    )
    flows: dict[str, Any] = {"clusters": ", ".join(NAMES), "emit.heartbeats.enabled": False}
    for (number, here), there in [(each, other) for each in enumerate(NAMES) for other in NAMES if other != each[1]]:
        flows |= {f"{here}->{there}.enabled": True, f"{here}->{there}.topics": "|".join(mesh.topics(number))}
    for name, system in zip(NAMES, systems, strict=True):
        flows |= {f"{name}.bootstrap.servers": system.bootstrap, f"{name}.producer.linger.ms": 0}
        flows |= {f"{name}.{end}": value for end, value in ends.items() if end != "producer.linger.ms"}
    return flows | dict.fromkeys(factors, 1) | both


def _create(mesh: Mesh) -> None:
    for number, system in enumerate(mesh.sites):
        create_topics(system.bootstrap, mesh.topics(number))
