"""A queue between an asyncio program and a thread that blocks, bounded by bytes.

The asyncio program is the reader of a Spark task, in a thread of its own; the thread that blocks is that of the
generator that Spark drains.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Handover(Generic[T]):
    """`put` and `close` are called on the loop, `take_some` from one other thread."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()
        self._room: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def put(self, item: T, size_bytes: int) -> None:
        """Queue an item; waits while more than the bound is queued. After `close` items are dropped."""
        while not self._try_put(item, size_bytes):
            assert self._room is not None
            await self._room.wait()

    def _try_put(self, item: T, size_bytes: int) -> bool:
        with self._changed:
            if self._closed:
                return True
            if self._items and self._bytes + size_bytes > self._bytes_max:
                self._loop = asyncio.get_running_loop()
                self._room = self._room or asyncio.Event()
                self._room.clear()
                return False
            self._items.append((item, size_bytes))
            self._bytes += size_bytes
            if len(self._items) == 1:  # else the taker has been told and has not come yet
                self._changed.notify()
            return True

    def close(self) -> None:
        """End the queue: no more items come, and those in it can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            self._wake()

    def take_some(self, timeout_seconds: float, bytes_max: int) -> list[T]:
        """The next item, and as many of those behind it as keep the total within `bytes_max`; empty if none came in
        time, or if none will come (see `ended`)."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closed, timeout_seconds)
            found: list[T] = []
            taken_bytes = 0
            while self._items and (not found or taken_bytes + self._items[0][1] <= bytes_max):
                item, size_bytes = self._items.popleft()
                found.append(item)
                taken_bytes += size_bytes
            self._bytes -= taken_bytes
            if found:
                self._wake()
            return found

    @property
    def waiting(self) -> bool:
        """Whether something can be taken at once."""
        with self._changed:
            return bool(self._items)

    @property
    def ended(self) -> bool:
        """Whether it is closed and drained."""
        with self._changed:
            return self._closed and not self._items

    def _wake(self) -> None:
        if self._room is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._room.set)
