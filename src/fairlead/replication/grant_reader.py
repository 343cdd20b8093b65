"""Reads what one grant names and hands it on as frames; and the same for a repair.

In: a `Grant` (which slices, from which commits) and a `LogView` (what may be read). Out: encoded frames, each the rows
of one slice for a range of commits. Always true: a frame begins where the slice's last one ended, no commit at or above
the announced end is read, and a stretch without rows is covered by the next frame, or by an empty one now and then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import structlog

from fairlead.gateway.messages import (
    PROTOCOL,
    ApplyHello,
    Done,
    Grant,
    Located,
    ReadReport,
    RepairGrant,
    RepairPartition,
)
from fairlead.model.errors import CorruptBatch, Damaged, Missing
from fairlead.replication.credit import Credit
from fairlead.replication.link_rows import Address, LinkFrame
from fairlead.replication.log_view import LogView, Send
from fairlead.replication.referred import REFER_BYTES, refer
from fairlead.storage.interface import Storage
from fairlead.streamlog import payloads
from fairlead.streamlog.format import Columns
from fairlead.streamlog.frames import Frame, FrameTopic, Repair
from fairlead.streamlog.frames_codec import encode_frame, encode_frame_columns
from fairlead.streamlog.reader import ROW_BYTES, Route, SlicePart, read_partition, read_slices
from fairlead.streamlog.reader import Located as LocatedRows
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import EpochRange, LogObject

MISSED_PAUSE_SECONDS_MAX = 5.0
"""Damage is the server's to report and an operator's to mend; a reader looks again now and then."""

READ_INTERVAL_SECONDS_MAX = 0.02
"""Between the beginnings of two reads of a busy log no more is waited for, so that commits gather."""

READ_AT_ONCE_BYTES = 256 * 1024
"""Parts of a log that are fetched from the thread that reads them together, and their small frames handed on so."""

POSITION_COMMITS = 10_000
"""A grant sends an empty frame for a slice whose recorded position lies so far behind where it is read from: so much is
read again after a restart of the server."""

HandOn = Callable[[LinkFrame], Awaitable[None]]
T = TypeVar("T")

log = structlog.get_logger("fairlead.replication.reader")


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """Sizes in bytes."""

    frame_bytes: int = 4_000_000
    position_bytes: int = 64_000_000
    """An empty frame is sent after so much of the log without a row of the slice."""


class Pace:
    """How often a busy log is read. Between two reads passes as much time as the first one took, so a log is read often
    where that is cheap, and commits gather where it is not because the machine is busy; but a read never begins later
    than `interval_max` after the one before on account of this. After a rest a lone commit is read at once.
    """

    def __init__(self, clock: Callable[[], float], interval_max: float = READ_INTERVAL_SECONDS_MAX) -> None:
        self._clock = clock
        self._interval_max = interval_max
        self._began = self._next = clock()

    def wait_seconds(self) -> float:
        """Until a read may begin."""
        return max(self._next - self._clock(), 0)

    def begin(self) -> None:
        """A read begins."""
        self._began = self._clock()

    def end(self) -> None:
        """It has ended."""
        took = self._clock() - self._began
        self._next = self._began + min(2 * took, self._interval_max)


class _Framer:
    """Makes frames of one grant and hands them on: small ones that are made one after the other together, so that they
    pass through Spark in one row and share a commit at the destination."""

    def __init__(self, grant: Grant | RepairGrant, view: LogView, credit: Credit, hand_on: HandOn) -> None:
        self._grant = grant
        self._view = view
        self._credit = credit
        self._hand_on = hand_on
        self._ready: list[LinkFrame] = []
        self._ready_bytes = 0
        hello = ApplyHello(PROTOCOL, grant.link, grant.run, grant.source, grant.destination.stream)
        self._address = Address(hello, grant.destination).to_json()

    async def send(
        self,
        slice_: int,
        from_commit: int,
        to_commit: int,
        rows: Columns | LocatedRows | None,
        repair: Repair | None = None,
    ) -> None:
        """Make a frame, when the destination has room, with these rows (None: no rows) or with where they lie. It is
        handed on with the next `flush`, if not before."""
        topics = {} if repair is None else await self._view.names([repair.number])
        if rows is not None:
            rows, named = await self._named(rows)
            topics |= named
        grant = self._grant
        frame = Frame(
            link=grant.link,
            run=grant.run,
            source=grant.source.stream,
            shard=grant.shard,
            slice=slice_,
            from_commit=from_commit,
            to_commit=to_commit,
            epoch_id=epoch_id_of(grant.epochs, to_commit),
            topics=topics,
            rows=(),
            repair=repair,
            link_created_at=grant.link_created_at,
        )
        if isinstance(rows, LocatedRows):
            referred = refer(grant.data_root, frame, rows)
            await self._hand(referred.to_bytes(), referred.size_bytes, referred=True)
        else:
            data = encode_frame(frame) if rows is None else encode_frame_columns(frame, rows)
            await self._hand(data, len(data))

    async def _hand(self, data: bytes, size_bytes: int, *, referred: bool = False) -> None:
        if not self._credit.has_room(size_bytes):
            # What the destination has not got it cannot answer.
            await self.flush()
        await self._credit.take(size_bytes)
        self._ready.append(LinkFrame(self._address, self._grant.shard, data, size_bytes, referred))
        self._ready_bytes += size_bytes
        if self._ready_bytes >= READ_AT_ONCE_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Hand on what is ready."""
        ready, self._ready, self._ready_bytes = self._ready, [], 0
        for frame in ready:
            await self._hand_on(frame)

    async def _named(self, rows: Columns | LocatedRows) -> tuple[Columns | LocatedRows, dict[int, FrameTopic]]:
        """The topics of the rows. Rows of topics that are gone are left out: their tombstone, which names the topic
        itself, is further on in the log."""
        columns = rows.columns if isinstance(rows, LocatedRows) else rows
        self._view.learn(topics_told(columns, f"shard {self._grant.shard} of {self._grant.source.path}"))
        numbers = np.unique(columns.topic)
        topics = await self._view.names(numbers.tolist())
        if len(topics) == len(numbers):
            return rows, topics
        known = np.flatnonzero(np.isin(columns.topic, np.array(list(topics), np.uint32)))
        return (rows if len(known) else columns).take(known), topics


