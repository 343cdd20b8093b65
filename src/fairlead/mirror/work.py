"""The parts of a program that run side by side until one of them fails, or it is to end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Work:
    """Parts of one program."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self._parts: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None

    def spawn(self, part: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run one more; it may end before the others."""
        task = asyncio.create_task(part)
        self._parts.add(task)
        task.add_done_callback(self._ended)
        return task

    def end(self) -> None:
        """The program is to end."""
        self.over.set()

    async def until_over(self) -> None:
        """Wait until it is to end. Raises: what a part raised."""
        await self.over.wait()
        if self._failure is not None:
            raise self._failure

    async def cancel(self) -> None:
        """End all parts."""
        parts = list(self._parts)
        for task in parts:
            task.cancel()
        await asyncio.gather(*parts, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._parts.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self.end()
