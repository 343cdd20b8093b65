"""Who waits for a partition to move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from fairlead.streamlog.values import PartitionKey


class Watch:
    """Tells when a partition moves: its end, its start, or that its topic is gone. Small: there may be many."""

    __slots__ = ("_callback", "_event", "_key", "_moved", "_watches")

    def __init__(self, watches: Watches, key: PartitionKey, callback: Callable[[], None] | None) -> None:
        self._watches = watches
        self._key = key
        self._callback = callback
        self._moved = False
        self._event: asyncio.Event | None = None

    def notify(self) -> None:
        """The partition moved."""
        self._moved = True
        if self._event is not None:
            self._event.set()
        if self._callback is not None:
            self._callback()

    def has_moved(self) -> bool:
        """Whether it moved since this was asked last."""
        moved, self._moved = self._moved, False
        return moved

    async def wait(self) -> None:
        """Until the partition moves."""
        if not self._moved:
            self._event = self._event or asyncio.Event()
            await self._event.wait()

    def close(self) -> None:
        """Watch no longer."""
        self._watches.remove(self._key, self)

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Watches:
    """The watches of one shard, by partition."""

    def __init__(self) -> None:
        self._of: dict[PartitionKey, set[Watch]] = {}

    def add(self, key: PartitionKey, callback: Callable[[], None] | None) -> Watch:
        """Add a watch; `close` it afterwards."""
        watch = Watch(self, key, callback)
        self._of.setdefault(key, set()).add(watch)
        return watch

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def remove(self, key: PartitionKey, watch: Watch) -> None:
        """Remove a watch; nothing happens if it was removed before."""
        watches = self._of.get(key)
        if watches is not None:
            watches.discard(watch)
            if not watches:
                del self._of[key]

    def wake(self, keys: Iterable[PartitionKey]) -> None:
        """These partitions moved."""
        if self._of:
            for key in keys:
                for watch in list(self._of.get(key, ())):
                    watch.notify()

    def wake_all(self) -> None:
        """The shard stops or closes."""
        self.wake(list(self._of))
