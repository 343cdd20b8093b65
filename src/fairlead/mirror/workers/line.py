"""A connection of one process of a worker, as the coordinator has it: what is to be said waits in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from fairlead.model.conversation import Kinds, from_json, to_json


class Line:
    """Made when the connection is there; `run` it until it ends."""

    def __init__(self, socket: ServerConnection, says: Kinds, hears: Kinds) -> None:
        """`says` are the messages of the process at the other end."""
        self.said_bye = False
        self.down: dict[int | None, str | None] = {}
        """What the process waits for, by source; None: the destination."""
        self.asked: dict[int, asyncio.Future[None]] = {}
        """Questions without an answer, by number."""
        self._socket = socket
        self._says = says
        self._hears = hears
        self._outbox: asyncio.Queue[str] = asyncio.Queue()

    def send(self, message: object) -> None:
        """Say it, behind what was said before."""
        self._outbox.put_nowait(to_json(message, self._hears))

    async def receive(self) -> Any:
        """The next message. Raises: InvalidValue; ConnectionClosed."""
        return from_json(await self._socket.recv(), self._says)

    async def write(self) -> None:
        """Hand on what is said, until it is cancelled or the connection ends."""
        with suppress(ConnectionClosed):
            while True:
                await self._socket.send(await self._outbox.get())

    def ask(self, number: int, question: object) -> asyncio.Future[None]:
        """Say it; the future is done with the answer, or cancelled if none will come."""
        answer = self.asked[number] = asyncio.get_running_loop().create_future()
        self.send(question)
        return answer

    def answered(self, number: int) -> None:
        """The answer to that question has come."""
        answer = self.asked.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(None)

    def ended(self) -> None:
        """Nothing more comes."""
        for answer in self.asked.values():
            answer.cancel()

    def cut(self) -> None:
        """End the connection at once."""
        self._socket.transport.abort()
