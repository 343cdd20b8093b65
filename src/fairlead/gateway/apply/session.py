"""One connection of a sink to this gateway: frames in, cumulative answers out.

Frames are handed to the replica's shards in the order in which they came, without waiting for one another, so that many
share a commit. Each shard of the replica gets the part of a frame whose topics live in it, with the frame's own
commits, and records its own position with it; the replica's position is the lowest (`docs/formats/link-protocol.md`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import structlog

from fairlead.cluster.stream import Stream
from fairlead.gateway.apply.pieces import ApplyRequest, in_pieces, split
from fairlead.gateway.apply.room import ApplyRoom
from fairlead.model.errors import Busy, FairleadError, InvalidValue, another
from fairlead.model.names import prefixed
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.frame import FrameOutcome, end_note, has_note
from fairlead.streamlog.frames.codec import decode_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.numbers import masks_alike, slices_of_mask
from fairlead.streamlog.values import GrantRun
from fairlead.wire.apply import Applied, ApplyHello, Refused, SlicesAt

log = structlog.get_logger()

DECODED_HERE_BYTES_MAX = 64 * 1024
"""A larger frame is decoded in a thread, so that the loop serves others meanwhile."""

PIECE_ROWS = 1000
"""A frame of more rows is applied piece by piece, so that the loop serves others between two commits."""

REFUSALS_WAITING_MAX = 500
"""A sink that sends on without reading what is refused is disconnected. One that reads has few: a slice is refused once
for each of its grants."""


@dataclass(slots=True)
class ApplyCounts:
    """What came in over links, for metrics and answers."""

    frames: int = 0
    size_bytes: int = 0
    records: int = 0
    duplicates: int = 0
    behind: int = 0
    superseded: int = 0
    refused: int = 0
    cursors: int = 0


class ApplySession:
    """Applies the frames of one connection."""

    def __init__(
        self,
        stream: Stream,
        hello: ApplyHello,
        window_bytes: int,
        totals: ApplyCounts,
        room: ApplyRoom,
        piece_rows: int = PIECE_ROWS,
    ) -> None:
        self.stream = stream
        self.hello = hello
        self.counts = ApplyCounts()
        self.admission = ANYBODY
        """What the source may bring; for the frames that come from now on."""
        self.lacking = 0
        """Commits that the source's log had beyond its last frame."""
        self.failure: FairleadError | None = None
        self._totals = totals
        self._room_of_all = room
        self._piece_rows = piece_rows
        self.window_bytes = window_bytes
        self._waiting_bytes = 0
        self._received = 0
        self._through = 0
        self._told_through = 0
        self._finished: set[int] = set()
        self._positions: dict[int, int] = {}
        self._refusals: list[Refused] = []
        self._refused_run: dict[int, GrantRun] = {}
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, data: bytes | memoryview) -> None:
        """Take the next frame; returns when another may be read.

        Raises:
            CorruptBatch: the bytes are no frame.
            InvalidValue: the frame is of another link or source than the hello, or names topics without rows.
            FairleadError: this connection has failed.
        """
        self._received += 1
        number, size = self._received, len(data)
        await self._room_of_all.take(size)
        try:
            frame = await _decode(data)
            if self.failure is not None:  # who reads no answers has not heard of it
                raise self.failure
            self._check(frame)
            frame = _with_prefix(frame, self.hello.topic_prefix)
        except BaseException:
            self._room_of_all.give(size)
            raise
        self.lacking = max((frame.end or 0) - frame.to_commit, 0)
        self._waiting_bytes += size
        self._count(frames=1, size_bytes=size)
        task = asyncio.get_running_loop().create_task(self._run(number, frame, size))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        while self._waiting_bytes > self.window_bytes and self.failure is None:
            self._room.clear()
            await self._room.wait()

    async def answers(self) -> list[Refused | Applied]:
        """Wait for news and return what is to be said; refusals come before the Applied that counts them.

        Raises:
            FairleadError: this connection has failed and is to be closed with that.
        """
        await self._news.wait()
        self._news.clear()
        if self.failure is not None:
            raise self.failure
        refusals, self._refusals = self._refusals, []
        return [*refusals, *self._applied()]

    def fail(self, error: FairleadError) -> None:
        """End the connection with an error; the first one counts."""
        self.failure = self.failure or error
        self._news.set()
        self._room.set()

    async def close(self) -> None:
        """Wait for what was submitted; it is applied though nobody hears of it."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check(self, frame: Frame) -> None:
        hello = self.hello
        if (frame.link, frame.source, frame.shard) != (hello.link, hello.source.stream, hello.shard):
            found = f"a frame of link {frame.link.hex()}, shard {frame.shard}"
            raise InvalidValue(f"{found} on the connection of {hello.link.hex()}, shard {hello.shard}")
        if len(frame.topics) > len(frame.rows) + 1:  # a repair names its topic
            raise InvalidValue(f"a frame of {len(frame.rows):,} rows names {len(frame.topics):,} topics")

    def _applied(self) -> Iterable[Applied]:
        if self._through == self._told_through:
            return
        self._told_through = self._through
        masks = masks_alike((at, each) for each, at in self._positions.items())
        self._positions = {}
        places = tuple(SlicesAt(mask, at) for at, mask in masks.items())
        yield Applied(self._through, places, self.counts.records, self.counts.duplicates, self.counts.behind)

    async def _run(self, number: int, frame: Frame, size: int) -> None:
        try:
            if self.failure is None and not self._is_refused(frame):
                await self._apply(number, frame, size)
        except FairleadError as error:
            self.fail(error)
            return
        except Exception as error:
            log.exception("a bug in the applying of a frame", link=self.hello.link.hex(), stream=self.stream.path)
            self.fail(FairleadError(f"a bug ({type(error).__name__}: {error}); the destination's log tells more"))
            return
        finally:
            self._waiting_bytes -= size
            self._room_of_all.give(size)
            self._room.set()
        self._finish(number)

    async def _apply(self, number: int, frame: Frame, size: int) -> None:
        with self.stream.placing(self.hello.link) as place_of:
            await self._apply_parts(number, frame, size, place_of)

    async def _apply_parts(self, number: int, frame: Frame, size: int, place_of: Callable[[bytes, str], int]) -> None:
        parts = [
            (shard, request)
            for shard, part in split(frame, len(self.stream.shards), place_of)
            for request in in_pieces(part, self._piece_rows, self._admission_of(shard))
        ]
        outcomes = await self._outcomes(parts, size // len(parts))
        refused = [outcome for outcome in outcomes if outcome.refused_position is not None]
        if refused:
            self._refuse(number, frame, refused)
        elif frame.repair is None:
            last = {shard: outcome.positions for (shard, _), outcome in zip(parts, outcomes, strict=True)}
            for each in slices_of_mask(frame.slices):
                self._positions[each] = min(positions[each] for positions in last.values())
        self._count(
            records=sum(outcome.appended for outcome in outcomes),
            duplicates=sum(outcome.duplicates for outcome in outcomes),
            behind=sum(outcome.behind + outcome.conflicts for outcome in outcomes),
            superseded=sum(outcome.superseded for outcome in outcomes),
            cursors=sum(outcome.cursors for outcome in outcomes),
        )
        if frame.repair is not None and frame.repair.last:
            await self._clear_elsewhere(frame, parts[0][0])
        for outcome in outcomes:
            if outcome.superseded:
                self.stream.note_superseded(self.hello.link, outcome.superseded)
            # The source asks where the replica stands when something is behind, and is told of these topics then.
            self.counts.behind += len(outcome.outdated)

    async def _clear_elsewhere(self, frame: Frame, home: int) -> None:
        """A repair has brought a partition to the shard where its topic is. What the link had noted before that was
        known, by the name that the topic has there, may stand in another one."""
        for number, shard in enumerate(self.stream.shards):
            if number != home and has_note(shard.state, frame):
                await shard.submit(partial(end_note, frame=frame))

    async def _outcomes(self, parts: list[tuple[int, ApplyRequest]], size: int) -> list[FrameOutcome]:
        """What became of each part. Also where one fails, the others are waited for: they may make topics yet, which
        are held where they go until then."""
        shards = self.stream.shards
        # No name for the futures: an error in one would hold this frame, and so itself and the rows.
        found = await asyncio.gather(
            *(shards[shard].submit(each, size) for shard, each in parts), return_exceptions=True
        )
        return [_given(outcome) for outcome in found]

    def _admission_of(self, shard: int) -> Admission:
        stream = self.stream
        if len(stream.shards) == 1:
            return self.admission
        return replace(self.admission, falls_here=stream.falls_into(stream.shards[shard]))

    def _refuse(self, number: int, frame: Frame, refused: list[FrameOutcome]) -> None:
        self._count(refused=1)
        if self._is_refused(frame):
            return
        position = min(outcome.refused_position or 0 for outcome in refused)
        self._refused_run.update(dict.fromkeys(slices_of_mask(frame.slices), frame.run))
        self._refusals.append(Refused(number, frame.slices, position, refused[0].reason))
        if len(self._refusals) > REFUSALS_WAITING_MAX:
            self.fail(Busy("the sink reads no answers"))

    def _is_refused(self, frame: Frame) -> bool:
        """A slice that was refused stays so until a newer grant brings it, and a frame with such a slice is refused
        whole: it cannot be applied in part."""
        runs = (self._refused_run.get(each) for each in slices_of_mask(frame.slices))
        return any(run is not None and not run < frame.run for run in runs)

    def _finish(self, number: int) -> None:
        self._finished.add(number)
        while self._through + 1 in self._finished:
            self._through += 1
            self._finished.remove(self._through)
        self._news.set()

    def _count(self, **counts: int) -> None:
        for name, count in counts.items():
            for target in (self.counts, self._totals):
                setattr(target, name, getattr(target, name) + count)


def _given(outcome: FrameOutcome | BaseException) -> FrameOutcome:
    if isinstance(outcome, FairleadError):
        raise another(outcome)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


async def _decode(data: bytes | memoryview) -> Frame:
    if len(data) <= DECODED_HERE_BYTES_MAX:
        return decode_frame(data)
    return await asyncio.to_thread(decode_frame, data)


def _with_prefix(frame: Frame, prefix: str) -> Frame:
    """The frame with the names that its topics would get here."""
    if not prefix:
        return frame
    named = {number: each._replace(name=prefixed(prefix, each.name)) for number, each in frame.topics.items()}
    return replace(frame, topics=named)
