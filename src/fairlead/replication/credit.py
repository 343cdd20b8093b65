"""How far readers may run ahead of their destinations.

A grant hands frames on until the bytes or frames that its destination has not answered reach a bound; then it waits for
the source server to pass on the sink's progress. So a thin link neither fills memory nor holds up its neighbours in
Spark's pipe, and a busy link gathers more rows into a frame instead of queueing small frames.

All grants of a worker share one bound, of which each may have as much as the others leave: a lone link has half of it
(or its own bound, if that is less), idle ones nothing, and however many are slow, together they stay within it. Beyond
it a grant has one frame at a time, and where there are many grants frames are small. The same goes for their number:
where many links are busy, each hands on fewer frames with more rows.
"""

from __future__ import annotations

import asyncio

FRAME_BYTES_MIN = 256 * 1024
"""Frames are cut no smaller than this because of other grants."""


class CreditPool:
    """What all grants of a worker share."""

    def __init__(self, bytes_max: int, grant_bytes_max: int, frames_max: int, grant_frames_max: int) -> None:
        self.unanswered_bytes = 0
        """Of all grants together."""
        self._unanswered_frames = 0
        self._bytes_max = bytes_max
        self._grant_bytes_max = grant_bytes_max
        self._frames_max = frames_max
        self._grant_frames_max = grant_frames_max
        self._grants = 0

    @property
    def share_bytes(self) -> int:
        """What a grant may have unanswered now, if that is more than one frame."""
        return min(self._grant_bytes_max, self._bytes_max - self.unanswered_bytes)

    @property
    def share_frames(self) -> int:
        """The same in frames."""
        return min(self._grant_frames_max, self._frames_max - self._unanswered_frames)

    @property
    def frame_bytes_max(self) -> int:
        """A frame of each grant fits within the bound."""
        return max(self._bytes_max // max(self._grants, 1), FRAME_BYTES_MIN)

    def began(self) -> None:
        """There is a grant more."""
        self._grants += 1

    def ended(self) -> None:
        """There is one less."""
        self._grants -= 1

    def count(self, frames: int, size_bytes: int) -> None:
        """So much more is unanswered."""
        self._unanswered_frames += frames
        self.unanswered_bytes += size_bytes


class CreditWindow:
    """The credit of one grant, from its beginning until `close`."""

    def __init__(self, pool: CreditPool) -> None:
        self._pool = pool
        self._handed = (0, 0)
        self._answered = (0, 0)
        self._room = asyncio.Event()
        self._closed = False
        pool.began()

    def close(self) -> None:
        """The grant has ended; what it had handed on counts no more."""
        if not self._closed:
            self._count(*(-waiting for waiting in self._unanswered))
            self._closed = True
            self._pool.ended()

    @property
    def settled(self) -> bool:
        """Whether everything that was handed on has been answered."""
        return self._answered >= self._handed

    @property
    def frame_bytes_max(self) -> int:
        """Larger frames are not to be made now."""
        return self._pool.frame_bytes_max

    @property
    def _unanswered(self) -> tuple[int, int]:
        """Frames and bytes."""
        return self._handed[0] - self._answered[0], self._handed[1] - self._answered[1]

    async def until_settled(self) -> None:
        """Wait until everything that was handed on has been answered."""
        while not self.settled:
            self._room.clear()
            await self._room.wait()

    async def take(self, size_bytes: int) -> None:
        """Wait for room for one more frame, and use it. One frame always fits, however large. Who waits has frames
        under way, and looks again when one of them is answered."""
        while not self.has_room(size_bytes):
            self._room.clear()
            await self._room.wait()
        self._handed = (self._handed[0] + 1, self._handed[1] + size_bytes)
        self._count(1, size_bytes)

    def give_back(self, size_bytes: int) -> None:
        """What was taken for a frame that was not handed on after all."""
        self._handed = (self._handed[0] - 1, self._handed[1] - size_bytes)
        self._count(-1, -size_bytes)

    def answered(self, frames: int, size_bytes: int) -> None:
        """Note how much has been answered in all."""
        before, self._answered = self._answered, (frames, size_bytes)
        self._count(before[0] - frames, before[1] - size_bytes)
        self._room.set()

    def has_room(self, size_bytes: int) -> bool:
        """Whether one more frame may be handed on."""
        frames, waiting_bytes = self._unanswered
        return frames <= 0 or (
            frames < self._pool.share_frames and waiting_bytes + size_bytes <= self._pool.share_bytes
        )

    def _count(self, frames: int, size_bytes: int) -> None:
        if not self._closed:
            self._pool.count(frames, size_bytes)
