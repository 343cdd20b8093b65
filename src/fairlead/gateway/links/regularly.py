"""Calls something every so many seconds, for as long as links run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Regularly:
    """One call after the other, the first after that time; `start` and `close` enclose its life."""

    def __init__(self, seconds: float, call: Callable[[], Awaitable[None]]) -> None:
        self._seconds = seconds
        self._call = call
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End, also in the middle of a call, and wait for that."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._call()
