"""Messages that wait for a socket."""

from __future__ import annotations

import asyncio
from collections import deque


class Outbox:
    """For one connection."""

    def __init__(self) -> None:
        self._waiting: deque[object] = deque()
        self._news = asyncio.Event()

    def put(self, message: object) -> None:
        """Say this, as soon as the socket is free."""
        self._waiting.append(message)
        self._news.set()

    async def outgoing(self) -> list[object]:
        """Wait for messages, and return all."""
        await self._news.wait()
        self._news.clear()
        messages = list(self._waiting)
        self._waiting.clear()
        return messages
