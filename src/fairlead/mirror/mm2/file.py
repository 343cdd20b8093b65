"""MirrorMaker 2's property file: its clusters, and which of its entries count for a cluster or a flow.

clusters = A, B                   the clusters, by their aliases
A.bootstrap.servers = …           of a cluster: all its clients
A.consumer.fetch.max.bytes = …    of its consumers; so `producer.` and `admin.`
A->B.topics = …                   of a flow
topics = …                        of all flows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from fairlead.kafka.configuration.properties import load_properties
from fairlead.mirror.mm2.keys import CLIENTS, OF_CONNECTIONS, OLD_NAMES
from fairlead.model.errors import InvalidValue


class Pair(NamedTuple):
    """A source and a target, by their aliases."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(slots=True)
class _Sorted:
    """The entries by what they count for."""

    all: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, dict[str, str]] = field(default_factory=dict)
    pairs: dict[Pair, dict[str, str]] = field(default_factory=dict)


class Mm2File:
    """The file, read and sorted."""

    def __init__(self, path: Path, given: Mapping[str, str]) -> None:
        self.path = path
        self._given = given
        self.aliases = self._aliases()

    @classmethod
    def read(cls, path: Path) -> Mm2File:
        """Raises: InvalidValue: it cannot be read, or names no clusters."""
        return cls(path, load_properties(path))

    def _aliases(self) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(filter(None, map(str.strip, self._given.get("clusters", "").split(",")))))
        if len(found) < 2:
            raise InvalidValue(f"{self.path}: clusters must name two clusters or more, such as clusters = A, B")
        return found

    def pairs(self) -> Iterator[Pair]:
        """All that there could be, in the order of `clusters`."""
        for source, target in permutations(self.aliases, 2):
            yield Pair(source, target)

    def of_pair(self, pair: Pair) -> dict[str, str]:
        """What counts for a flow; what is said for it alone wins."""
        return {**self._sorted.all, **self._sorted.pairs.get(pair, {})}

    def of_all(self) -> Mapping[str, str]:
        """What counts for all flows and clusters."""
        return self._sorted.all

    def of_cluster(self, alias: str) -> Mapping[str, str]:
        """What is said for one cluster."""
        return self._sorted.clusters.get(alias, {})

    def consumer_of(self, pair: Pair) -> dict[str, str]:
        """The settings of the flow's consumer."""
        return self._client("consumer.", pair.source, pair, "source.")

    def producer_of(self, pair: Pair) -> dict[str, str]:
        """The settings of the flow's producer."""
        own = _behind("producer.override.", self._sorted.pairs.get(pair, {}))
        return {**self._client("producer.", pair.target, pair, "target."), **own}

    def _client(self, prefix: str, alias: str, pair: Pair, end: str) -> dict[str, str]:
        """What counts less before what counts more, in MirrorMaker 2's order: what a flow says without naming the end
        it means counts less than what the cluster says."""
        cluster, flow = self.of_cluster(alias), self._sorted.pairs.get(pair, {})
        found = _behind(prefix, self._sorted.all)
        found |= _behind(f"{end}cluster.", flow)
        found |= _behind(prefix, flow)
        for given in (self._sorted.all, cluster):
            found |= {key: value for key, value in given.items() if key.startswith(OF_CONNECTIONS)}
        found |= _behind(prefix, cluster)
        found |= _behind(f"{end}{prefix}", flow)
        return {key: value for key, value in found.items() if not key.startswith("override.")}

    @cached_property
    def _sorted(self) -> _Sorted:
        found = _Sorted()
        for key, value in self._given.items():
            head, arrow, tail = key.partition("->")
            if arrow:
                pair, rest = self._pair(key, head.strip(), tail)
                found.pairs.setdefault(pair, {})[OLD_NAMES.get(rest, rest)] = value
            elif (alias := self._alias(key)) is not None:
                found.clusters.setdefault(alias, {})[key[len(alias) + 1 :]] = value
            elif key != "clusters":
                found.all[OLD_NAMES.get(key, key)] = value
        return found

    def _alias(self, key: str) -> str | None:
        """The cluster that a key is of; names of clients are none."""
        fits = [alias for alias in self.aliases if key.startswith(alias + ".") and alias + "." not in CLIENTS]
        return max(fits, key=len, default=None)

    def _pair(self, key: str, source: str, tail: str) -> tuple[Pair, str]:
        target = self._alias(tail)
        if source not in self.aliases or target is None:
            raise InvalidValue(
                f"{self.path}: {key} is of a cluster that is not in clusters = {', '.join(self.aliases)}"
            )
        return Pair(source, target), tail[len(target) + 1 :]


def _behind(prefix: str, given: Mapping[str, str]) -> dict[str, str]:
    """Those that begin so, without it."""
    return {key[len(prefix) :]: value for key, value in given.items() if key.startswith(prefix)}
