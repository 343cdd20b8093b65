"""uvicorn's HTTP protocol, which hands a connection over when it asks to leave HTTP: to links on /gateway/apply, on
/gateway/forward to whoever takes writes that replicas pass on.

Give it to uvicorn as `Config(http=HttpProtocol)`. All else is answered as ever; the path without the Upgrade, or that
the guard refuses, gets its answer from the application.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast

import h11

from fairlead.gateway.apply.socket import ApplyGateway, serve
from fairlead.listening.protocol import GuardedProtocol
from fairlead.model.errors import InvalidValue
from fairlead.wire.connection import ApplyStream
from fairlead.wire.forward import ForwardHello, hello_of
from fairlead.wire.framing import HELLO
from fairlead.wire.upgrade import APPLY_PATH, FORWARD_PATH, FORWARD_TOKEN, TOKEN, answer_of, asks_to_upgrade

_TOKENS = {APPLY_PATH: TOKEN, FORWARD_PATH: FORWARD_TOKEN}


class Ending(Protocol):
    """A connection that has left HTTP."""

    def shutdown(self) -> None:
        """uvicorn's: the server is stopping."""
        ...


class TakesForwards(Protocol):
    """Takes over connections by which replicas pass writes on."""

    def take_over(
        self, transport: asyncio.Transport, early: bytes, hello: ForwardHello, on_lost: Callable[[Any], object]
    ) -> Ending:
        """Read from this transport from now on."""
        ...


class HttpProtocol(GuardedProtocol):
    """One HTTP connection."""

    def _should_upgrade(self) -> bool:
        return self._leaves_http() or super()._should_upgrade()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """uvicorn's, for a request that is to be upgraded."""
        self._head_came()
        if self._leaves_http():
            self._hand_over()
        else:
            super().handle_websocket_upgrade(event)

    @property
    def _path(self) -> str:
        return self.scope["raw_path"].decode("latin-1")

    def _leaves_http(self) -> bool:
        path = self._path
        token = _TOKENS.get(path)
        if token is None or (self.scope["method"], self.scope["http_version"]) != ("GET", "1.1"):
            return False
        if not asks_to_upgrade(self.headers, token) or self._guard.refusal("GET", path, self.headers) is not None:
            return False
        return path == APPLY_PATH or self._forward_hello() is not None

    def _forward_hello(self) -> ForwardHello | None:
        """What a replica that passes writes on says; None if that will not do, or nobody takes them."""
        if cast(Any, self.config.app).state.forwards is not None:
            with suppress(InvalidValue):
                return hello_of(self.scope["query_string"])
        return None

    def _unsupported_upgrade_warning(self) -> None:
        """uvicorn's; the answer says it."""

    def _hand_over(self) -> None:
        # uvicorn closes these when it stops.
        self.connections.discard(self)
        self.transport.write(answer_of(_TOKENS[self._path]))
        early, _ = self.conn.trailing_data
        if self._path == APPLY_PATH:
            self._serve_link(early)
        else:
            self._take_forwards(early)

    def _take_forwards(self, early: bytes) -> None:
        forwards: TakesForwards = cast(Any, self.config.app).state.forwards
        hello = self._forward_hello()
        assert hello is not None
        connections = cast(Any, self.connections)
        connections.add(forwards.take_over(self.transport, early, hello, connections.discard))

    def _serve_link(self, early: bytes) -> None:
        gateway: ApplyGateway = cast(Any, self.config.app).state.apply
        stream = ApplyStream(HELLO)
        self.connections.add(cast(Any, stream))
        stream.take_over(self.transport, early, on_lost=cast(Any, self.connections).discard)
        # uvicorn waits for the tasks when it stops.
        task = self.loop.create_task(serve(stream, gateway), name="apply")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
