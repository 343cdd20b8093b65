"""One cluster: opened from its storage, it gives out streams and keeps their settings.

The cluster's own log lies under `meta/`. An entry STREAM makes a stream; GONE says that a deleted stream's objects are
to be removed, so that a restored, older `meta/` never deletes a stream that it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from fairlead.cluster.consumers import Consumers
from fairlead.cluster.diverged import copy_tails
from fairlead.cluster.jobs import Jobs
from fairlead.cluster.kafka_upstreams import KafkaUpstreams
from fairlead.cluster.keys import GONE, LEVEL, LISTENER, STREAM, VERSION, check_level, check_versions
from fairlead.cluster.links import Links
from fairlead.cluster.partition_room import PartitionRoom
from fairlead.cluster.records import put_record
from fairlead.cluster.removals import Removals
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import StreamRecord, StreamSettings, stream_from_json, stream_json
from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import (
    AlreadyExists,
    BadRequest,
    CorruptBatch,
    Damaged,
    FairleadError,
    InvalidValue,
    UnknownStream,
    another,
)
from fairlead.model.limits import LEVEL_MAX
from fairlead.model.names import StreamPath, check_cluster_name, parse_stream_path
from fairlead.model.settings import Settings
from fairlead.storage import identity, names
from fairlead.storage.identity import Identity
from fairlead.storage.interface import Put, Storage
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.reading.read_ahead import read_ahead_bytes
from fairlead.streamlog.reading.recent import RecentBatches
from fairlead.streamlog.values import Opener
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import delete_entry, put_entry
from fairlead.streamlog.writing.shard import Shard

log = structlog.get_logger()

DEFAULT_STREAM = "/default"
LOOKUP_THREADS: Final = 2
"""Each may hold tens of MB that it decompresses, and takes a part of the interpreter's time."""


def identify(storage: Storage, name: str, randomness: Randomness) -> bytes:
    """The cluster's id; on empty storage a new one is made and recorded with the name.

    Raises:
        BadRequest: the storage is another cluster's, or of a version that this program does not know.
        Damaged: the description is damaged or another's, or is missing although there is a cluster; or the cluster's
            own log is missing.
    """
    if storage.size(names.CLUSTER) is not None:
        identity.decode(storage.get(names.CLUSTER))  # first: its version says more than a manifest that is not read
    own_log = manifests.newest(storage, names.META)
    held = None if own_log is None else own_log.log
    if storage.size(names.CLUSTER) is None:
        _make_identity(storage, identity.encode(Identity(check_cluster_name(name), randomness.id16())), held)
    found = identity.decode(storage.get(names.CLUSTER))
    if found.name != name:
        owner = found.name
        raise BadRequest(f"the data directory belongs to cluster {owner}, not {name}; start it with --name {owner}")
    if held is None:
        _check_new(storage)
    elif held != found.id:
        raise identity.of_another(found, held)
    return found.id


def _check_new(storage: Storage) -> None:
    """The cluster's own log knows every stream before its first object is there."""
    if next(iter(storage.list(names.META + "/")), None) is None:
        for stream in storage.list(names.STREAMS + "/"):
            raise Damaged(names.META, f"the cluster's own log is missing, and streams are there ({stream})")


def _make_identity(storage: Storage, fresh: bytes, held: bytes | None) -> None:
    """It is put before anything else is: where other objects are, it was lost, and with another id the links of other
    clusters would lead to nowhere. `held`: the id in the cluster's own log."""
    for prefix in (names.META, names.STREAMS):
        for there in storage.list(prefix + "/"):
            whose = "" if held is None else f"; it was that of {held.hex()}"
            raise Damaged(names.CLUSTER, f"the description of the cluster is missing, and {there} is there{whose}")
    if storage.put_if_absent(names.CLUSTER, fresh) is Put.UNKNOWN:
        storage.put_if_absent(names.CLUSTER, fresh)


