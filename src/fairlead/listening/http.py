"""A listener of HTTP: its socket, its URL, and uvicorn in the process's own event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import nullcontext

import uvicorn
from fastapi import FastAPI

from fairlead.listening.addresses import ALL_INTERFACES, LOOPBACK_OF_ALL, callable_host
from fairlead.listening.protocol import GuardedProtocol
from fairlead.model.addresses import Address
from fairlead.model.limits import CONTROL_MESSAGE_BYTES_MAX, LISTEN_BACKLOG

STOP_SECONDS = 3
"""Requests under way when the server stops are given this long."""


class HttpListener:
    """uvicorn inside our loop, without signal handlers of its own."""

    def __init__(self, app: FastAPI, protocol: type[GuardedProtocol] = GuardedProtocol) -> None:
        self._server = _QuietServer(configuration(app, protocol))
        self._serving: asyncio.Task[None] | None = None

    async def start(self, http_socket: socket.socket) -> None:
        """Return when requests are answered."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[http_socket]), name="http")
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait((self._serving, ready), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            self._serving.result()

    async def stop(self) -> None:
        """Finish the requests under way, for a few seconds at most, and end."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving


def configuration(app: FastAPI, protocol: type[GuardedProtocol] = GuardedProtocol) -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=protocol,
        ws="websockets-sansio",
        ws_max_size=CONTROL_MESSAGE_BYTES_MAX,
        ws_per_message_deflate=False,
        backlog=LISTEN_BACKLOG,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


class _QuietServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.capture_signals = nullcontext  # type: ignore[assignment, method-assign]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def url_of(http_socket: socket.socket, address: Address, advertise: Address | None) -> str:
    """What other clusters call this one by."""
    host = advertise.host if advertise is not None and address.host in ALL_INTERFACES else callable_host(address.host)
    return f"http://{Address(host, http_socket.getsockname()[1])}"


def local_url(http_socket: socket.socket) -> str:
    """What processes on this machine call it by, whatever others are told: what they say does not leave the machine."""
    host, port = http_socket.getsockname()[:2]
    return f"http://{Address(LOOPBACK_OF_ALL.get(host, host), port)}"
