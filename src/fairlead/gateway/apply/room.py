"""What the frames of all links together may take of a gateway's memory while they wait for their commits.

A frame that was received waits here until there is room for it, in the order in which frames came. Whoever has room
waits only for this cluster's own log, so room comes again however slow or dead other links are. A connection reads no
further meanwhile: besides this each holds the one frame that waits.
"""

from __future__ import annotations

import asyncio
from collections import deque


class ApplyRoom:
    """The memory of one server. Everything runs on its event loop."""

    def __init__(self, bytes_max: int) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size_bytes: int) -> None:
        """Wait for room; the largest frame has it at the latest when nothing else is there."""
        if not self._waiting and self._fits(size_bytes):
            self.used_bytes += size_bytes
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(size_bytes)
            self._serve()
            raise

    def give(self, size_bytes: int) -> None:
        """What was taken is there again."""
        self.used_bytes -= size_bytes
        self._serve()

    def _fits(self, size_bytes: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size_bytes <= self._bytes_max

    def _serve(self) -> None:
        while self._waiting:
            size_bytes, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(size_bytes):
                    return
                self.used_bytes += size_bytes
                turn.set_result(None)
            self._waiting.popleft()
