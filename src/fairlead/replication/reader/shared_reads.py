"""One read of a log for all grants of a worker that stand at the same place of it: a stream with many replicas.

Grants that wait for commits meet here. For those that stand at one place the first one reads: the objects once, and
for those to whom the same rows go, the very same parts, which are encoded once too. All go on to the same commit, so
that a grant that was slower than the others stands where they do from then on. Large reads, and those of a link that
leaves topics out, are everybody's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairlead.model.errors import FairleadError
from fairlead.replication.reader.framer import Body
from fairlead.streamlog.reading.slices import Route, SlicePart

READ_INTERVAL_SECONDS_MAX = 0.02
"""A busy log is read at intervals of at most this, so that commits gather between two reads."""

FRAME_SECONDS = 0.002
"""A frame is work for seven processes: a worker makes no more of them than this while many links are busy, and the rows
that wait go out together."""
FRAMES_SECONDS_MAX = 0.25
"""A log waits no longer than this because of the frames of others."""

Place = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...], int | None]
"""(by slice, from where is read; by slice, where its last frame ended; where the grant ends, if it does)."""


class ReadPace:
    """How often a busy log is read. After a read, the next one waits as long as that read took: a log is read often
    if reading is cheap, and commits gather if it is not because the machine is busy. This never delays the beginning
    of a read beyond `interval_max` after the one before. After a rest a lone commit is read at once.
    """

    def __init__(self, clock: Callable[[], float], interval_max: float = READ_INTERVAL_SECONDS_MAX) -> None:
        self._clock = clock
        self._interval_max = interval_max
        self._began = self._next = clock()

    def wait_seconds(self) -> float:
        """Seconds until a read may begin."""
        return max(self._next - self._clock(), 0)

    def begin(self) -> None:
        """Note that a read begins."""
        self._began = self._clock()

    def end(self, busy_until: float = 0.0) -> None:
        """Note that it has ended, with all that one of its grants had to do; the last one counts. Frames that were made
        keep others busy until then."""
        took = self._clock() - self._began
        busy = min(busy_until, self._began + FRAMES_SECONDS_MAX)
        self._next = max(self._began + min(2 * took, self._interval_max), busy)


class FrameWork:
    """How long the frames of all grants of a worker keep busy those who pass them on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._busy_until = clock()

    def made(self, frames: int) -> float:
        """Note so many more frames; until when they, and those before them, are work.

        What is owed for them never exceeds `FRAMES_SECONDS_MAX`: after long load a lone commit waits no longer.
        """
        if frames:
            now = self._clock()
            self._busy_until = min(max(self._busy_until, now) + frames * FRAME_SECONDS, now + FRAMES_SECONDS_MAX)
        return self._busy_until


@dataclass(slots=True)
class SharedPart:
    """A part, and what its frames have in common once the first of them was made."""

    part: SlicePart
    body: Body | None = None


class Found(NamedTuple):
    """What one read has found."""

    parts: Sequence[Sequence[SharedPart]]
    """For each route that was asked for."""
    size_bytes: int
    """Of the objects."""


class Turn(NamedTuple):
    """A grant's turn to go on."""

    target: int
    """The end of what is read."""
    parts: Sequence[SharedPart] | None
    """What was read for it; None: it reads by itself."""
    size_bytes: int = 0


ReadTogether = Callable[[Sequence[Route], int], Awaitable[Found | None]]
"""Reads for these routes up to a commit; None if that is too much to be read at once."""


@dataclass(slots=True)
class _Group:
    """Grants of a meeting that stand at one place."""

    target: Callable[[], int]
    read: ReadTogether
    outcome: asyncio.Future[tuple[int, Found | None]]
    routes: list[Route] = field(default_factory=list)


class SharedReads:
    """Of one shard of a source, in one worker; made on the loop that runs its grants."""

    def __init__(self, work: FrameWork | None = None) -> None:
        """`work` is that of all shards of the worker."""
        clock = asyncio.get_running_loop().time
        self._pace = ReadPace(clock)
        self._work = work or FrameWork(clock)
        self._readers = 0
        self._meeting: dict[Place, _Group] = {}
        """Who waits for the next read."""
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self) -> None:
        """A grant of the shard begins."""
        self._readers += 1

    def leave(self) -> None:
        """It has ended. With the last one ends the meeting: nobody would read for those who come to it later."""
        self._readers -= 1
        if not self._readers:
            self._meeting = {}
            for task in self._tasks:
                task.cancel()

    async def turn(self, place: Place, route: Route | None, target: Callable[[], int], read: ReadTogether) -> Turn:
        """Wait until the log may be read again, and read for all that wait at this place. Without a `route` a grant
        reads alone."""
        if route is None or self._readers == 1:
            await asyncio.sleep(self._pace.wait_seconds())
            self._pace.begin()
            return Turn(target(), None)
        if not self._meeting:
            self._spawn(self._meet())
        group = self._meeting.get(place)
        if group is None:
            group = self._meeting[place] = _Group(target, read, asyncio.get_running_loop().create_future())
        mine = len(group.routes)
        group.routes.append(route)
        end, found = await asyncio.shield(group.outcome)
        return Turn(end, None) if found is None else Turn(end, found.parts[mine], found.size_bytes)

    def end(self, frames: int) -> None:
        """A grant has done with its turn, and has made so many frames."""
        self._pace.end(self._work.made(frames))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _meet(self) -> None:
        """All that come until the read begins go on to the same commit, wherever they stand: there they meet again."""
        await asyncio.sleep(self._pace.wait_seconds())
        # Others of the read before have ended it meanwhile: the last one says how long it took.
        await asyncio.sleep(self._pace.wait_seconds())
        meeting, self._meeting = self._meeting, {}
        self._pace.begin()
        for group in meeting.values():
            self._spawn(self._read(group, group.target()))

    async def _read(self, group: _Group, end: int) -> None:
        """If it fails, each reads by itself, and says why; also where a fault of the program ends it."""
        found = None
        try:
            if len(group.routes) > 1:
                with suppress(FairleadError):
                    found = await group.read(group.routes, end)
        finally:
            group.outcome.set_result((end, found))
