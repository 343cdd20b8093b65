"""Two clusters in one process, with HTTP listeners on free ports, and a reader-and-sink task without Spark.

`Site` is a cluster with its links under uvicorn; `Worker` does what a task of the replicator does, in the simplest way:
one frame per slice for each announcement. Both are asynchronous context managers that stop what they start.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fairlead.broker.server import KafkaServer
from fairlead.broker.taking import ForwardTaker
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import StreamSettings
from fairlead.gateway.app import build_app
from fairlead.gateway.apply.http_protocol import HttpProtocol
from fairlead.gateway.apply.socket import ApplyGateway
from fairlead.gateway.claims import CLAIM, Claims
from fairlead.gateway.from_kafka.orders import KafkaOrders
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.gateway.jobs import JobRunner, Work
from fairlead.gateway.links.manager import LinkManager
from fairlead.gateway.links.orders.transfer import TRANSFER
from fairlead.gateway.links.running.timing import Timing
from fairlead.gateway.pulling.recover import RECOVER, Recoveries
from fairlead.gateway.pulling.taking import Pulls
from fairlead.gateway.rest.context import RestContext
from fairlead.gateway.takeovers.work import TAKEOVER, Takeovers
from fairlead.listening.guard import Guard
from fairlead.listening.http import configuration
from fairlead.model.clock import Clock, SystemClock, SystemRandomness
from fairlead.model.conversation import from_json
from fairlead.model.errors import Missing, StorageFull
from fairlead.model.names import StreamPath
from fairlead.model.settings import Settings
from fairlead.process import control_secret
from fairlead.protocol.batch import build_batch
from fairlead.storage.interface import Storage
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.frames.codec import encode_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.numbers import slice_of_number, slices_of_mask
from fairlead.streamlog.objects.format import read_whole
from fairlead.streamlog.payloads import decode_topic, decode_topic_deleted
from fairlead.streamlog.rows import LOCAL_KINDS, NO_TOPIC, Kind, Row
from fairlead.streamlog.values import Topic, epoch_before
from fairlead.wire.apply import Applied, ApplyHello, Error, Ok, Refused
from fairlead.wire.control import (
    Announce,
    Done,
    Failed,
    Grant,
    ListObjects,
    Locate,
    Located,
    Progress,
    ReaderHello,
    ReadReport,
    RepairGrant,
    RepairPartition,
    SinkHello,
    SlicesRefused,
    Topics,
    TopicsWanted,
    Withdraw,
    WithdrawRun,
)
from fairlead.wire.link_protocol import PROTOCOL
from fairlead.wire.messages import APPLY_HEARS, READER_HEARS, SINK_HEARS, to_json
from tests.support.apply_peer import ApplyPeer, PeerClosed, connect_apply
from tests.support.batches import produced_to
from tests.support.http_listener import Listener
from tests.support.waiting import WAIT_SECONDS

SHIPS = "/ships"
SOURCE = StreamPath("/ships", "sf")
REPLICA = StreamPath("/ships", "ny")
SECRET = "5e" * 32
FAST = Timing(
    cursors_s=0.05,
    cursors_behind_s=0.1,
    backoff_first_s=0.02,
    backoff_max_s=0.1,
    answer_s=20,
    skip_dead_s=0.2,
    repair_s=0.05,
    report_s=3600,
    replicator_s=3600,
    stalled_s=3600,
)
"""Workers carry without a replicator, and a busy machine may let a link stand still, and an answer come late."""
STILL = replace(FAST, pulse_s=3600)
"""No pulse, which makes each link ask once, comes into what a test looks at."""


class NoListeners:
    """A server without Kafka."""

    main_address = "127.0.0.1:0"
    connections = 0

    def counters(self) -> dict[str, float]:
        """Nothing passed."""
        return {}

    def memory(self) -> dict[str, int]:
        """Nothing is held."""
        return {}

    def addresses(self) -> dict[str, str]:
        """No stream is exposed."""
        return {}


class Site:
    """A cluster with its links and its HTTP listener."""

    def __init__(
        self,
        name: str,
        folder: Path,
        timing: Timing = FAST,
        storage: Storage | None = None,
        *,
        clock: Clock | None = None,
        port: int = 0,
        guard: Guard | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        self._folder = folder / name
        self._storage = storage or LocalStorage(self._folder)
        self._timing = timing
        self._clock = clock or SystemClock()
        self._settings = replace(Settings(reserve_bytes=0, reserve_ratio=0.0, window_bytes=1_000_000), **settings)
        self.port = port
        self.guard = guard or Guard(self._clock, secret=SECRET)
        self.kafka: KafkaServer
        """Listens once a test starts it."""

    async def __aenter__(self) -> Site:
        self._executor = ThreadPoolExecutor(2)
        self.cluster = await Cluster.open(
            self._storage,
            name=self.name,
            settings=self._settings,
            clock=self._clock,
            randomness=SystemRandomness(),
            executor=self._executor,
        )
        self._http = httpx.AsyncClient(trust_env=False)
        self.apply = ApplyGateway(self.cluster)
        self.apply.start()
        self.manager = LinkManager(
            self.cluster,
            self._http,
            SystemClock(),
            SystemRandomness(),
            data_root=str(self._folder),
            timing=self._timing,
        )
        self.links, self.copies = self.manager.commands, self.manager.copies
        self.kafka = KafkaServer(self.cluster)
        await self._listen()
        self.manager.start()
        self.jobs.start()
        return self

    async def _listen(self) -> None:
        self.transfers = self.manager.transfers
        self.upstreams = RunningUpstreams(self.cluster, self.manager)
        self.upstreams.start()
        self.claims = Claims(self.cluster)
        gateways = self.manager.new_gateways
        self.takeovers = Takeovers(self.cluster, self.manager.running, gateways, Pulls(self.cluster, gateways))
        self.recoveries = Recoveries(self.cluster, gateways, self.links, self.manager.running)
        work: dict[str, Work] = {
            TRANSFER: self.transfers,
            TAKEOVER: self.takeovers,
            CLAIM: self.claims,
            RECOVER: self.recoveries,
        }
        self.jobs = JobRunner(self.cluster, work, self._timing)
        context = RestContext(
            self.cluster,
            self.links,
            KafkaOrders(self.cluster, self.upstreams, self.manager.replicator),
            self.copies,
            self.transfers,
            self.takeovers,
            self.claims,
            self.jobs,
            self.recoveries,
            cast(Any, NoListeners()),
            "tester",
        )
        app = build_app(context, self.manager, self.apply, self.guard, ForwardTaker(self.kafka))
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self.cluster.urls = (self.url,)
        self._listener = Listener(configuration(app, HttpProtocol))
        await self._listener.start(listening)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.url,)

    @property
    def secret_file(self) -> str:
        """Where the secret is that its guard wants."""
        self._folder.mkdir(exist_ok=True)
        control_secret.write(self._folder, bytes.fromhex(SECRET))
        return str(self._folder / control_secret.FILE)

    def control(self, path: str, secret: str = SECRET) -> connect:
        """A connection to /control/<path> that is to be opened."""
        url, headers = f"ws://127.0.0.1:{self.port}/control/{path}", {control_secret.HEADER: secret}
        return connect(url, additional_headers=headers, open_timeout=WAIT_SECONDS)

    async def __aexit__(self, *exc: object) -> None:
        self.apply.close()
        await self.jobs.close()
        await self.upstreams.close()
        await self.manager.close()
        await self._listener.end()
        await self._http.aclose()
        await self.kafka.close()
        await self.cluster.close()
        self._executor.shutdown()

    async def stream(self, path: str, shards: int = 1) -> Stream:
        """A new stream."""
        return await self.cluster.create_stream(path, StreamSettings(shards=shards))

    async def write(self, path: str, topic: str, *values: bytes, partition: int = 0) -> None:
        """Produce one batch, making the topic if it is not there."""
        stream = self.cluster.stream(path)
        if stream.find_topic(topic) is None:
            await stream.create_topic(topic)
        shard, found = stream.topic(topic)
        batch = build_batch([(None, value) for value in values])
        await produced_to(shard, found.number, partition, batch)

    def end(self, path: str, topic: str, partition: int = 0) -> int:
        """Log end offset; -1 if there is no such topic."""
        found = self.cluster.stream(path).find_topic(topic)
        return -1 if found is None else found[0].state.partition(found[1].number, partition).end

    def ends(self, path: str) -> dict[str, int]:
        """Log end by topic."""
        return {topic.name: self.end(path, topic.name) for topic in self.cluster.stream(path).topics()}


def full_once(patching: pytest.MonkeyPatch) -> None:
    """The next change of topics is made to the first of them, and finds the disk full for the others."""
    change = Stream.change_topics

    async def half(stream: Stream, changes: Sequence[Any]) -> list[Topic | Exception]:
        patching.undo()
        return [*await change(stream, changes[:1]), *(StorageFull("data", 0, 1) for _ in changes[1:])]

    patching.setattr(Stream, "change_topics", half)


async def set_up(source: Site, replica: Site, path: str = SHIPS) -> None:
    """What `stream replica autosetup` does at both clusters."""
    await replica.stream(path, shards=len(source.cluster.stream(path).shards))
    await replica.links.add_upstream(path, StreamPath(path, source.name))
    await source.links.autosetup(path, StreamPath(path, replica.name), replica.urls)


@dataclass
class Reading:
    """A grant as the worker holds it."""

    grant: Grant
    at: dict[int, int]
    emitted: dict[int, int]


class Worker:
    """A reader and a sink of one task."""

    def __init__(self, site: Site, name: str = "w1", slots: int = 64) -> None:
        self._site = site
        self.name = name
        self.slots = slots
        self.grants: dict[int, Reading] = {}
        self.given: list[Grant | RepairGrant] = []
        self.withdrawn: list[Withdraw] = []
        self.told_to_drop: list[WithdrawRun] = []
        self.answers: list[Applied | Refused | Error] = []
        self.hold = asyncio.Event()
        self.hold.set()
        """Cleared: frames are made and not sent."""
        self._names: dict[int, FrameTopic] = {}
        self._objects: dict[tuple[bytes, int], list[Any]] = {}
        self._topics: deque[asyncio.Future[Topics]] = deque()
        self._located: deque[asyncio.Future[Located]] = deque()
        self.loses: Callable[[Row], bool] = lambda row: False
        """Rows that are lost on the way, as no correct reader would lose them."""
        self._sockets: dict[tuple[bytes, Any], asyncio.Task[ApplyPeer]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()

    @property
    def granted(self) -> list[Grant]:
        """What it was given, but for repairs."""
        return [message for message in self.given if isinstance(message, Grant)]

    async def __aenter__(self) -> Worker:
        self._reader = await self._site.control("reader")
        self._sink = await self._site.control("sink")
        await self._sink.send(to_json(SinkHello(self.name)))
        await self._reader.send(to_json(ReaderHello(self.name, self.slots)))
        for work in (self._hear_reader(), self._hear_sink(), self._work()):
            self._spawn(work)
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for opening in self._sockets.values():
            with suppress(Exception):
                await (await opening).close()
        await self._reader.close()
        await self._sink.close()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hear_sink(self) -> None:
        with suppress(ConnectionClosed):
            async for text in self._sink:
                self.told_to_drop.append(from_json(text, SINK_HEARS))

    async def _hear_reader(self) -> None:
        with suppress(ConnectionClosed):
            async for text in self._reader:
                message = from_json(text, READER_HEARS)
                if isinstance(message, Topics):
                    self._topics.popleft().set_result(message)
                elif isinstance(message, Located):
                    self._located.popleft().set_result(message)
                elif isinstance(message, Withdraw):
                    self.withdrawn.append(message)
                    self.grants.pop(message.grant, None)
                else:
                    self._inbox.put_nowait(message)

    async def _work(self) -> None:
        while True:
            message = await self._inbox.get()
            if isinstance(message, Grant):
                self.given.append(message)
                self.grants[message.grant] = Reading(message, dict(message.slices), {})
            elif isinstance(message, RepairGrant):
                self.given.append(message)
                for partition in message.partitions:
                    await self._bring(message, partition)
                await self._reader.send(to_json(Done(message.grant)))
            elif isinstance(message, Announce):
                await self._announced(message)

    async def _announced(self, message: Announce) -> None:
        key = (message.source, message.shard)
        if message.reset:
            self._objects[key] = []
        known = self._objects.setdefault(key, [])
        known.extend(message.objects)
        for reading in list(self.grants.values()):
            if (reading.grant.source.stream, reading.grant.shard) == key:
                await self._scan(reading, known, message.end)

    async def _scan(self, reading: Reading, objects: Iterable[Any], end: int) -> None:
        grant = reading.grant
        end = end if grant.until is None else min(end, grant.until)
        lowest = min(reading.at.values())
        try:
            rows = await asyncio.to_thread(self._rows, [o for o in objects if o.end > lowest])
        except Missing:
            await self._reader.send(to_json(ListObjects(grant.source.stream, grant.shard, lowest)))
            return
        for each, at in list(reading.at.items()):
            chosen = [row for row in rows if self._goes(row, grant, each) and at <= row.commit < end]
            if chosen:
                await self._emit(reading, each, at, end, chosen)
                reading.emitted[each] = end
                reading.at[each] = end
        scanned = {each: max(end, at) for each, at in reading.at.items()}
        await self._reader.send(to_json(ReadReport(grant.grant, scanned, reading.emitted)))

    def _rows(self, objects: Iterable[Any]) -> list[Row]:
        storage = self._site.cluster.storage
        rows = [row for each in objects for row in read_whole(storage.get(each.name), each.name).rows()]
        return sorted(rows, key=lambda row: (row.commit, row.row))

    @staticmethod
    def _goes(row: Row, grant: Grant, slice_: int) -> bool:
        away = grant.destination.stream
        return (
            row.kind not in LOCAL_KINDS
            and row.topic != NO_TOPIC
            and slice_of_number(row.topic) == slice_
            and away not in {row.origin, row.via}
        )

    async def _emit(self, reading: Reading, slice_: int, at: int, end: int, rows: list[Row]) -> None:
        grant = reading.grant
        await self._learn(grant, rows)
        rows = [row for row in rows if row.topic in self._names and not self.loses(row)]
        topics = {row.topic: self._names[row.topic] for row in rows}
        frame = Frame(
            link=grant.link,
            run=grant.run,
            source=grant.source.stream,
            shard=grant.shard,
            slices=1 << slice_,
            from_commit=at,
            to_commit=end,
            epoch_id=epoch_before(grant.epochs, end).id,
            topics=topics,
            rows=rows,
            created=grant.created,
        )
        self._spawn(self._send(grant, encode_frame(frame)))

    async def _bring(self, grant: RepairGrant, wanted: RepairPartition) -> None:
        """Repair one partition with one frame."""
        answer: asyncio.Future[Located] = asyncio.get_running_loop().create_future()
        self._located.append(answer)
        source, shard = grant.source.stream, grant.shard
        await self._reader.send(to_json(Locate(source, shard, wanted.number, wanted.partition, wanted.end)))
        located = await answer
        found = await asyncio.to_thread(self._rows, located.objects)
        rows = [
            row
            for row in found
            if (row.topic, row.partition) == (wanted.number, wanted.partition) and row.last_offset >= wanted.end
        ]
        await self._learn(grant, rows)
        end = max((row.last_offset + 1 for row in rows), default=wanted.end)
        frame = Frame(
            link=grant.link,
            run=grant.run,
            source=source,
            shard=shard,
            slices=1 << slice_of_number(wanted.number),
            from_commit=0,
            to_commit=located.end,
            epoch_id=grant.epochs[-1].id,
            topics={wanted.number: self._names[wanted.number]},
            rows=rows,
            repair=Repair(wanted.number, wanted.partition, located.end, last=True, end=end),
            created=grant.created,
        )
        self._spawn(self._send(grant, encode_frame(frame)))

    async def _learn(self, grant: Grant | RepairGrant, rows: list[Row]) -> None:
        for row in rows:
            if row.kind in {Kind.TOPIC, Kind.TOPIC_DELETED}:
                decode = decode_topic if row.kind == Kind.TOPIC else decode_topic_deleted
                payload = decode(bytes(row.batch))
                self._names[row.topic] = FrameTopic(payload.incarnation, payload.name)
        wanted = tuple({row.topic for row in rows} - self._names.keys())
        if wanted:
            answer: asyncio.Future[Topics] = asyncio.get_running_loop().create_future()
            self._topics.append(answer)
            await self._reader.send(to_json(TopicsWanted(grant.source.stream, grant.shard, wanted)))
            for topic in (await answer).topics:
                self._names[topic.number] = FrameTopic(topic.incarnation, topic.name)

    # ------------------------------------------------------------ sink

    async def _send(self, grant: Grant | RepairGrant, data: bytes) -> None:
        key = (grant.link, grant.run)
        if key not in self._sockets:
            self._sockets[key] = asyncio.ensure_future(self._open(grant))
        try:
            socket = await asyncio.shield(self._sockets[key])
            await self.hold.wait()
            await socket.send(data)
        except (OSError, TimeoutError) as error:
            why = ("unreachable", str(error) or "closed")
            await self._sink.send(to_json(Failed(grant.link, grant.run, grant.shard, *why)))

    async def _open(self, grant: Grant | RepairGrant) -> ApplyPeer:
        socket = await asyncio.wait_for(connect_apply(grant.destination.urls[0]), WAIT_SECONDS)
        hello = ApplyHello(
            *(PROTOCOL, grant.link, grant.run, grant.source, grant.destination.stream, grant.shard),
            topic_prefix=grant.topic_prefix,
        )
        await socket.send(to_json(hello))
        answer = from_json(await socket.recv(), APPLY_HEARS)
        if isinstance(answer, Error):
            self.answers.append(answer)
            await self._sink.send(to_json(Failed(grant.link, grant.run, grant.shard, answer.code, answer.message)))
            await socket.close()
            raise PeerClosed
        assert isinstance(answer, Ok)
        self._spawn(self._hear_gateway(socket, grant))
        return socket

    async def _hear_gateway(self, socket: ApplyPeer, grant: Grant | RepairGrant) -> None:
        seen = Applied(0, (), 0, 0, 0)
        with suppress(PeerClosed):
            async for text in socket:
                answer = from_json(text, APPLY_HEARS)
                self.answers.append(answer)
                match answer:
                    case Applied():
                        await self._tell_progress(grant, seen, answer)
                        seen = answer
                    case Refused():
                        at = (grant.shard, answer.slices, answer.position)
                        await self._sink.send(to_json(SlicesRefused(grant.link, grant.run, *at)))
                    case Error():
                        failed = Failed(grant.link, grant.run, grant.shard, answer.code, answer.message)
                        await self._sink.send(to_json(failed))

    async def _tell_progress(self, grant: Grant | RepairGrant, seen: Applied, now: Applied) -> None:
        progress = Progress(
            grant.link,
            grant.run,
            grant.shard,
            {each: at.commit for at in now.slices for each in slices_of_mask(at.slices)},
            frames=now.through - seen.through,
            records=now.records - seen.records,
            behind=now.behind - seen.behind,
            duplicates=now.duplicates - seen.duplicates,
        )
        await self._sink.send(to_json(progress))
