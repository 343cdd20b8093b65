"""Long work on the event loop in slices, so that no client waits for another's hundred thousand topics."""

from __future__ import annotations

import asyncio
from time import perf_counter

SLICE_SECONDS = 0.005
"""Work of one request before others get their turn."""


class Pace:
    """Give others a turn now and then: `await pace.turn()` in a loop costs next to nothing between turns.

    The machine's own clock is read, not the one that tests hand in: what is measured is the work of this process.
    """

    __slots__ = ("_rest_seconds", "_slice_seconds", "_until")

    def __init__(self, slice_seconds: float = SLICE_SECONDS, rest_seconds: float = 0) -> None:
        """With `rest_seconds` others have the loop for themselves that long after each slice: what takes several turns,
        as a produce does, then goes through in one."""
        self._slice_seconds = slice_seconds
        self._rest_seconds = rest_seconds
        self._until = perf_counter() + slice_seconds

    async def turn(self) -> None:
        """Let others go on, if this request has worked for a slice."""
        if perf_counter() >= self._until:
            await asyncio.sleep(self._rest_seconds)
            self._until = perf_counter() + self._slice_seconds
