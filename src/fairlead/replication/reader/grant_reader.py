"""Reads what one grant names and hands it on as frames.

In: a `Grant` (which slices, from which commits) and a `LogView` (what may be read). Out: encoded frames, each the rows
of a mask of slices for a range of commits: of all of them, once those that stand behind the others were brought up.
Always true: a frame begins where the last one of each of its slices ended, and no commit at or above the announced end
is read. The next frame covers a stretch without rows, or an empty frame does now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from fairlead.model.errors import Damaged, Missing
from fairlead.replication.carried.referred import REFER_BYTES
from fairlead.replication.credit import CreditWindow
from fairlead.replication.reader.framer import Framer, HandOn
from fairlead.replication.reader.in_thread import READ_AT_ONCE_BYTES, in_thread
from fairlead.replication.reader.log_view import LogView, Send
from fairlead.replication.reader.shared_reads import Found, SharedPart, SharedReads, Turn
from fairlead.storage.interface import Storage
from fairlead.streamlog.numbers import mask_of, slices_of_mask
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.reading.slices import (
    Asked,
    PassingTopics,
    Route,
    SlicePart,
    bytes_in_frame,
    read_passing,
    read_routes,
    read_slices,
)
from fairlead.streamlog.values import LogObject
from fairlead.wire.control import Done, Grant, ReadReport

MISSED_PAUSE_SECONDS_MAX = 5.0
"""Longest pause before an unreadable object is tried again: the server reports damage, and an operator mends it."""

SHARED_BYTES_MAX = 1_000_000
"""Objects of more bytes are not read for several grants at once: the slowest of these keeps what was found."""

POSITION_COMMITS = 10_000
"""If a slice's recorded position lies further behind the commit from which it is read than this, the grant begins with
empty frames: a restart of the server would read all this again."""

log = structlog.get_logger("fairlead.replication.reader")


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """Sizes in bytes."""

    frame_bytes: int = 4_000_000
    position_bytes: int = 64_000_000
    """An empty frame is sent after this much of the log without a row of the grant's slices."""
    refer_bytes: int = REFER_BYTES
    """Frames of at least this size are referred to; see `carried.referred`."""


