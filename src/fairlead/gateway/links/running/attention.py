"""What draws a link's attention: what happens to it now, and that it is to be looked at in a while.

In: events of everybody who knows the link. Out: its state, and a bell for its loop. Owns both, and the waits. Always
true: the loop hears of every change of the state, also of one that comes just before it begins to wait. It never asks a
destination.
"""

from __future__ import annotations

import asyncio

from fairlead.gateway.links.running.lifecycle import Event, Life, State
from fairlead.gateway.links.running.timing import Backoff


class Attention:
    """Of one link."""

    def __init__(self, backoff: Backoff) -> None:
        self._life = Life()
        self._backoff = backoff
        self._bell = asyncio.Event()
        self._reminder: asyncio.TimerHandle | None = None

    @property
    def state(self) -> State:
        """Where the link stands."""
        return self._life.state

    def on(self, event: Event) -> None:
        """This has happened."""
        before, self._life = self._life, self._life.after(event)
        if before.shortens_waits(event):
            self._backoff.reset()
        if self._life.state is not before.state:
            self._bell.set()

    def look_in(self, delay_s: float) -> None:
        """Look again after a while; sooner if that was said before, so that saying it again and again cannot put it
        off."""
        loop = asyncio.get_running_loop()
        if self._reminder is not None:
            if loop.time() < self._reminder.when() <= loop.time() + delay_s:
                return
            self._reminder.cancel()
        self._reminder = loop.call_later(delay_s, self.on, Event.LOOK)

    async def move(self) -> None:
        """Wait until there is something to do: the link neither stands still nor waits for something to happen."""
        while self.state.still or self.state is State.READY:
            await self._rings()

    async def rest(self, longest_s: float) -> None:
        """Wait for a back-off of at most this long; what a person says ends it."""
        # Not `wait_for`: before Python 3.12 it forgets that it was cancelled if what it waits for has just come.
        try:
            async with asyncio.timeout(min(self._backoff.next_s(), longest_s)):
                while self.state.resting:
                    await self._rings()
        except TimeoutError:
            self.on(Event.RESTED)

    async def _rings(self) -> None:
        self._bell.clear()
        await self._bell.wait()

    def close(self) -> None:
        """The link has ended."""
        if self._reminder is not None:
            self._reminder.cancel()
