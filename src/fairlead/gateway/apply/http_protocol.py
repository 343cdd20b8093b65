"""uvicorn's HTTP protocol, which hands a connection over to links when it asks to leave HTTP on /gateway/apply.

Give it to uvicorn as `Config(http=HttpProtocol)`. All else is answered as ever; the path without the Upgrade, or that
the guard refuses, gets its answer from the application. There are as many connections as the guard allows, of all
kinds, and the head of a request comes within its time.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairlead.gateway.apply.socket import ApplyGateway, serve
from fairlead.gateway.guard import Guard
from fairlead.wire.connection import ApplyStream
from fairlead.wire.framing import HELLO
from fairlead.wire.upgrade import ANSWER, APPLY_PATH, asks_to_upgrade

log = structlog.get_logger()


class HttpProtocol(H11Protocol):
    """One HTTP connection."""

    _head_timer: asyncio.TimerHandle | None = None
    """Runs while the head of a request is waited for, or is there in part."""

    @property
    def _guard(self) -> Guard:
        return cast(Guard, cast(Any, self.config.app).state.guard)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """uvicorn's."""
        super().connection_made(transport)
        if len(self.connections) > self._guard.connections_max:
            log.warning("too many HTTP connections; client refused", limit=self._guard.connections_max)
            transport.abort()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn's."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """uvicorn's."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head_came()
        elif self.transport.get_protocol() is self:
            self._await_head()

    def _await_head(self) -> None:
        if self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self._guard.head_seconds, self.transport.abort)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _should_upgrade(self) -> bool:
        return self._leaves_http() or super()._should_upgrade()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """uvicorn's, for a request that is to be upgraded."""
        self._head_came()
        if self._leaves_http():
            self._hand_over()
        else:
            super().handle_websocket_upgrade(event)

    def _leaves_http(self) -> bool:
        scope = self.scope
        asked = (scope["method"], scope["http_version"], scope["raw_path"].decode("latin-1"))
        if asked != ("GET", "1.1", APPLY_PATH) or not asks_to_upgrade(self.headers):
            return False
        return self._guard.refusal("GET", APPLY_PATH, self.headers) is None

    def _unsupported_upgrade_warning(self) -> None:
        """uvicorn's; the answer says it."""

    def _hand_over(self) -> None:
        gateway: ApplyGateway = cast(Any, self.config.app).state.apply
        early, _ = self.conn.trailing_data
        stream = ApplyStream(HELLO)
        # uvicorn closes these when it stops, and waits for the tasks.
        self.connections.discard(self)
        self.connections.add(cast(Any, stream))
        self.transport.write(ANSWER)
        stream.take_over(self.transport, early, on_lost=cast(Any, self.connections).discard)
        task = self.loop.create_task(serve(stream, gateway), name="apply")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
