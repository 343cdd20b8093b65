"""What all connections may hold together: requests that come in, wait or run, and answers on their way out (KIP-72).

Each connection has a `Share`. Its first 64 KB are free, so that small requests always go on. Beyond them a connection
that asks for more than there is left waits: it reads no further. Answers are counted when they are there; requests that
may have long ones begin only while there is room. As in Kafka what is asked for is granted while anything is left, so
that the largest request never waits for an empty house.

While somebody waits, a client that sends a request or takes an answer for too long is given up: it alone gains nothing
by being slow. While nobody does, it may take its time, as over a thin link.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

FREE_BYTES: Final = 64 * 1024
"""Of each connection."""
SMALL_BYTES: Final = 1_000_000
"""Connections that hold no more than this have a quarter for themselves: Kafka's producers send no larger requests
unless they are told to."""
PATIENCE_SECONDS: Final = 30.0
"""For a whole request, or a whole answer."""
STALLED_SECONDS: Final = 5.0
"""For the next bytes of a request."""
_CHECK_SECONDS: Final = 1.0
_APART_SECONDS: Final = 0.01


class RequestMemory:
    """The memory of one server. Everything runs on its event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0
        self._holders: dict[Share, None] = {}
        self._waiting: dict[Share, None] = {}
        self._coming: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def full(self) -> bool:
        """Nothing is left."""
        return self.used_bytes >= self._limit_bytes

    async def room(self) -> None:
        """Until something is left."""
        while self.full:
            coming = asyncio.get_running_loop().create_future()
            self._coming.append(coming)
            self._watch()
            await coming

    def _admits(self, size_bytes: int) -> bool:
        return self.used_bytes < (self._limit_bytes if size_bytes <= SMALL_BYTES else self._limit_bytes * 3 // 4)

    def _changed(self, by_bytes: int) -> None:
        self.used_bytes += by_bytes
        if by_bytes >= 0 or not (self._waiting or self._coming):
            return
        for share in list(self._waiting):
            if self._admits(share.wanted_bytes):
                del self._waiting[share]
                share.came()
        self._let_in()

    def _let_in(self) -> None:
        """One request whose answer may be long, and a little later the next one: by then its answer may be counted."""
        while self._coming and not self.full:
            coming = self._coming.popleft()
            if not coming.done():
                coming.set_result(None)
                asyncio.get_running_loop().call_later(_APART_SECONDS, self._let_in)
                return

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for share in list(self._holders):
            held_seconds = now - share.since
            if held_seconds >= STALLED_SECONDS:
                share.overdue(held_seconds >= PATIENCE_SECONDS)
        self._coming = deque(coming for coming in self._coming if not coming.done())
        if self._waiting or self._coming:
            self._watch()


class Share:
    """What one connection holds of it."""

    __slots__ = ("_memory", "bytes", "came", "overdue", "since", "wanted_bytes")

    def __init__(self, memory: RequestMemory, came: Callable[[], None], overdue: Callable[[bool], None]) -> None:
        """`came`: it may ask again; `overdue`: others wait, and it has held what it holds for some time, or (True) for
        too long."""
        self._memory = memory
        self.bytes = 0
        self.wanted_bytes = 0
        self.since = 0.0
        """When it began to hold this; the loop's time."""
        self.came = came
        self.overdue = overdue

    def resize(self, size_bytes: int, *, forced: bool = False) -> bool:
        """Hold that much, all in all; False if it must wait. With `forced` it is there already, and only counted."""
        wanted = max(0, size_bytes - FREE_BYTES)
        memory = self._memory
        if wanted == self.bytes == self.wanted_bytes:
            return True
        self.wanted_bytes = wanted
        if wanted > self.bytes and not forced and not memory._admits(wanted):
            memory._waiting[self] = None
            memory._watch()
            return False
        memory._waiting.pop(self, None)
        if wanted and not self.bytes:
            memory._holders[self] = None
            self.since = asyncio.get_running_loop().time()
        elif self.bytes and not wanted:
            del memory._holders[self]
        by_bytes, self.bytes = wanted - self.bytes, wanted
        memory._changed(by_bytes)
        return True

    def moved(self) -> None:
        """A request became whole, or an answer was taken: its time begins anew."""
        if self.bytes:
            self.since = asyncio.get_running_loop().time()
