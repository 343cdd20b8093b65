"""What a handler is given beside the request itself."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

from fairlead.broker.fetching.poll import FetchMemory
from fairlead.broker.fetching.sessions import FetchSessions
from fairlead.broker.forwarding.passing_on import ClientForwards
from fairlead.broker.group_logs.cuts import CutWatch
from fairlead.broker.groups.coordinator import Coordinator
from fairlead.broker.topics.topics import ListenerView
from fairlead.broker.traffic import Traffic
from fairlead.cluster.cluster import Cluster
from fairlead.model.clock import Clock, Randomness
from fairlead.model.settings import Settings


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """Who is at the other end."""

    id: str
    """For logs and member ids: the client's address and port."""
    client_host: str
    advertised: tuple[str, int]
    """Host and port that Metadata and FindCoordinator answer: `--advertise`, or what the client came in on."""
    fetches: FetchMemory = field(default_factory=FetchMemory)
    """What the connection's last Fetch leaves for its next."""
    forwards: ClientForwards | None = None
    """What the connection passes on to owners elsewhere; None: nothing."""
    passed_on: bool = False
    """It is no client's: a replica passes writes on."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request's surroundings."""

    cluster: Cluster
    listener: ListenerView
    """Names: `listener.find("/ships:a")` → stream, shard, topic; `listener.name_of(stream, topic.name)`."""
    groups: Coordinator
    """Consumer groups of this listener."""
    cuts: CutWatch
    """Knows the groups that are behind a cut."""
    fetch_sessions: FetchSessions
    """The server's, of all listeners."""
    connection: ConnectionInfo
    api_key: int
    version: int
    client_id: str
    readers: Executor
    """Threads for reads from disk; commits have others, so that a cold read delays no produce."""
    packers: Executor
    """The thread for long requests and answers: packing takes the interpreter from the event loop."""
    offered: Mapping[int, range]
    """Versions of every API that is served, by key."""
    traffic: Traffic = field(default_factory=Traffic)
    """Counters for metrics, the server's."""

    @property
    def settings(self) -> Settings:
        return self.cluster.settings

    @property
    def clock(self) -> Clock:
        return self.cluster.clock

    @property
    def randomness(self) -> Randomness:
        return self.cluster.randomness