class GrantReader:
    """One grant, until it is cancelled or its end (`until`) is reached."""

    def __init__(
        self,
        grant: Grant,
        view: LogView,
        storage: Storage,
        credit: Credit,
        send: Send,
        hand_on: HandOn,
        limits: FrameLimits,
    ) -> None:
        self.grant = grant
        self.credit = credit
        self._view = view
        self._storage = storage
        self._send = send
        self._limits = limits
        self._pace = Pace(time.monotonic)
        self._framer = _Framer(grant, view, credit, hand_on)
        self._route = route_of(grant)
        self._scanned = grant.starts
        self._framed = dict(grant.slices)
        self._emitted: dict[int, int] = {}
        self._read_bytes = 0
        self._unframed_bytes = {
            each: limits.position_bytes if self._scanned[each] - start > POSITION_COMMITS else 0
            for each, start in grant.slices.items()
        }
        self._reported: ReadReport | None = None
        self._misses = _Misses()

    @property
    def scanned_to(self) -> int:
        """Every commit below it has been read."""
        return min(self._scanned.values())

    @property
    def caught_up(self) -> bool:
        """Everything that may be read was handed on and answered."""
        return self.scanned_to >= self._target() and self.credit.settled

    def report(self) -> ReadReport | None:
        """What to tell the server, if it changed since the last call."""
        report = ReadReport(self.grant.grant, dict(self._scanned), dict(self._emitted))
        if report == self._reported:
            return None
        self._reported = report
        return report

    async def run(self) -> None:
        """Read and hand on. Raises StorageUnavailable if the storage fails."""
        while not self._finished():
            await self._view.beyond(self.scanned_to)
            await asyncio.sleep(self._pace.wait_seconds())
            self._pace.begin()
            try:
                await self._read_to(self._target())
                self._misses = _Misses()
            except Damaged as error:
                await self._misses.pause(error)
                await self._view.list_again(self.scanned_to)
            self._pace.end()
        await self._send(self.report() or ReadReport(self.grant.grant, dict(self._scanned), dict(self._emitted)))
        await self._send(Done(self.grant.grant))

    def _target(self) -> int:
        end, until = self._view.end, self.grant.until
        return end if until is None else min(end, until)

    def _finished(self) -> bool:
        return self.grant.until is not None and self.scanned_to >= self.grant.until

    async def _read_to(self, target: int) -> None:
        objects = await self._view.objects(self.scanned_to, target)
        async for parts in in_thread(self._parts(objects), lambda part: size_of(part.columns)):
            for part in parts:
                await self._part(part)
            await self._framer.flush()
        for slice_ in self._scanned:
            self._scanned[slice_] = max(self._scanned[slice_], target)
            self._unframed_bytes[slice_] += self._read_bytes
            if self._unframed_bytes[slice_] >= self._limits.position_bytes and self._framed[slice_] < target:
                await self._frame(slice_, target, None)
        await self._framer.flush()

    def _parts(self, objects: Sequence[LogObject]) -> Iterator[SlicePart]:
        """Used in a thread."""
        yield from read_slices(
            self._storage,
            objects,
            self._scanned,
            route=self._route,
            frame_bytes=self._limits.frame_bytes,
            refer_bytes=REFER_BYTES,
        )
        self._read_bytes = sum(self._storage.size(known.name) or 0 for known in objects)

    async def _part(self, part: SlicePart) -> None:
        await self._frame(part.slice, part.to_commit, part.columns if part.referred is None else part.referred)
        self._scanned[part.slice] = part.to_commit

    async def _frame(self, slice_: int, to_commit: int, rows: Columns | LocatedRows | None) -> None:
        await self._framer.send(slice_, self._framed[slice_], to_commit, rows)
        self._framed[slice_] = self._emitted[slice_] = to_commit
        self._unframed_bytes[slice_] = 0


