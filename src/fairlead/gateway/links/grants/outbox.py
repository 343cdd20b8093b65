"""Messages that wait for a socket, which may be slow and may be stuck."""

from __future__ import annotations

import asyncio
from collections import deque

from fairlead.model.errors import InvalidValue

MESSAGES_MAX = 10_000
"""More wait for nobody who still reads."""


class Outbox:
    """For one connection."""

    def __init__(self) -> None:
        self._waiting: deque[object] = deque()
        self._news = asyncio.Event()
        self._lost = asyncio.Event()
        self._why = ""

    def put(self, message: object) -> None:
        """Say this, as soon as the socket is free."""
        if len(self._waiting) >= MESSAGES_MAX:
            self.lose(f"{MESSAGES_MAX:,} messages wait and none is read")
            return
        self._waiting.append(message)
        self._news.set()

    def lose(self, why: str) -> None:
        """Give the other side up: its connection is to end."""
        self._waiting.clear()
        self._why = self._why or why
        self._lost.set()

    async def until_lost(self) -> None:
        """Wait until the other side was given up.

        Raises:
            InvalidValue: the reason.
        """
        await self._lost.wait()
        raise InvalidValue(self._why)

    async def outgoing(self) -> list[object]:
        """Wait for messages, and return all; none, where something else is to be said."""
        await self._news.wait()
        self._news.clear()
        messages = list(self._waiting)
        self._waiting.clear()
        return messages

    def wake(self) -> None:
        """Something else is to be said."""
        self._news.set()