class Cluster:
    """All streams of one site. Made by `open`; every method runs on one event loop."""

    def __init__(
        self,
        *,
        name: str,
        id: bytes,
        storage: Storage,
        settings: Settings,
        clock: Clock,
        randomness: Randomness,
        executor: Executor,
        meta: Shard,
        recent: RecentBatches,
        opener: Opener,
    ) -> None:
        self.name = name
        self.id = id
        self.storage = storage
        self.settings = settings
        self.clock = clock
        self.randomness = randomness
        self.executor = executor
        self.lookups: Executor = ThreadPoolExecutor(LOOKUP_THREADS, "fairlead-lookup")
        """Threads for look-ups by time, which decompress what clients sent: commits and reads have others."""
        self.default_stream = DEFAULT_STREAM
        self.urls: tuple[str, ...] = ()
        """This cluster's own HTTP addresses, set by the server once it listens."""
        self.meta = meta
        self.recent = recent
        """The newest batches of all its logs."""
        self._opener = opener
        self.links = Links(meta)
        self.links.listen(self._note_upstreams)
        self.kafka = KafkaUpstreams(meta)
        """Kafka clusters whose topics streams keep."""
        self.kafka.listen(self._note_upstreams)
        self.jobs = Jobs(meta, clock, randomness)
        self._streams: dict[str, Stream] = {}
        self.consumers = Consumers()
        self._room = PartitionRoom(settings, self._partitions_total)
        self.damaged: dict[str, Damaged] = {}
        """Streams that could not be opened, by path: one damaged object does not keep the others from their users."""
        self._changing = asyncio.Lock()
        self._stream_listeners: list[Callable[[], None]] = []
        self._removals = Removals(storage, meta, executor)

    @classmethod
    async def open(
        cls,
        storage: Storage,
        *,
        name: str,
        settings: Settings,
        clock: Clock,
        randomness: Randomness,
        executor: Executor,
    ) -> Cluster:
        """Open the cluster on its storage, or make it there; the default stream is made with it.

        The caller holds the directory's lock, where the storage is a directory, and ends `executor`.

        Raises:
            BadRequest: the storage, or an entry of its log, is another cluster's or of an unknown version.
            Damaged: the cluster's own log cannot be read.
        """
        loop = asyncio.get_running_loop()
        cluster_id = await loop.run_in_executor(executor, identify, storage, name, randomness)
        recent = RecentBatches(settings)
        opener = Opener(run=randomness.id16())
        meta = await Shard.open(
            storage,
            names.META,
            stream_id=cluster_id,
            clock=clock,
            randomness=randomness,
            executor=executor,
            settings=settings,
            recent=recent,
            opener=opener,
            on_stop=partial(_tell_stop, names.META),
        )
        try:
            if meta.stopped is not None:
                raise another(meta.stopped)
            check_versions(meta.state.entries)
            check_level(meta.state.entries)
        except FairleadError:
            await meta.close()
            raise
        cluster = cls(
            name=name,
            id=cluster_id,
            storage=storage,
            settings=settings,
            clock=clock,
            randomness=randomness,
            executor=executor,
            meta=meta,
            recent=recent,
            opener=opener,
        )
        if LEVEL not in meta.state.entries:
            await meta.submit(lambda draft: put_record(draft, LEVEL, {"v": VERSION, "level": LEVEL_MAX}))
        await cluster._open_streams()
        return cluster

    async def close(self) -> None:
        """Finish what is being written and stop."""
        self.lookups.shutdown(wait=False, cancel_futures=True)
        await self._removals.close()
        shards = [shard for stream in self._streams.values() for shard in stream.shards]
        await asyncio.gather(*(shard.close(checkpoint=True) for shard in [*shards, self.meta]))
        for stream in self._streams.values():
            stream.owner_log.flush()

    def memory(self) -> dict[str, int]:
        """Bytes of memory by what they are for."""
        shards = [self.meta, *(shard for stream in self._streams.values() for shard in stream.shards)]
        return {
            "recent_batches": self.recent.size_bytes,
            "column_caches": sum(shard.reader.columns_bytes for shard in shards),
            "read_ahead": read_ahead_bytes(),
            "indexes": sum(shard.announced.tail.size_bytes + shard.state.tables_bytes for shard in shards),
        }

    def stream(self, path: str) -> Stream:
        """The stream at a local path.

        Raises:
            UnknownStream: there is none.
            Damaged: there is one, and it could not be opened.
        """
        found = self._streams.get(path)
        if found is None:
            if path in self.damaged:
                raise another(self.damaged[path])
            raise UnknownStream(f"stream {path} does not exist in cluster {self.name}")
        return found

    def _partitions_total(self) -> int:
        return sum(stream.partitions_total for stream in list(self._streams.values()))

    def stream_by_id(self, id: bytes) -> Stream | None:
        """The stream with that id."""
        return next((stream for stream in self._streams.values() if stream.id == id), None)

    def stream_of(self, id: bytes, path: str) -> Stream:
        """The stream with that id, which was at that path.

        Raises:
            UnknownStream: it was deleted.
            Damaged: it could not be opened.
        """
        stream = self.stream_by_id(id)
        if stream is None:
            damaged = self.damaged.get(path)
            if damaged is not None:
                raise damaged
            raise UnknownStream(f"stream {path} was deleted")
        return stream

    def urls_at(self, path: StreamPath, noted: tuple[str, ...]) -> tuple[str, ...]:
        """The gateways of the cluster of a global path, as they were `noted`; this cluster's own addresses may have
        changed since."""
        return self.urls if path.cluster == self.name else noted

    @property
    def start(self) -> tuple[bytes, int]:
        """By which sources know this start of the server, the id of the writer epoch of its own log; and how many
        partitions that links had set aside are to be brought, since then."""
        return self.meta.epoch.id, sum(stream.resolved for stream in self._streams.values())

    def streams(self) -> list[Stream]:
        """All streams, by path."""
        return [self._streams[path] for path in sorted(self._streams)]

    def global_path(self, path: str) -> StreamPath:
        """A local path as other clusters name it."""
        return StreamPath(path, self.name)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after a stream was made, edited or deleted."""
        self._stream_listeners.append(listener)

    async def create_stream(self, path: str, settings: StreamSettings) -> Stream:
        """Make an empty stream.

        Raises:
            InvalidName: the path breaks its rule.
            AlreadyExists: there is a stream at the path.
        """
        path = parse_stream_path(path).path
        async with self._changing:
            if path in self._streams or path in self.damaged:
                raise AlreadyExists(f"stream {path} exists in cluster {self.name}")
            stamped = replace(settings, created_at=self.clock.wall_ms())
            record = StreamRecord(self.randomness.id16(), path, stamped)
            await self._put_stream(record)
            try:
                stream = await self._open_stream(record)
            except FairleadError as error:
                await self._take_back(record, error)
                raise
            for shard in stream.shards:
                shard.links_passed = None
                shard.note_newest(self.meta.now_ms)
        self._changed()
        return stream

    async def _take_back(self, record: StreamRecord, error: FairleadError) -> None:
        """A stream that was recorded and cannot be opened (a full disk) is no stream: a second one would be made at its
        path, and after a restart either would be the one that is found."""

        def request(draft: Draft) -> None:
            put_entry(draft, GONE.key(record.id), _gone_json(record.path))
            delete_entry(draft, STREAM.key(record.id))

        try:
            await self.meta.submit(request)
        except FairleadError:
            self.damaged[record.path] = Damaged(names.stream_prefix(record.id), f"could not be made ({error})")
        else:
            self._removals.begin(record.id)

    async def edit_stream(self, path: str, **changes: Any) -> Stream:
        """Change settings of a stream: fields of `StreamSettings` except `shards` and `created_at`.

        Raises:
            UnknownStream, InvalidValue.
        """
        fixed = {"shards", "created_at"} & changes.keys()
        if fixed:
            raise InvalidValue(f"{', '.join(sorted(fixed))} cannot be changed after creation")
        async with self._changing:
            stream = self.stream(path)
            record = replace(stream.record, settings=replace(stream.settings, **changes))
            await self._put_stream(record)
            self._apply(stream, record)
        self._changed()
        return stream

    async def delete_stream(self, path: str) -> None:
        """Delete a stream with its topics, links and upstreams; its objects are removed in the background.

        Raises:
            UnknownStream.
        """
        async with self._changing:
            stream = self.stream(path)
            await self.links.forget_stream(stream.id)
            await self.kafka.forget_stream(stream.id)

            def request(draft: Draft) -> None:
                put_entry(draft, GONE.key(stream.id), _gone_json(path))
                delete_entry(draft, STREAM.key(stream.id))
                delete_entry(draft, LISTENER.key(stream.id))

            await self.meta.submit(request)
            del self._streams[path]
            self._room.forget(stream.shards)
        self._changed()
        await asyncio.gather(*(shard.close() for shard in stream.shards))
        self._removals.begin(stream.id)

    def listeners(self) -> dict[bytes, int]:
        """Stream listeners that start with the server: stream id to port."""
        return {id: entry["port"] for id, entry in LISTENER.found(self.meta.state.entries)}

    async def set_listener(self, path: str, port: int | None) -> None:
        """Remember that a stream is exposed on a port of its own, or with None that it is no more.

        Raises:
            UnknownStream.
        """
        key = LISTENER.key(self.stream(path).id)

        def request(draft: Draft) -> None:
            if port is None:
                delete_entry(draft, key)
            else:
                put_record(draft, key, {"v": VERSION, "port": port})

        await self.meta.submit(request)

    async def _open_streams(self) -> None:
        entries = dict(self.meta.state.entries)
        records = [stream_from_json(id, entry) for id, entry in STREAM.found(entries)]
        await asyncio.gather(*map(self._open_or_note, records))
        self._compare_times()
        for id, _ in GONE.found(entries):
            self._removals.begin(id)
        if self.default_stream not in {*self._streams, *self.damaged}:
            await self.create_stream(self.default_stream, StreamSettings())

    def _compare_times(self) -> None:
        """Tell every log how far the others were: the one of a quiet stream does not know how long the cluster ran."""
        shards = [self.meta, *(shard for stream in self.streams() for shard in stream.shards)]
        newest_ms = [shard.state.appended_at_last for shard in shards]
        now_ms = self.clock.wall_ms()
        known_ms = max((found for found in newest_ms if found <= now_ms), default=0)
        for shard in shards:
            shard.note_newest(known_ms)

    async def _open_or_note(self, record: StreamRecord) -> None:
        """Open a stream, or note that it is damaged. An error that nobody foresaw is the stream's own too: the others
        are served.

        Raises:
            FairleadError: it ails the machine or the storage as a whole.
        """
        try:
            await self._open_stream(record)
        except Exception as error:
            damage = _damage(record, error)
            log.error("stream is damaged", stream=record.path, error=str(damage), exc_info=damage is not error)
            self.damaged[record.path] = damage

    async def _open_stream(self, record: StreamRecord) -> Stream:
        opening = (self._open_shard(record, n) for n in range(record.settings.shards))
        found = await asyncio.gather(*opening, return_exceptions=True)
        shards = [shard for shard in found if isinstance(shard, Shard)]
        for error in found:
            if isinstance(error, BaseException):
                await asyncio.gather(*(shard.close() for shard in shards))
                raise error
        stream = Stream(record, shards, self._room, self.name, self.consumers)
        for shard in shards:
            shard.on_news = stream.hear
            shard.copy_tails = partial(copy_tails, stream, shard, partial(self.links.path_of, stream.id))
        self._streams[record.path] = stream
        self._apply(stream, record)
        self._note_upstreams()
        return stream

    async def _open_shard(self, record: StreamRecord, number: int) -> Shard:
        shard = await Shard.open(
            self.storage,
            names.shard_prefix(record.id, number),
            stream_id=record.id,
            clock=self.clock,
            randomness=self.randomness,
            executor=self.executor,
            settings=self.settings,
            recent=self.recent,
            opener=self._opener,
            on_stop=partial(_tell_stop, f"{record.path}, shard {number}"),
        )
        shard.links_passed = 0  # until the gateway has taken its links over, which may be long after
        return shard

    def _apply(self, stream: Stream, record: StreamRecord) -> None:
        stream.record = record
        for shard in stream.shards:
            shard.set_retention(
                ttl_ms=record.settings.ttl_seconds * 1000,
                producer_expiry_ms=record.settings.pid_expiry_seconds * 1000,
            )

    def _note_upstreams(self) -> None:
        for stream in self._streams.values():
            copies = any(not each.multimaster for each in self.links.upstreams(stream.id))
            stream.is_copy = copies or bool(self.kafka.of(stream.id))

    def _changed(self) -> None:
        for listener in self._stream_listeners:
            listener()

    async def _put_stream(self, record: StreamRecord) -> None:
        await self.meta.submit(lambda draft: put_record(draft, STREAM.key(record.id), stream_json(record)))


def _tell_stop(name: str, error: FairleadError) -> None:
    """Whoever writes is told, and who asks for the health; this is for who reads what the server prints."""
    log.error("a log has stopped and takes no more writes", of=name, error=str(error))


def _damage(record: StreamRecord, error: Exception) -> Damaged:
    """What keeps a stream from being opened, as its damage. Raises the error if it speaks of more than the stream."""
    if isinstance(error, Damaged):
        return error
    if isinstance(error, FairleadError) and not isinstance(error, CorruptBatch):
        raise error
    return Damaged(names.stream_prefix(record.id), f"cannot be opened ({type(error).__name__}: {error})")


def _gone_json(path: str) -> dict[str, Any]:
    return {"v": VERSION, "path": path}
