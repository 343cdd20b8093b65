"""Requests that gather for one commit: as many as the last one had, if they were many and small, for some milliseconds.

Such requests come from producers that do not wait for each answer, or from many that do. A commit costs as much as ten
requests.
"""

from __future__ import annotations

import asyncio
from typing import Final

GATHER_MS: Final = 3
"""A commit waits at most this long."""
GATHER_MS_EACH: Final = 0.375
"""A commit waits at most this long for each of them: below some 2,000 requests a second none waits."""
GATHER_REQUESTS_MIN: Final = 8
"""Fewer requests in the last commit are not many: the next commit does not wait."""
GATHER_FULL_REQUESTS_MIN: Final = 4
"""The same of full requests, which come from producers that send as fast as they get answers. A Java producer has five
under way, of which one is a commit while the other four come. Four lone records may have come by chance."""
GATHER_FULL_BYTES: Final = 8 * 1024
"""Requests of this size on average are full."""
GATHER_BYTES_MAX: Final = 1024 * 1024
"""Requests with more bytes than this in the last commit are not small: the next commit does not wait."""


class Gathering:
    """How long the next commit of a shard waits."""

    def __init__(self) -> None:
        self._expected = 0
        """So many requests; 0: it does not wait."""
        self._enough: asyncio.Future[None] | None = None

    def committed(self, requests: int, size_bytes: int) -> None:
        """A commit took so many requests."""
        full = size_bytes >= GATHER_FULL_BYTES * requests
        many = requests >= (GATHER_FULL_REQUESTS_MIN if full else GATHER_REQUESTS_MIN)
        self._expected = requests if many and size_bytes <= GATHER_BYTES_MAX else 0

    async def wait(self, queued: int) -> None:
        """Until `came` says that enough are queued, or it took too long; `queued` are there already."""
        if queued >= self._expected:
            return
        loop = asyncio.get_running_loop()
        self._enough = loop.create_future()
        timer = loop.call_later(min(GATHER_MS, GATHER_MS_EACH * self._expected) / 1000, self._end)
        await self._enough
        timer.cancel()
        self._enough = None

    def came(self, queued: int) -> None:
        """A request came; `queued` are there now."""
        if queued >= self._expected:
            self._end()

    def _end(self) -> None:
        if self._enough is not None and not self._enough.done():
            self._enough.set_result(None)
