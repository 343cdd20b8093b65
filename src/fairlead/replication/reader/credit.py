"""How far a reader may run ahead of its destination.

A grant hands frames on until the bytes or frames that its destination has not answered reach a bound; then it waits for
the source server to pass on the sink's progress. So a thin link neither fills memory nor holds up its neighbours in
Spark's pipe, and a busy link gathers more rows into a frame instead of queueing small frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class CreditWindow:
    """The credit of one grant."""

    def __init__(self, bytes_max: Callable[[], int], frames_max: int) -> None:
        """`bytes_max` may change: many grants share what one worker may have on the way."""
        self._bytes_max = bytes_max
        self._frames_max = frames_max
        self._handed = (0, 0)
        self._answered = (0, 0)
        self._room = asyncio.Event()

    @property
    def settled(self) -> bool:
        """Whether everything that was handed on has been answered."""
        return self._answered >= self._handed

    async def until_settled(self) -> None:
        """Wait until everything that was handed on has been answered."""
        while not self.settled:
            self._room.clear()
            await self._room.wait()

    async def take(self, size_bytes: int) -> None:
        """Wait for room for one more frame, and use it. One frame always fits, however large."""
        while not self.has_room(size_bytes):
            self._room.clear()
            await self._room.wait()
        self._handed = (self._handed[0] + 1, self._handed[1] + size_bytes)

    def answered(self, frames: int, size_bytes: int) -> None:
        """Note how much has been answered in all."""
        self._answered = (frames, size_bytes)
        self._room.set()

    def has_room(self, size_bytes: int) -> bool:
        """Whether one more frame may be handed on."""
        frames = self._handed[0] - self._answered[0]
        waiting = self._handed[1] - self._answered[1]
        return frames <= 0 or (frames < self._frames_max and waiting + size_bytes <= self._bytes_max())
