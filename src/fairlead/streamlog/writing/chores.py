"""What a shard does every few seconds beside its requests: merging, and copying what cuts keep.

Neither waits for the other, since a long tail takes hours to copy. A chore only rearranges what is durable: if it
fails, that is shown, and it is tried again. Only damage of the shard's own log, and a newer writer, stop the shard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fairlead.model.errors import Damaged, Fenced
from fairlead.streamlog.reading.health import Health


class Chore:
    """One of them; it runs from `begin` on, until the shard stops or `close` is called."""

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        interval_seconds: float,
        health: Health,
        stop: Callable[[Exception], None],
    ) -> None:
        self.name = name
        """What people call it."""
        self.failures = 0
        """So often it has failed; for metrics."""
        self.error: Exception | None = None
        """Why it failed the last time; None if all went well."""
        self._work = work
        self._interval_seconds = interval_seconds
        self._health = health
        self._stop = stop
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Do it every few seconds from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._health.stopped is None:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self._work()
                self.error = None
            except (Fenced, Damaged) as error:
                self._stop(error)
            except Exception as error:
                self.failures += 1
                self.error = error

    async def close(self) -> None:
        """End it. What it does on a thread ends first."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
