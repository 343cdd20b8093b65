"""uvicorn in a test's loop, which ends as soon as it may: uvicorn looks ten times a second, and hundreds of tests would
wait for that."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import nullcontext

import uvicorn

LAST_TURNS = 20
"""Of 5 ms, before and after connections are told: as long as uvicorn leaves those for which it does not wait."""


class Listener(uvicorn.Server):
    """Serves from `start` until `end`."""

    capture_signals = nullcontext  # type: ignore[assignment]

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ready, self._ending = asyncio.Event(), asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        """Begin to serve a socket."""
        self._serving = asyncio.create_task(self.serve(sockets=[listening]))
        await self._ready.wait()

    async def end(self) -> None:
        """Stop, without waiting for requests that are answered."""
        self.should_exit = self.force_exit = True
        self._ending.set()
        if self._serving is not None:
            await self._serving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._ending.wait()
        await self._last_turns(lambda: bool(self.server_state.tasks))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for each in sockets or []:
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._last_turns(lambda: bool(self.server_state.connections or self.server_state.tasks))
        for server in self.servers:
            await server.wait_closed()

    async def _last_turns(self, goes_on: Callable[[], bool]) -> None:
        for _ in range(LAST_TURNS):
            if not goes_on():
                break
            await asyncio.sleep(0.005)
