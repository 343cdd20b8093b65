"""The destination, as a worker knows it: a producer for each origin, and the coordinator, which keeps the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.patience import insisting
from fairlead.mirror.ports import Cluster, Sender
from fairlead.mirror.workers.opening import opened

Enters = Callable[[int, str], Awaitable[None]]
"""Has a producer id and its origin entered, and waits until they are."""


class WorkerDestination:
    """Of one sink."""

    def __init__(self, open_it: Callable[[], Awaitable[Cluster]], enter: Enters) -> None:
        self._open = open_it
        self._enter = enter
        self._cluster: Cluster | None = None
        self._senders: dict[str, Sender] = {}
        self._opening = asyncio.Lock()
        self._away: str | None = None

    @property
    def lanes(self) -> Lanes | None:
        """Transactions are the coordinator's."""
        return None

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        waits = (sender.down for sender in self._senders.values() if sender.down is not None)
        return self._away or next(waits, None)

    async def open_sender(self, origin: str) -> None:
        """Make sure that `sender` has the producer of that origin; waits for a destination that is away."""
        async with self._opening:
            if self._cluster is None:
                self._cluster = await opened(self._open, self._note)
            if origin not in self._senders:
                cluster = self._cluster
                self._senders[origin] = await insisting(
                    lambda: cluster.sender(lambda number: self.enter(number, origin)),
                    lambda error: self._note(str(error)),
                )
                self._note(None)

    def sender(self, origin: str) -> Sender:
        """The producer of what was first written in the cluster `origin`."""
        return self._senders[origin]

    async def enter(self, producer_id: int, origin: str) -> None:
        """Have it entered, and wait until it is."""
        await self._enter(producer_id, origin)

    async def close(self) -> None:
        """Drop what is not acknowledged, and end."""
        for sender in self._senders.values():
            await sender.close()
        if self._cluster is not None:
            await self._cluster.close()

    def _note(self, why: str | None) -> None:
        self._away = why