class GrantReader:
    """One grant, until it is cancelled or its end (`until`) is reached; made on the loop that runs it."""

    def __init__(
        self,
        grant: Grant,
        view: LogView,
        storage: Storage,
        credit: CreditWindow,
        send: Send,
        hand_on: HandOn,
        limits: FrameLimits,
        reads: SharedReads | None = None,
    ) -> None:
        """`reads` are those of all grants of the shard."""
        self.grant = grant
        self.credit = credit
        self._view = view
        self._storage = storage
        self._send = send
        self._limits = limits
        self._reads = reads or SharedReads()
        self._framer = Framer(grant, view, credit, hand_on)
        self._route = route_of(grant)
        self._passing = PassingTopics() if grant.filtered else None
        self._scanned = grant.starts
        self._framed = dict(grant.slices)
        self._emitted: dict[int, int] = {}
        self._read_bytes = 0
        far = any(self._scanned[each] - start > POSITION_COMMITS for each, start in grant.slices.items())
        self._unframed_bytes = limits.position_bytes if far else 0
        self._reported: ReadReport | None = None
        self._misses = Misses()

    @property
    def scanned_to(self) -> int:
        """Every commit below it has been read."""
        return min(self._scanned.values())

    @property
    def caught_up(self) -> bool:
        """Whether everything that may be read was handed on and answered: also what the grant names and no announcement
        has yet."""
        return self.scanned_to >= max(self._target(), self._ends_at(self.grant.end)) and self.credit.settled

    def report(self) -> ReadReport | None:
        """What to tell the server, if it changed since the last call."""
        report = ReadReport(self.grant.grant, dict(self._scanned), dict(self._emitted))
        if report == self._reported:
            return None
        self._reported = report
        return report

    async def run(self) -> None:
        """Read and hand on. Raises StorageUnavailable if the storage fails."""
        self._reads.join()
        try:
            while not self._finished():
                await self._view.beyond(self.scanned_to)
                turn = await self._turn()
                try:
                    await self._take(turn)
                    self._misses = Misses()
                except Damaged as error:
                    await self._framer.flush()  # what was read before it goes on its way
                    await self._misses.pause(error)
                    await self._view.list_again(self.scanned_to)
                self._reads.end(self._framer.made())
        finally:
            self._reads.leave()
        if self.grant.record_end and self.grant.until is not None:
            await self._bring_up(self.grant.until)
            await self._framer.flush()
        await self._send(self.report() or ReadReport(self.grant.grant, dict(self._scanned), dict(self._emitted)))
        await self._send(Done(self.grant.grant))

    def _target(self) -> int:
        return self._ends_at(self._view.end)

    def _ends_at(self, end: int) -> int:
        return end if self.grant.until is None else min(end, self.grant.until)

    def _finished(self) -> bool:
        return self.grant.until is not None and self.scanned_to >= self.grant.until

    async def _turn(self) -> Turn:
        place = (tuple(sorted(self._scanned.items())), tuple(sorted(self._framed.items())), self.grant.until)
        route = self._route if self._passing is None else None
        return await self._reads.turn(place, route, self._target, self._read_together)

    async def _read_together(self, routes: Sequence[Route], target: int) -> Found | None:
        objects = await self._view.objects(self.scanned_to, target)
        return await asyncio.to_thread(self._together, objects, self._view.dead(), routes)

    def _together(self, objects: Sequence[LogObject], dead: DeadRows, routes: Sequence[Route]) -> Found | None:
        size_bytes = self._size_of(objects)
        if size_bytes > SHARED_BYTES_MAX:
            return None
        found = read_routes(
            self._storage,
            objects,
            self._scanned,
            routes,
            framed=self._framed,
            frame_bytes=self._frame_bytes,
            refer_bytes=self._limits.refer_bytes,
            dead=dead,
        )
        shared = {id(parts): [SharedPart(part) for part in parts] for parts in found}
        return Found([shared[id(parts)] for parts in found], size_bytes)

    async def _take(self, turn: Turn) -> None:
        if turn.parts is None:
            await self._read_to(turn.target)
        else:
            for shared in turn.parts:
                await self._part(shared)
            self._read_bytes = turn.size_bytes
        self._scan(self._scanned, turn.target)
        self._unframed_bytes += self._read_bytes
        if self._unframed_bytes >= self._limits.position_bytes:
            await self._bring_up(turn.target)
        await self._framer.flush()

    async def _read_to(self, target: int) -> None:
        objects = await self._view.objects(self.scanned_to, target)
        async for parts in in_thread(
            self._parts(objects, self._view.dead()),
            lambda part: READ_AT_ONCE_BYTES if isinstance(part, Asked) else bytes_in_frame(part.columns),
        ):
            for part in parts:
                if isinstance(part, Asked):
                    await self._ask(part.numbers)
                else:
                    await self._part(SharedPart(part))
            await self._framer.flush()

    async def _bring_up(self, target: int) -> None:
        """Send empty frames to there, one for the slices that stand alike."""
        for start in sorted({at for at in self._framed.values() if at < target}):
            mask = mask_of(each for each, at in self._framed.items() if at == start)
            await self._framer.send(mask, start, target, None)
            self._note_framed(mask, target)

    async def _ask(self, numbers: tuple[int, ...]) -> None:
        """Which of these topics the link brings; the thread has stopped for the answer."""
        assert self._passing is not None
        self._passing.note(numbers, await self._view.ask_passing(self.grant.grant, numbers))

    def _parts(self, objects: Sequence[LogObject], dead: DeadRows) -> Iterator[SlicePart | Asked]:
        """The rows of these objects in parts; this runs in a thread."""
        read = read_slices if self._passing is None else partial(read_passing, passing=self._passing)
        yield from read(
            self._storage,
            objects,
            self._scanned,
            framed=self._framed,
            route=self._route,
            frame_bytes=self._frame_bytes,
            refer_bytes=self._limits.refer_bytes,
            dead=dead,
        )
        self._read_bytes = self._size_of(objects)

    def _size_of(self, objects: Sequence[LogObject]) -> int:
        return sum(self._storage.size(known.name) or 0 for known in objects)

    @property
    def _frame_bytes(self) -> int:
        return min(self._limits.frame_bytes, self.credit.frame_bytes_max)

    async def _part(self, shared: SharedPart) -> None:
        part = shared.part
        if shared.body is None:
            shared.body = await self._framer.body(part.columns if part.referred is None else part.referred)
        await self._framer.send(part.slices, part.from_commit, part.to_commit, shared.body)
        self._note_framed(part.slices, part.to_commit)
        self._scan(slices_of_mask(part.slices), part.to_commit)

    def _note_framed(self, mask: int, to_commit: int) -> None:
        framed = dict.fromkeys(slices_of_mask(mask), to_commit)
        self._framed.update(framed)
        self._emitted.update(framed)
        self._unframed_bytes = 0

    def _scan(self, slices: Iterable[int], to_commit: int) -> None:
        for each in slices:
            self._scanned[each] = max(self._scanned[each], to_commit)


class Misses:
    """Counts failed reads of objects in a row, without success in between."""

    def __init__(self) -> None:
        self._count = 0

    async def pause(self, error: Damaged) -> None:
        """Do not wait the first time that an object is missing: it was merged meanwhile. After that wait longer each
        time."""
        if self._count or not isinstance(error, Missing):
            log.error("object cannot be read", object=error.name, why=error.why, times=self._count + 1)
            await asyncio.sleep(min(0.05 * 2.0 ** min(self._count, 10), MISSED_PAUSE_SECONDS_MAX))
        self._count += 1


def route_of(grant: Grant) -> Route:
    """Which rows go over the link of this grant."""
    own_of = grant.source.stream if grant.forward == "own" else None
    return Route(grant.destination.stream, own_of, grant.cursors, grant.begin)
