"""Handlers asked in the bytes of any version, on a cluster in memory, without sockets."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from fairlead.broker.apis import APIS, OFFERED
from fairlead.broker.context import ConnectionInfo, RequestContext
from fairlead.broker.dispatch import PendingAnswer, begin
from fairlead.broker.fetching.remembered import Remembered
from fairlead.broker.fetching.sessions import FetchSessions
from fairlead.broker.group_logs.cuts import CutWatch
from fairlead.broker.group_logs.group_log import GroupLog
from fairlead.broker.groups.coordinator import Coordinator
from fairlead.broker.topics.topics import ListenerView
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import StreamSettings
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.settings import Settings
from fairlead.protocol.messages import build, response_header_flexible
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.rows import Kind


class Asker:
    """One client's view of one listener."""

    def __init__(
        self, cluster: Cluster, groups: Coordinator, stream: str | None = None, cuts: CutWatch | None = None
    ) -> None:
        self.cluster = cluster
        self.groups = groups
        self.listener = ListenerView(cluster, stream)
        self.readers: Executor = cluster.executor
        self.cuts = cuts or CutWatch(cluster, groups)
        self.fetch_sessions = FetchSessions(10, Remembered(10_000_000), cluster.randomness)
        self.connection = ConnectionInfo("127.0.0.1:50000", "127.0.0.1", ("broker.example", 9092))

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The answer, through the bytes of that version, as kio's dataclass."""
        schema = load_request_schema(api_key, version)
        buffer = io.BytesIO()
        entity_writer(schema)(buffer, build(schema, fields))
        context = RequestContext(
            cluster=self.cluster,
            listener=self.listener,
            groups=self.groups,
            cuts=self.cuts,
            fetch_sessions=self.fetch_sessions,
            connection=self.connection,
            api_key=api_key,
            version=version,
            client_id="client",
            readers=self.readers,
            packers=self.cluster.executor,
            offered=OFFERED,
        )
        handled = begin(APIS[api_key], context, 7, memoryview(buffer.getvalue()))
        if isinstance(handled, PendingAnswer):
            await asyncio.gather(*handled.futures)
        parts = handled.finish() if isinstance(handled, PendingAnswer) else await handled
        assert parts is not None
        body = b"".join(bytes(part) for part in parts)[8 + response_header_flexible(api_key, version) :]
        response, size = entity_reader(load_response_schema(api_key, version))(body, 0)
        assert size == len(body)
        return response

    def another_connection(self) -> Asker:
        """The same listener asked over a connection of its own."""
        other = Asker(self.cluster, self.groups)
        other.listener, other.fetch_sessions = self.listener, self.fetch_sessions
        return other

    def on_stream(self, path: str) -> Asker:
        """The same cluster and groups through a stream's own listener."""
        return Asker(self.cluster, self.groups, path)


@asynccontextmanager
async def asking(**settings: Any) -> AsyncIterator[Asker]:
    """A cluster in memory with the streams /default and /ships, and a topic `a` of two partitions in each."""
    with ThreadPoolExecutor(4) as executor:
        cluster = await Cluster.open(
            MemoryStorage(),
            name="site",
            settings=replace(Settings(), initial_rebalance_delay_ms=0, **settings),
            clock=SystemClock(),
            randomness=SystemRandomness(),
            executor=executor,
        )
        groups = Coordinator(cluster.settings, cluster.randomness, GroupLog(cluster))
        cluster.consumers.ask(groups.nonempty_since)
        try:
            await cluster.create_stream("/ships", StreamSettings())
            for stream in cluster.streams():
                await stream.create_topic("a", 2)
            yield Asker(cluster, groups)
        finally:
            groups.close()
            await cluster.close()


def topic_id(stream: Stream, name: str) -> bytes:
    """Kafka's id of a topic."""
    return stream.topic_id(*stream.topic(name))


def versions(api_key: int) -> range:
    """The versions of an API that are served."""
    return OFFERED[api_key]


async def a_copy(asker: Asker, path: str, name: str, owner: str) -> None:
    """A topic of the stream at `path` whose offsets the stream at `owner` gives, as a link brings it."""
    stream = asker.cluster.stream(path)
    at = asker.cluster.stream(owner)
    payload = TopicPayload(name, b"i" * 16, 1, at.id, 0, 0, home=name, owner_at=at.global_path)

    def copy(draft: Any) -> None:
        draft.add_control(Kind.TOPIC, payload, number=draft.state.next_number(name))

    await stream.shard_for(name).submit(copy)
