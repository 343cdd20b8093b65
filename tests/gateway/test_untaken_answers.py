"""Who takes nothing of an answer is disconnected; who takes it slowly, or has left HTTP, is not."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi import FastAPI, Response
from structlog.testing import capture_logs
from uvicorn.server import ServerState

from fairlead.listening.guard import TAKE_SECONDS, Guard
from fairlead.listening.http import configuration
from fairlead.listening.protocol import GuardedProtocol
from fairlead.model.clock import SystemClock
from tests.support.http_listener import Listener
from tests.support.waiting import until

ANSWER_BYTES = 50_000_000
"""More than sockets hold by themselves."""


def served(guard: Guard) -> FastAPI:
    """An application with one long answer."""
    app = FastAPI()
    app.state.guard = guard

    @app.get("/long")
    async def long() -> Response:
        return Response(bytes(ANSWER_BYTES))

    return app


class Timers:
    """A loop whose time goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[tuple[float, Any, Mock]] = []

    def call_later(self, delay_seconds: float, call: Any, *_: Any) -> Mock:
        handle = Mock()
        self.waiting.append((self.now + delay_seconds, call, handle))
        return handle

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.waiting if each[0] <= self.now]
        self.waiting = [each for each in self.waiting if each[0] > self.now]
        for _, call, handle in due:
            if not handle.cancel.called:
                call()


@pytest.fixture
def connection() -> SimpleNamespace:
    """A connection on which a request has come, its transport and its time."""
    config = configuration(served(Guard(SystemClock())))
    config.load()
    timers, transport = Timers(), Mock()
    transport.is_closing.return_value = False
    transport.get_extra_info.return_value = None
    transport.get_write_buffer_size.return_value = 0
    protocol = GuardedProtocol(config, ServerState(), {}, _loop=timers)  # type: ignore[arg-type]
    transport.get_protocol.return_value = protocol
    protocol.connection_made(transport)
    protocol._head_came()  # noqa: SLF001 - a head has its own time
    return SimpleNamespace(protocol=protocol, transport=transport, timers=timers)


def after_looks(connection: SimpleNamespace, *left_bytes: int) -> bool:
    """Whether it has ended after looks at which so much was left."""
    for left in left_bytes:
        connection.transport.get_write_buffer_size.return_value = left
        connection.timers.pass_by(TAKE_SECONDS)
    return bool(connection.transport.abort.called)


def test_a_client_that_takes_nothing_is_disconnected(connection: SimpleNamespace) -> None:
    """With one line in the log."""
    connection.protocol.pause_writing()
    with capture_logs() as logs:
        assert not after_looks(connection, 90_000_000)
        assert after_looks(connection, 90_000_000)
    assert [line["event"] for line in logs] == ["an HTTP client takes nothing of its answer; disconnected"]


def test_a_little_that_waits_while_the_connection_is_to_close_is_enough(connection: SimpleNamespace) -> None:
    """So little never paused the writing, and a transport that closes waits for it."""
    connection.transport.is_closing.return_value = True
    assert after_looks(connection, 100, 100)


def test_a_client_that_takes_a_little_is_waited_for(connection: SimpleNamespace) -> None:
    """As over a thin link; or all of it, and then another answer of the same length."""
    connection.protocol.pause_writing()
    assert not after_looks(connection, 90_000_000, 89_999_000, 89_998_000, 20_000)
    connection.protocol.resume_writing()
    connection.protocol.pause_writing()
    assert not after_looks(connection, 20_000)
    assert after_looks(connection, 20_000)


def test_who_waits_for_an_answer_or_asks_for_none_is_left_alone(connection: SimpleNamespace) -> None:
    assert not after_looks(connection, 0, 0, 0)


def test_a_connection_that_left_http_has_bounds_of_its_own(connection: SimpleNamespace) -> None:
    """Links and WebSockets may wait for long; nobody looks at them any more."""
    connection.transport.get_protocol.return_value = object()
    assert not after_looks(connection, 100, 100, 100)
    assert connection.timers.waiting == []


def test_a_connection_that_ended_is_not_looked_at(connection: SimpleNamespace) -> None:
    connection.protocol.connection_lost(None)
    assert not after_looks(connection, 100, 100, 100)


async def test_its_place_is_free_again() -> None:
    """With sockets: an answer that is too long for them, and nobody who reads it."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = Listener(configuration(served(Guard(SystemClock(), take_seconds=0.05))))
    await server.start(listening)
    try:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, listening.getsockname())
            await loop.sock_sendall(client, b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await until(lambda: server.server_state.connections)
            await until(lambda: not server.server_state.connections)
            await until(lambda: not server.server_state.tasks)
    finally:
        await server.end()
