"""One process at a time runs a mirror: it says so in the mirror's own topic, again and again.

A second start refuses while the first is alive, or takes over when it is told to; the first then reads of it and ends.
In the seconds between, both may mirror: records come twice, none is lost; with `--exactly.once` only one of them can
commit anything, and this record says which of them goes on.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from fairlead.mirror.books.book import Holder, newer_holder
from fairlead.mirror.destination import Destination
from fairlead.mirror.patience import insisting
from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import Fenced, NotAllowed

ALIVE_MS: Final = 30_000
"""A holder that has said nothing for so long counts as dead."""


class Holding:
    """What this process says of itself, and what it hears of others."""

    def __init__(self, destination: Destination, clock: Clock, randomness: Randomness) -> None:
        self._destination = destination
        self._clock = clock
        self._id = randomness.id16().hex()
        self._turn = 0
        self._newest: Holder | None = None
        self._listening = asyncio.Lock()

    async def take(self, *, takeover: bool) -> None:
        """Become the holder.

        Raises:
            NotAllowed: another process is.
            BadRequest, TryAgain
        """
        before = self._destination.book.holder
        if before is not None:
            silent_ms = self._clock.wall_ms() - before.at_ms
            if not before.released and silent_ms < ALIVE_MS and not takeover and not _is_dead(before):
                raise NotAllowed(
                    f"mirror {self._destination.name} is run by {_shown(before)}, which said so "
                    f"{max(silent_ms, 0):,} ms ago; if it is dead, wait {ALIVE_MS // 1000} s or start with --takeover"
                )
            self._turn = before.turn + 1
        await self._say(released=False)
        await self._listen()

    async def keep(self, every_seconds: float) -> None:
        """Go on saying so, until it is cancelled. Raises: Fenced: another process has taken over."""
        while True:
            await asyncio.sleep(every_seconds)
            await self._say(released=False)
            await insisting(self._listen)

    async def confirm(self) -> None:
        """Make sure that no other process has taken over, as far as anybody can know. Raises: Fenced: one has."""
        await insisting(self._listen)

    async def release(self) -> None:
        """Say that it ends in order."""
        await self._say(released=True)

    async def _say(self, *, released: bool) -> None:
        now = self._clock.wall_ms()
        holder = Holder(self._id, socket.gethostname(), os.getpid(), now, self._turn, released)
        await self._destination.write_holder(holder)

    async def _listen(self) -> None:
        async with self._listening:
            for told in await self._destination.holders():
                self._newest = newer_holder(self._newest, told)
        if self._newest is not None and self._newest.id != self._id:
            raise Fenced(f"mirror {self._destination.name} was taken over by {_shown(self._newest)}; this process ends")


def _shown(holder: Holder) -> str:
    return f"process {holder.pid} on {holder.host}"


def _is_dead(holder: Holder) -> bool:
    """Whether it ran on this machine and is there no more: who is started again after a kill need not wait."""
    if holder.host != socket.gethostname():
        return False
    if holder.pid == os.getpid():
        return True
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
