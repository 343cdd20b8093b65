"""The owner's side: writes that a replica passes on, over an HTTP connection that has become one of Kafka's.

Requests are read, submitted and answered as those of clients are (`connection.py`): in order, many under way, within
the same memory. Only Produce is served. Topics are found by incarnation in the one stream that was named; each request
asks anew whether we take writes from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kio.schema.errors import ErrorCode

from fairlead.broker.apis import APIS
from fairlead.broker.connection import Connection
from fairlead.broker.context import ConnectionInfo
from fairlead.broker.dispatch import PRODUCE, Handled, Header, begin, read_header
from fairlead.broker.errors import RefusedRequest
from fairlead.broker.forwarding.neighbours import check_accepts
from fairlead.broker.server import KafkaServer
from fairlead.broker.topics.topics import Found, ListenerView
from fairlead.cluster.cluster import Cluster
from fairlead.model.errors import UnknownTopic
from fairlead.protocol.wire import Malformed
from fairlead.wire.forward import PRODUCE_VERSION, ForwardHello

_SERVED = {PRODUCE: APIS[PRODUCE]}


class ForwardTaker:
    """Takes over HTTP connections by which replicas pass writes on."""

    def __init__(self, server: KafkaServer) -> None:
        self._server = server

    def take_over(
        self, transport: asyncio.Transport, early: bytes, hello: ForwardHello, on_lost: Callable[[Taken], object]
    ) -> Taken:
        """Read from this transport from now on; `early` are bytes that came behind the end of HTTP."""
        return Taken(self._server, transport, early, hello, on_lost)


class Taken:
    """One such connection, and what it asks of the server."""

    def __init__(
        self,
        server: KafkaServer,
        transport: asyncio.Transport,
        early: bytes,
        hello: ForwardHello,
        on_lost: Callable[[Taken], object],
    ) -> None:
        self._server = server
        self._listener = _ByIncarnation(server.cluster, hello)
        self._on_lost = on_lost
        self.request_bytes_max = server.cluster.settings.request_bytes_max
        self.idle_seconds = server.cluster.settings.connection_idle_seconds
        self.traffic = server.traffic
        self.memory = server.memory
        self.scratch = server.scratch
        self._connection = connection = Connection(self)
        # uvloop chooses between its two ways of reading when reading begins.
        transport.pause_reading()
        transport.set_protocol(connection)
        connection.connection_made(transport)
        transport.resume_reading()
        while early:
            space = connection.get_buffer(-1)
            count = min(len(space), len(early))
            space[:count] = early[:count]
            early = early[count:]
            connection.buffer_updated(count)

    def shutdown(self) -> None:
        """uvicorn's: the server is stopping."""
        self._connection.close()

    def admit(self, connection: Connection) -> float | None:
        """The HTTP listener has counted it."""
        return 0.0

    def forget(self, connection: Connection) -> None:
        """The connection has ended."""
        self._on_lost(self)

    def begin(self, connection: Connection, frame: memoryview) -> tuple[Header, Handled]:
        """Read a request's header and begin it."""
        header, body = read_header(frame, _SERVED)
        if (header.api_key, header.version) != (PRODUCE, PRODUCE_VERSION):
            raise Malformed(f"only Produce v{PRODUCE_VERSION} is taken here")
        if connection.context is None:
            connection.info = ConnectionInfo(connection.name, connection.client[0], connection.local, passed_on=True)
            connection.context = self._server.context(self._listener, connection.info, header)
        return header, begin(APIS[PRODUCE], connection.context, header.correlation_id, body)


class _ByIncarnation(ListenerView):
    """The topics that a stream owns, by incarnation, for a stream from which it takes writes."""

    def __init__(self, cluster: Cluster, hello: ForwardHello) -> None:
        stream = cluster.stream_by_id(hello.stream)
        super().__init__(cluster, "" if stream is None else stream.path)
        self._hello = hello

    def find_id(self, topic_id: bytes) -> Found:
        """
        Raises:
            UnknownTopic
            RefusedRequest: POLICY_VIOLATION, no writes are taken from there; NOT_LEADER_OR_FOLLOWER, another stream
                owns the topic, and nothing is passed on twice.
        """
        stream = self.cluster.stream_by_id(self._hello.stream)
        if stream is None:
            raise UnknownTopic(f"no stream here has the id {self._hello.stream.hex()}")
        check_accepts(self.cluster, stream, self._hello.source)
        found = stream.by_incarnation(topic_id)
        if found is None:
            raise UnknownTopic(f"no topic of {stream.global_path} has the incarnation {topic_id.hex()}")
        shard, topic = found
        if topic.owner != stream.id:
            why = str(self.not_owner(stream, topic))
            raise RefusedRequest(ErrorCode.not_leader_or_follower, f"{why}; it was passed on once already")
        return Found(stream, shard, topic)