class _Misses:
    """Objects that could not be read, one after the other without success in between."""

    def __init__(self) -> None:
        self._count = 0

    async def pause(self, error: Damaged) -> None:
        """An object that is missing once was merged meanwhile: ask again at once. After that wait longer each time."""
        if self._count or not isinstance(error, Missing):
            log.error("object cannot be read", object=error.name, why=error.why, times=self._count + 1)
            await asyncio.sleep(min(0.05 * 2.0 ** min(self._count, 10), MISSED_PAUSE_SECONDS_MAX))
        self._count += 1


class RepairReader:
    """Brings partitions that a replica has noted behind: found by the index, one by one, in frames of their own."""

    def __init__(
        self,
        grant: RepairGrant,
        view: LogView,
        storage: Storage,
        credit: Credit,
        send: Send,
        hand_on: HandOn,
        limits: FrameLimits,
    ) -> None:
        self.grant = grant
        self.credit = credit
        self._view = view
        self._storage = storage
        self._send = send
        self._limits = limits
        self._framer = _Framer(grant, view, credit, hand_on)
        self._done = False

    @property
    def caught_up(self) -> bool:
        """Every partition was read, handed on and answered."""
        return self._done and self.credit.settled

    def report(self) -> None:
        """A repair moves no position."""

    async def run(self) -> None:
        """Read and hand on. Raises StorageUnavailable if the storage fails."""
        for partition in self.grant.partitions:
            await self._repair(partition)
        await self.credit.until_settled()
        self._done = True
        await self._send(Done(self.grant.grant))

    async def _repair(self, wanted: RepairPartition) -> None:
        """The last frame says so; without a row it is empty, so that the note is cleared all the same."""
        misses = _Misses()
        while True:
            located = await self._view.locate(wanted.number, wanted.partition, wanted.end)
            try:
                end = await self._bring(wanted, located)
            except Damaged as error:
                await misses.pause(error)
            else:
                await self._frame(wanted, located.end, end, None, last=True)
                return

    async def _bring(self, wanted: RepairPartition, located: Located) -> int:
        """Hand on every row from where the partition is behind; where its log ends with them."""
        end = wanted.end
        parts = read_partition(
            self._storage,
            located.objects,
            wanted.number,
            wanted.partition,
            wanted.end,
            route=route_of(self.grant),
            frame_bytes=self._limits.frame_bytes,
        )
        async for found in in_thread(parts, size_of):
            for columns in found:
                end = max(end, end_told(columns))
                await self._frame(wanted, located.end, end, columns, last=False)
        return end

    async def _frame(
        self, wanted: RepairPartition, read_to: int, end: int, columns: Columns | None, *, last: bool
    ) -> None:
        repair = Repair(wanted.number, wanted.partition, read_to, last, end)
        await self._framer.send(wanted.number & 15, read_to, read_to, columns, repair)
        await self._framer.flush()


