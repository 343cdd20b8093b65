"""A broker that says what a test tells it to: answers by kio, errors that no real broker gives on demand.

It leads the partitions of its topics and keeps what is produced to them with the check of sequences that Kafka makes.
A test changes what it says by `script`: a list of functions for an API, each for one request; None answers as usual.
"""

from __future__ import annotations

import asyncio
import io
import struct
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from fairlead.kafka.connecting.versions import (
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SPOKEN,
)
from fairlead.protocol.batch import read_header
from fairlead.protocol.messages import build, read_request, request_header_flexible, response_header_flexible
from fairlead.protocol.wire import Reader
from tests.kafka.fake_transactions import FakeTransactions
from tests.support.waiting import until

ID: Final = UUID(int=7)
CLOSE: Final = "close"
"""An answer of a script: end the connection instead."""
SILENCE: Final = "silence"
"""Say nothing."""

Said = Mapping[str, Any] | bytes | str | None
Line = Callable[[Any], Said]
"""Given a request, its answer: fields, the bytes of a body, CLOSE, SILENCE, or None for the usual one."""


class Seen(NamedTuple):
    """A request that came."""

    api: int
    version: int
    request: Any
    connection: int
    """Which one it came over; the first is 1."""


@dataclass
class Log:
    """A partition: its batches, and what its producers have sent."""

    batches: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    producers: dict[int, tuple[int, list[tuple[int, int]]]] = field(default_factory=dict)
    """By producer id: epoch, and (base sequence, base offset) of the last five batches, the newest at the end."""
    next_sequence: dict[int, int] = field(default_factory=dict)
    end: int = 0

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        """Kafka's check of sequences (`ProducerAppendInfo`), and the batch's offset."""
        head = read_header(batch)
        epoch, recent = self.producers.get(head.producer_id, (-1, []))
        if head.producer_epoch < epoch:
            return ErrorCode.invalid_producer_epoch, -1
        if head.producer_epoch > epoch:
            if head.base_sequence != 0 and epoch >= 0:
                return ErrorCode.out_of_order_sequence_number, -1
            recent = []
        else:
            for sequence, offset in recent:
                if sequence == head.base_sequence:
                    return ErrorCode.duplicate_sequence_number, offset
            if head.base_sequence != self.next_sequence[head.producer_id]:
                return ErrorCode.out_of_order_sequence_number, -1
        offset = self.end
        self.batches.append(struct.pack(">q", offset) + batch[8:])
        self.offsets.append(offset)
        self.end += head.record_count
        self.producers[head.producer_id] = (head.producer_epoch, [*recent, (head.base_sequence, offset)][-5:])
        self.next_sequence[head.producer_id] = head.base_sequence + head.record_count
        return ErrorCode.none, offset

    def forget_producers(self) -> None:
        """As a new leader without their state."""
        self.producers.clear()
        self.next_sequence.clear()

    def read(self, offset: int) -> bytes:
        """All batches that end behind an offset."""
        ends = [*self.offsets, self.end][1:]
        return b"".join(batch for batch, end in zip(self.batches, ends, strict=True) if end > offset)


