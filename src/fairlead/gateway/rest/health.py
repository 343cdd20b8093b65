"""Whether the cluster serves and does what it was told to: what `/health`, `cluster info` and the page show of that.

`stopped`: nothing is served, since the cluster's own log or every stream's has stopped. `degraded`: a part does not do
its work; each reason is one line. A link that fails makes no cluster unusable for its clients, so only `stopped` takes
a server out of a load balancer (docs/guides/operations.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.gateway.rest.context import RestContext
from fairlead.streamlog.writing.shard import Shard

OK, DEGRADED, STOPPED = "ok", "degraded", "stopped"
SHOWN_MAX = 100
"""Failing links that are named one by one."""


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The health of one cluster at one moment."""

    status: str
    stopped: list[str]
    """Logs that have stopped and streams that could not be opened, one line each."""
    upkeep: list[str]
    """Logs of which the last merge, deletion or copy of what was cut off failed; it is tried again."""
    failing: Sequence[dict[str, Any]]
    """Links with an error: path, replica, code, error, command, since, seconds."""
    replicator: dict[str, Any]

    @property
    def reasons(self) -> list[str]:
        """All of it, one line each."""
        shown = self.failing[:SHOWN_MAX]
        links = [f"link {each['path']} to {each['replica']}: {each['error']}" for each in shown]
        more = len(self.failing) - len(shown)
        return [*self.stopped, *self.upkeep, *links, *([f"{more} more links fail"] if more else [])]

    @property
    def serves(self) -> bool:
        """Clients should be sent here."""
        return self.status != STOPPED


def health_of(context: RestContext) -> ClusterHealth:
    """At this moment. Asks no other cluster."""
    cluster, links = context.cluster, context.links
    shards = list(_shards(context))
    stopped = [f"{name}: {shard.stopped}" for name, shard in shards if shard.stopped is not None]
    stopped += [f"{path}: {error}" for path, error in sorted(cluster.damaged.items())]
    upkeep = [
        f"{name}: {chore.name} failed and is tried again: {chore.error}"
        for name, shard in shards
        for chore in shard.chores
        if chore.error is not None and shard.stopped is None
    ]
    failing = [*links.failing(), *context.kafka.failing()]
    useless = cluster.meta.stopped is not None or not any(shard.readable for _, shard in shards[1:])
    status = STOPPED if useless else DEGRADED if stopped or upkeep or failing else OK
    return ClusterHealth(status, stopped, upkeep, failing, links.replicator.now().row())


def _shards(context: RestContext) -> Iterator[tuple[str, Shard]]:
    """Every open log with its name, the cluster's own first."""
    yield "meta", context.cluster.meta
    for stream in context.cluster.streams():
        for shard in stream.shards:
            yield stream.path, shard
