"""Kafka listeners of one server: the main one, and one for each stream that is exposed on a port of its own.

All listeners share the bound on connections, the buffer they read into and the coordinator of consumer groups.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from fairlead.broker.addresses import Addresses
from fairlead.broker.apis import APIS, OFFERED
from fairlead.broker.connection import Connection
from fairlead.broker.context import ConnectionInfo, RequestContext
from fairlead.broker.dispatch import Handled, Header, Part, PendingAnswer, begin, framed, read_header
from fairlead.broker.fetching.poll import FetchMemory
from fairlead.broker.fetching.remembered import Hold, Remembered
from fairlead.broker.fetching.sessions import FetchSessions
from fairlead.broker.forwarding.passing_on import ClientForwards, Forwarder
from fairlead.broker.group_logs.cuts import CutWatch
from fairlead.broker.group_logs.group_log import GroupLog
from fairlead.broker.groups.coordinator import Coordinator
from fairlead.broker.handlers.cluster import api_versions
from fairlead.broker.handlers.groups import find_coordinator, heartbeat, leave_group, offset_commit
from fairlead.broker.handlers.records import init_producer_id, produce
from fairlead.broker.memory import RequestMemory
from fairlead.broker.topics.topics import ListenerView
from fairlead.broker.traffic import Traffic
from fairlead.cluster.cluster import Cluster
from fairlead.model.errors import AlreadyExists
from fairlead.model.limits import LISTEN_BACKLOG
from fairlead.process.machine import memory_part_bytes
from fairlead.protocol.framing import SCRATCH_BYTES
from fairlead.protocol.messages import write_response

log = structlog.get_logger(__name__)

_SHORT_ANSWERS = frozenset(
    module.API_KEY
    for module in (api_versions, find_coordinator, heartbeat, init_producer_id, leave_group, offset_commit, produce)
)
"""What goes on while no memory is left: little is answered, and memory is given back by it."""
_READERS = 4
"""Threads that read for consumers who are not at the end of the log."""


class KafkaServer:
    """Serves a cluster to Kafka clients. One per process; every method runs on one event loop."""

    def __init__(self, cluster: Cluster, *, advertise: tuple[str, int] | None = None) -> None:
        """`advertise`: host and port that clients are told instead of the address they came in on."""
        self.cluster = cluster
        self.groups = Coordinator(cluster.settings, cluster.randomness, GroupLog(cluster))
        cluster.consumers.ask(self.groups.nonempty_since)
        self.cuts = CutWatch(cluster, self.groups)
        cluster.listen(self._forget_deleted_streams)
        self.advertise = advertise
        settings = cluster.settings
        self.connections: set[Connection] = set()
        self.clients = Addresses(
            settings.max_connections_per_ip or -(-settings.max_connections * 3 // 4),
            settings.max_connection_creation_rate,
        )
        self.memory = RequestMemory(settings.queued_max_request_bytes or memory_part_bytes())
        self.remembered = Remembered(settings.fetch_session_bytes or memory_part_bytes() // 4)
        self.fetch_sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots, self.remembered, cluster.randomness
        )
        self.traffic = Traffic()
        self.forwarder = Forwarder(cluster, self.traffic)
        self.readers = ThreadPoolExecutor(_READERS, "fairlead-read")
        self.packers = ThreadPoolExecutor(1, "fairlead-pack")
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._listening: dict[str | None, _Listening] = {}
        self._serving = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the main listener."""
        return self._listening[None].address

    def addresses(self) -> dict[str | None, tuple[str, int]]:
        """Host and port by the stream that is exposed there; None is the main listener."""
        return {stream: listening.address for stream, listening in self._listening.items()}

    async def start(
        self, host: str, port: int, stream: str | None = None, sockets: Sequence[socket.socket] = ()
    ) -> tuple[str, int]:
        """Listen, for one stream or with None for all; port 0 takes any free one. Answers the address.

        `sockets`, if any, are bound already.

        Raises:
            AlreadyExists: that stream, or the main listener, is listening already.
            OSError: the port is taken or not allowed.
        """
        if stream in self._listening:
            where = self._listening[stream].address
            raise AlreadyExists(f"{stream or 'the cluster'} is exposed on {where[0]}:{where[1]} already")
        if not self._serving:
            self._serving = True
            self.groups.resume()
            self.cuts.look()
        listening = _Listening(self, ListenerView(self.cluster, stream))
        await listening.start(host, port, sockets)
        self._listening[stream] = listening
        return listening.address

    async def stop(self, stream: str | None) -> None:
        """Stop one listener and close its connections; nothing if it does not listen."""
        listening = self._listening.pop(stream, None)
        if listening is not None:
            await self._end(listening)

    async def close(self) -> None:
        """Stop all listeners and close every connection; groups go on when the server is started again."""
        self.cuts.close()
        self.groups.close()
        for stream in list(self._listening):
            await self.stop(stream)
        self.forwarder.close()
        self.readers.shutdown(wait=False, cancel_futures=True)
        self.packers.shutdown(wait=False, cancel_futures=True)

    def _forget_deleted_streams(self) -> None:
        self.groups.forget_namespaces({"", *(stream.path for stream in self.cluster.streams())})

    async def _end(self, listening: _Listening) -> None:
        listening.stop_accepting()
        mine = [connection for connection in self.connections if connection.service is listening]
        for connection in mine:
            connection.close()
        await asyncio.gather(*(connection.ended.wait() for connection in mine))
        self.fetch_sessions.forget(listening.listener)
        await listening.wait_closed()

    def scratch(self) -> memoryview:
        return self._scratch

    def admit(self, connection: Connection) -> float | None:
        """Count a connection. After how many seconds it may be read; None and one line in the log if there are too
        many, or too many from its address."""
        if len(self.connections) >= self.cluster.settings.max_connections:
            self._refuse(connection, "too many connections; client refused", len(self.connections))
            return None
        delay = self.clients.admit(connection.client[0], asyncio.get_running_loop().time())
        if delay is None:
            what = "too many connections from one address; client refused"
            self._refuse(connection, what, self.clients.connections_max)
            return None
        self.connections.add(connection)
        return delay

    def context(self, listener: ListenerView, connection: ConnectionInfo, header: Header) -> RequestContext:
        """What the handler of a request is given."""
        return RequestContext(
            cluster=self.cluster,
            listener=listener,
            groups=self.groups,
            cuts=self.cuts,
            fetch_sessions=self.fetch_sessions,
            connection=connection,
            api_key=header.api_key,
            version=header.version,
            client_id=header.client_id,
            readers=self.readers,
            packers=self.packers,
            traffic=self.traffic,
            offered=OFFERED,
        )

    def _refuse(self, connection: Connection, what: str, limit: int) -> None:
        self.traffic.refused_connections += 1
        log.warning(what, client=connection.name, limit=limit)

    def forget(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
            self.clients.left(connection.client[0])


class _Listening:
    """One listener: its socket, its names, and what its connections ask of the server."""

    def __init__(self, server: KafkaServer, listener: ListenerView) -> None:
        self._server = server
        self.listener = listener
        self._servers: list[asyncio.Server] = []
        self.address = ("", 0)
        self.request_bytes_max = server.cluster.settings.request_bytes_max
        self.idle_seconds = server.cluster.settings.connection_idle_seconds
        self.traffic = server.traffic
        self.memory = server.memory
        self.scratch = server.scratch
        self.admit = server.admit
        self.forget = server.forget

    async def start(self, host: str, port: int, sockets: Sequence[socket.socket]) -> None:
        where: list[dict[str, Any]] = [{"sock": each} for each in sockets] or [{"host": host, "port": port}]
        loop = asyncio.get_running_loop()
        for place in where:
            listening = await loop.create_server(lambda: Connection(self), **place, backlog=LISTEN_BACKLOG)
            self._servers.append(listening)
        name = self._servers[0].sockets[0].getsockname()
        self.address = (str(name[0]), int(name[1]))

    def stop_accepting(self) -> None:
        for listening in self._servers:
            listening.close()

    async def wait_closed(self) -> None:
        for listening in self._servers:
            await listening.wait_closed()

    def begin(self, connection: Connection, frame: memoryview) -> tuple[Header, Handled]:
        """Read a request's header and begin it."""
        header, body = read_header(frame, APIS)
        api = APIS[header.api_key]
        if header.version not in api.versions:
            return header, _unsupported(header.correlation_id)
        begun = begin(api, self._context(connection, header), header.correlation_id, body)
        if self.memory.full and header.api_key not in _SHORT_ANSWERS and not isinstance(begun, PendingAnswer):
            return header, _when_there_is_room(self.memory, begun)
        return header, begun

    def _context(self, connection: Connection, header: Header) -> RequestContext:
        known, asked = connection.context, (header.api_key, header.version, header.client_id)
        if known is not None and (known.api_key, known.version, known.client_id) == asked:
            return known
        if connection.info is None:
            host = connection.client[0]
            fetches = FetchMemory(Hold(self._server.remembered, host))
            forwards = ClientForwards(self._server.forwarder)
            connection.info = ConnectionInfo(connection.name, host, self._advertised(connection), fetches, forwards)
        connection.context = made = self._server.context(self.listener, connection.info, header)
        return made

    def _advertised(self, connection: Connection) -> tuple[str, int]:
        advertise = self._server.advertise
        if advertise is None:
            return connection.local
        # A stream's own port is not the one that was advertised for the cluster; its host is.
        return advertise if self.listener.stream_path is None else (advertise[0], self.address[1])


async def _when_there_is_room(
    memory: RequestMemory, begun: Coroutine[Any, Any, list[Part] | None]
) -> list[Part] | None:
    try:
        await memory.room()
    except BaseException:
        begun.close()
        raise
    return await begun


async def _unsupported(correlation_id: int) -> list[Part] | None:
    """ApiVersions in a version that is not known is answered in the form of version 0 (KIP-511)."""
    made = api_versions.unsupported(OFFERED[api_versions.API_KEY])
    return framed([write_response(api_versions.API_KEY, 0, made)], correlation_id, flexible=False)