class FakeBroker:
    """One broker, the only one of its cluster unless a test says otherwise."""

    def __init__(self, node: int = 0, versions: Mapping[int, range] | None = None) -> None:
        self.node = node
        self.port = 0
        self.versions = {**SPOKEN, **(versions or {})}
        self.seen: list[Seen] = []
        self.script: dict[int, deque[Line | None]] = defaultdict(deque)
        self.logs: dict[str, list[Log]] = {}
        self.ids: dict[str, UUID] = {}
        self.refused: dict[str, ErrorCode] = {}
        """Topics of which Metadata says nothing else."""
        self.peers: list[FakeBroker] = [self]
        self.leaders: dict[tuple[str, int], int] = {}
        self.epoch = 3
        """Of all leaders."""
        self.transactions = FakeTransactions()
        self.sessions: dict[int, dict[tuple[Any, int], int]] = {}
        self.features: dict[str, int] = {}
        self.connections = 0
        self.away = False
        """Whoever connects is cut off."""
        self.turned_away = 0
        self.answering = asyncio.Event()
        """Cleared: requests are read and not answered."""
        self.answering.set()
        self.unanswered = 0
        self.faults: list[Exception] = []
        """Of the test: what it told the broker to say cannot be said."""
        self._open: set[asyncio.StreamWriter] = set()

    def add_topic(self, name: str, partitions: int = 1, topic_id: UUID = ID) -> list[Log]:
        self.logs[name] = [Log() for _ in range(partitions)]
        self.ids[name] = topic_id
        return self.logs[name]

    def next(self, api: int, *lines: Line | None) -> None:
        """What to say to the next requests of an API."""
        self.script[api].extend(lines)

    def of(self, api: int) -> list[Any]:
        """The requests of an API so far."""
        return [seen.request for seen in self.seen if seen.api == api]

    def cut(self) -> None:
        """End all connections."""
        for writer in self._open:
            writer.transport.abort()

    @property
    def serving(self) -> bool:
        """Whether a connection is open."""
        return bool(self._open)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    # ------------------------------------------------------------ sockets

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: requests are read as they come, and answered in their order."""
        if self.away:
            self.turned_away += 1
            writer.transport.abort()
            return
        self._open.add(writer)
        self.connections += 1
        number = self.connections
        frames: asyncio.Queue[bytes] = asyncio.Queue()
        answers = asyncio.create_task(self._answers(frames, writer, number))
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                frames.put_nowait(await reader.readexactly(length))
                self.unanswered += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            answers.cancel()
            (ended,) = await asyncio.gather(answers, return_exceptions=True)
            if isinstance(ended, Exception):
                self.faults.append(ended)
            self.unanswered -= frames.qsize()
            self._open.discard(writer)
            writer.close()

    async def _answers(self, frames: asyncio.Queue[bytes], writer: asyncio.StreamWriter, number: int) -> None:
        with suppress(ConnectionError):
            while True:
                frame = await frames.get()
                try:
                    await self.answering.wait()
                    if not await self._answer(frame, writer, number):
                        return
                finally:
                    self.unanswered -= 1

    async def _answer(self, frame: bytes, writer: asyncio.StreamWriter, number: int) -> bool:
        api, version, correlation = struct.unpack_from(">hhi", frame)
        header = Reader(frame, request_header_flexible(api, version), 8)
        header.legacy_nullable_string()
        header.skip_tags()
        request = read_request(api, version, memoryview(frame)[header.position :])
        self.seen.append(Seen(api, version, request, number))
        said = self._scripted(api, request)
        if said is None:
            said = await self._usual(api, version, request)
        if said == CLOSE:
            writer.transport.abort()
            return False
        if said == SILENCE:
            return True
        body = said if isinstance(said, bytes) else _packed(api, version, said)
        tags = b"\0" if response_header_flexible(api, version) else b""
        writer.write(struct.pack(">ii", 4 + len(tags) + len(body), correlation) + tags + body)
        await writer.drain()
        return True

    def _scripted(self, api: int, request: Any) -> Said:
        line = self.script[api].popleft() if self.script[api] else None
        return None if line is None else line(request)

    async def _usual(self, api: int, version: int, request: Any) -> Mapping[str, Any]:
        if api == FETCH:
            return await self._fetch(request)
        usual: dict[int, Callable[[Any], Mapping[str, Any]]] = {
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
            PRODUCE: self.produced,
            INIT_PRODUCER_ID: self.transactions.begin,
            ADD_PARTITIONS_TO_TXN: self.transactions.join,
            END_TXN: self.transactions.end,
            LIST_OFFSETS: self._ends,
            FIND_COORDINATOR: self._coordinator,
            OFFSET_COMMIT: _committed,
            SASL_HANDSHAKE: lambda _: {"error_code": ErrorCode.none, "mechanisms": ["PLAIN"]},
            SASL_AUTHENTICATE: lambda _: {"error_code": ErrorCode.none, "auth_bytes": b""},
        }
        return usual[api](request)

    # ------------------------------------------------------------ usual answers

    def _api_versions(self, _: Any) -> Mapping[str, Any]:
        keys = [{"api_key": k, "min_version": v[0], "max_version": v[-1]} for k, v in self.versions.items()]
        features = [
            {"name": name, "min_version_level": 0, "max_version_level": level} for name, level in self.features.items()
        ]
        return {"error_code": ErrorCode.none, "api_keys": keys, "finalized_features": features}

    def _metadata(self, request: Any) -> Mapping[str, Any]:
        asked = self.logs if request.topics is None else [topic.name for topic in request.topics]
        brokers = [{"node_id": peer.node, "host": "127.0.0.1", "port": peer.port} for peer in self.peers]
        return {
            "brokers": brokers,
            "cluster_id": "fake",
            "controller_id": self.node,
            "topics": [self._topic(name) for name in asked],
        }

    def _topic(self, name: str) -> Mapping[str, Any]:
        there = name in self.logs
        partitions = [
            {
                "error_code": ErrorCode.none,
                "partition_index": number,
                "leader_id": self.leaders.get((name, number), self.node),
                "leader_epoch": self.epoch,
            }
            for number in range(len(self.logs.get(name, ())))
        ]
        code = ErrorCode.none if there else ErrorCode.unknown_topic_or_partition
        if name in self.refused:
            return {"error_code": self.refused[name], "name": name, "topic_id": None, "partitions": []}
        return {"error_code": code, "name": name, "topic_id": self.ids.get(name), "partitions": partitions}

    def name_of(self, topic: Any) -> str:
        """The name of a topic in a request, which may have its id alone."""
        name = getattr(topic, "name", None) or getattr(topic, "topic", None)
        return name or next(name for name, topic_id in self.ids.items() if topic_id == topic.topic_id)

    def produced(self, request: Any) -> dict[str, Any]:
        """The usual answer to a Produce request, once its batches are in the logs."""
        return produce_answer(request, self._append)

    def _append(self, topic: Any, partition: Any) -> Mapping[str, Any]:
        error, offset = self.logs[self.name_of(topic)][partition.index].append(bytes(partition.records))
        return {"error_code": error, "base_offset": offset}

    async def _fetch(self, request: Any) -> Mapping[str, Any]:
        session_id, epoch = getattr(request, "session_id", 0), getattr(request, "session_epoch", -1)
        if epoch == 0:
            session_id = max(self.sessions, default=100) + 1
            self.sessions[session_id] = {}
        session = self.sessions.setdefault(session_id, {}) if epoch >= 0 else {}
        for topic in request.topics:
            for each in topic.partitions:
                session[self.name_of(topic), each.partition] = each.fetch_offset
        for topic in getattr(request, "forgotten_topics_data", ()):
            for number in topic.partitions:
                session.pop((self.name_of(topic), number), None)
        found: dict[str, list[Mapping[str, Any]]] = {}
        for (name, number), offset in session.items():
            records = self.logs[name][number].read(offset)
            if records or epoch <= 0:
                found.setdefault(name, []).append(self._part(name, number, records))
        if not found:
            await asyncio.sleep(0.01)
        topics = [self._named(name) | {"partitions": parts} for name, parts in found.items()]
        return {"error_code": ErrorCode.none, "session_id": session_id if epoch >= 0 else 0, "responses": topics}

    def _part(self, name: str, number: int, records: bytes) -> Mapping[str, Any]:
        log = self.logs[name][number]
        return part(number, records=records, high_watermark=log.end, last_stable_offset=log.end)

    def _named(self, name: str) -> dict[str, Any]:
        return {"topic": name, "topic_id": self.ids[name]}

    def fetched(self, name: str, *parts: Mapping[str, Any], **head: Any) -> dict[str, Any]:
        """An answer to Fetch by hand."""
        topics = [self._named(name) | {"partitions": list(parts)}] if parts else []
        return {"error_code": ErrorCode.none, "session_id": 0, "responses": topics} | head

    def _ends(self, request: Any) -> Mapping[str, Any]:
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": each.partition_index,
                            "error_code": ErrorCode.none,
                            "offset": self.logs[topic.name][each.partition_index].end if each.timestamp == -1 else 0,
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in request.topics
            ]
        }

    def _coordinator(self, _: Any) -> Mapping[str, Any]:
        return {"error_code": ErrorCode.none, "node_id": self.node, "host": "127.0.0.1", "port": self.port}


def part(number: int, error: ErrorCode = ErrorCode.none, **fields: Any) -> Mapping[str, Any]:
    """A partition of an answer to Fetch."""
    usual = {"partition_index": number, "error_code": error, "high_watermark": -1, "aborted_transactions": []}
    return usual | {"records": b""} | fields


def produce_answer(request: Any, outcome: Callable[[Any, Any], Mapping[str, Any]], **head: Any) -> dict[str, Any]:
    """An answer to Produce, with an outcome for each topic and partition of the request."""
    topics = [
        {
            "name": getattr(topic, "name", None),
            "topic_id": getattr(topic, "topic_id", None),
            "partition_responses": [
                {"index": each.index, "base_offset": -1} | dict(outcome(topic, each)) for each in topic.partition_data
            ],
        }
        for topic in request.topic_data
    ]
    return {"responses": topics} | head


def refusing(error: ErrorCode, message: str | None = None, **head: Any) -> Line:
    """Nothing is appended, for this reason."""
    return lambda request: produce_answer(
        request, lambda topic, each: {"error_code": error, "error_message": message}, **head
    )


def throttled(milliseconds: int) -> dict[str, Any]:
    return {"throttle_time": timedelta(milliseconds=milliseconds)}


def _committed(request: Any) -> Mapping[str, Any]:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": each.partition_index, "error_code": ErrorCode.none} for each in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return {"topics": topics}


def _packed(api: int, version: int, fields: Any) -> bytes:
    schema = load_response_schema(api, version)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, build(schema, fields))
    return buffer.getvalue()


@asynccontextmanager
async def fake_broker(
    node: int = 0, versions: Mapping[int, range] | None = None, **options: Any
) -> AsyncIterator[FakeBroker]:
    """A broker that listens until the block ends; `options` are those of asyncio's server, for TLS."""
    broker = FakeBroker(node, versions)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0, **options)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        server.close()
        broker.cut()
        await server.wait_closed()
        await until(lambda: not broker.serving)
    assert not broker.faults, broker.faults