def size_of(columns: Columns) -> int:
    """About so many bytes are in a frame of these rows."""
    return columns.batch_bytes() + ROW_BYTES * len(columns)


def end_told(columns: Columns) -> int:
    """Where a partition's log ends with these rows, its batches and START rows; 0 if there are none."""
    ends = np.where(columns.kind == Kind.BATCH, columns.last_offset + 1, 0)
    starts = np.where(columns.kind == Kind.START, columns.base_offset, 0)
    return int(max(ends.max(initial=0), starts.max(initial=0)))


def route_of(grant: Grant | RepairGrant) -> Route:
    """Which rows go over the link of this grant."""
    return Route(grant.destination.stream, own_only=grant.forward == "own")


def epoch_id_of(epochs: tuple[EpochRange, ...], to_commit: int) -> bytes:
    """Random id of the writer epoch in which the commit before `to_commit` lies."""
    last = max(to_commit - 1, 0)
    for known in reversed(epochs):
        if known.first <= last:
            return known.id
    return epochs[0].id


def topics_told(columns: Columns, where: str) -> dict[int, FrameTopic]:
    """Topics that the rows themselves name: those of TOPIC and TOPIC_DELETED rows.

    Raises:
        Damaged: such a row cannot be read; `where` is the log that the message names.
    """
    told: dict[int, FrameTopic] = {}
    for place in np.flatnonzero(np.isin(columns.kind, (Kind.TOPIC, Kind.TOPIC_DELETED))).tolist():
        decode = payloads.decode_topic if columns.kind[place] == Kind.TOPIC else payloads.decode_topic_deleted
        try:
            topic = decode(columns.batch(place))
        except CorruptBatch as error:
            raise Damaged(f"commit {columns.commit[place]} in {where}", str(error)) from error
        told[int(columns.topic[place])] = FrameTopic(topic.incarnation, topic.name)
    return told


async def in_thread(items: Iterator[T], size_of: Callable[[T], int]) -> AsyncIterator[list[T]]:
    """The items of an iterator that blocks, fetched in a thread: some `READ_AT_ONCE_BYTES` each time, for a change of
    threads costs more than a small item. What came before an error is given before it is raised."""
    ended = False
    while not ended:
        found, ended, error = await asyncio.to_thread(_some, items, size_of)
        if found:
            yield found
        if error is not None:
            raise error


def _some(items: Iterator[T], size_of: Callable[[T], int]) -> tuple[list[T], bool, Exception | None]:
    """The next items; whether there are no more; why."""
    found: list[T] = []
    size_bytes = 0
    try:
        for item in items:
            found.append(item)
            size_bytes += size_of(item)
            if size_bytes >= READ_AT_ONCE_BYTES:
                return found, False, None
    except Exception as error:
        return found, True, error
    return found, True, None
