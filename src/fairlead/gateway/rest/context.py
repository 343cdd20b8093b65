"""What every handler of the admin interface is given, and what they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fairlead.client.command import Given
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.claims import Claims
from fairlead.gateway.from_kafka.orders import KafkaOrders
from fairlead.gateway.jobs import JobRunner
from fairlead.gateway.links.orders.commands import LinkCommands
from fairlead.gateway.links.orders.copystream import CopyCommands
from fairlead.gateway.links.orders.transfer import Transfers
from fairlead.gateway.pulling.recover import Recoveries
from fairlead.gateway.takeovers.work import Takeovers
from fairlead.model.errors import InvalidValue, UnknownCluster
from fairlead.model.names import StreamPath

Rows = Iterable[Mapping[str, Any]]


class Listeners(Protocol):
    """The Kafka listeners of this server, as the admin interface needs them."""

    @property
    def main_address(self) -> str:
        """HOST:PORT that clients of the main listener are told."""
        ...

    @property
    def connections(self) -> int:
        """Open Kafka connections."""
        ...

    def counters(self) -> Mapping[str, float]:
        """What passed since the start, by name: records, bytes, requests."""
        ...

    def memory(self) -> Mapping[str, int]:
        """Bytes of memory by what they are for."""
        ...

    def addresses(self) -> Mapping[str, str]:
        """HOST:PORT by path of the exposed streams."""
        ...

    async def expose(self, path: str, port: int) -> str:
        """Start and remember a listener for one stream; answers its HOST:PORT."""
        ...

    async def conceal(self, path: str) -> None:
        """End and forget the listener of a stream; `NotFound` if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class RestContext:
    """The cluster and its surroundings."""

    cluster: Cluster
    links: LinkCommands
    kafka: KafkaOrders
    copies: CopyCommands
    transfers: Transfers
    takeovers: Takeovers
    claims: Claims
    jobs: JobRunner
    recoveries: Recoveries
    listeners: Listeners
    user: str
    """Who runs the server: the default of a stream's permissions."""
    started_ms: int = field(default=0)

    def stream(self, given: Given, name: str = "path") -> Stream:
        """The local stream that a parameter names; raises `UnknownStream`."""
        return self.cluster.stream(self.local(given[name]))

    def local(self, path: StreamPath) -> str:
        """The path without its cluster, which is this one.

        Raises:
            UnknownCluster: it is another.
        """
        if path.cluster not in {None, self.cluster.name}:
            raise UnknownCluster(
                f"{path}: this is cluster {self.cluster.name}, not {path.cluster}, "
                "and sends no call on; ask that cluster"
            )
        return path.path

    def is_local(self, path: StreamPath) -> bool:
        return path.cluster in {None, self.cluster.name}

    def urls(self, given: Given, path: StreamPath) -> tuple[str, ...]:
        """HTTP addresses of the cluster that a path names; none for this one.

        Raises:
            UnknownCluster: it is not this one, and the call does not carry its addresses.
        """
        if self.is_local(path):
            return ()
        found = given.clusters.get(path.cluster or "")
        if not found:
            raise UnknownCluster(
                f"{path}: the addresses of cluster {path.cluster} are not known here; a call names them in `clusters`, "
                f"where the command line puts them after `fairlead cluster add -name {path.cluster} -http URL`"
            )
        return found


Handler = Callable[[RestContext, Given], Awaitable[Rows]]


def need(given: Given, name: str) -> Any:
    """A parameter that this use of the command needs; raises `InvalidValue`."""
    if given[name] is None:
        raise InvalidValue(f"-{name} is missing")
    return given[name]
