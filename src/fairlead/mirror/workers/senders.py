"""The destination, as a worker knows it: a producer for each origin, and the coordinator, which keeps the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from fairlead.mirror.exactly.lane import Ground
from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.patience import insisting
from fairlead.mirror.ports import Cluster, Sender
from fairlead.mirror.workers.opening import opened
from fairlead.model.clock import SystemClock

Enters = Callable[[int, str], Awaitable[None]]
"""Has a producer id and its origin entered, and waits until they are."""


class Once(NamedTuple):
    """Each record is to arrive once: what transactions need of the coordinator."""

    name: str
    """Of the mirror."""
    permit: Callable[[], Awaitable[None]]
    """Raises: Fenced: another process runs the mirror."""
    failed: Callable[[str, int], None]
    """Hears what has gone wrong, and how many transactions have failed with that."""


class WorkerDestination:
    """Of one sink."""

    def __init__(self, open_it: Callable[[], Awaitable[Cluster]], enter: Enters, once: Once | None = None) -> None:
        self._open = open_it
        self._enter = enter
        self._once = once
        self._lanes: Lanes | None = None
        self._has_lanes = asyncio.Event()
        self._cluster: Cluster | None = None
        self._senders: dict[str, Sender] = {}
        self._opening = asyncio.Lock()
        self._away: str | None = None

    @property
    def lanes(self) -> Lanes | None:
        """What is sent goes through these, if each record is to arrive once; there once a sender was opened."""
        return self._lanes

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        waits = (sender.down for sender in self._senders.values() if sender.down is not None)
        return self._away or next(waits, None) or (None if self._lanes is None else self._lanes.down)

    async def open_sender(self, origin: str) -> None:
        """Make sure that `sender` has the producer of that origin; waits for a destination that is away."""
        async with self._opening:
            if self._cluster is None:
                self._cluster = await opened(self._open, self._note)
                if self._once is not None:
                    name, permit, failed = self._once
                    self._lanes = Lanes(Ground(self._cluster, name, SystemClock(), self.enter, permit, failed))
                    self._has_lanes.set()
            if self._once is None and origin not in self._senders:
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

    async def watch(self) -> None:
        """Wait for what no transaction can go on from. Raises: that."""
        await self._has_lanes.wait()
        assert self._lanes is not None
        await self._lanes.watch()

    async def close(self) -> None:
        """Drop what is not acknowledged or not committed, and end."""
        if self._lanes is not None:
            await self._lanes.close()
        for sender in self._senders.values():
            await sender.close()
        if self._cluster is not None:
            await self._cluster.close()

    def _note(self, why: str | None) -> None:
        self._away = why
