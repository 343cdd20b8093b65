"""How the replicator is, as it tells its server: now, at each change, and before it gives up.

In: what happens to Spark. Out: messages on the control connection. Always true: the server has heard the newest state,
or there is no connection.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from fairlead.model.clock import Clock, Randomness
from fairlead.spark.control import Control
from fairlead.wire.control import ReplicatorState

LAST_WORDS_SECONDS = 2.0
"""A process that gives up waits this long until its server has heard why."""


class SelfReport:
    """Of one replicator process."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self.state = ReplicatorState(randomness.id16(), clock.wall_ms(), "waiting", 0, "")
        self._news = asyncio.Event()
        self._told = asyncio.Event()

    def doing(self, what: str) -> None:
        """It does this now; an error stays until it is `well`."""
        self._set(replace(self.state, doing=what))

    def failed(self, why: str) -> None:
        """Spark or its query could not be started, or has ended."""
        self._set(replace(self.state, doing="failed", failures=self.state.failures + 1, error=why))

    def well(self) -> None:
        """The query has run for a while: what went wrong before is over."""
        self._set(replace(self.state, error=""))

    def _set(self, state: ReplicatorState) -> None:
        if state != self.state:
            self.state = state
            self._told.clear()
            self._news.set()

    async def tell(self, control: Control) -> None:
        """Tell all of it, for as long as there is a connection."""
        while True:
            self._news.clear()
            await control.send(self.state)
            if not self._news.is_set():
                self._told.set()
            await self._news.wait()

    async def heard(self) -> None:
        """Wait until the newest state has been told, but not for long: the server may be away."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._told.wait()
