"""uvicorn's HTTP protocol, with as many connections as the guard allows, a time for the head of each request, and
an end for a client that takes nothing of its answer: answers are whole in memory, and each holds a connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairlead.listening.guard import Guard

log = structlog.get_logger()


class GuardedProtocol(H11Protocol):
    """One HTTP connection to an application whose `state.guard` is its guard."""

    _head_timer: asyncio.TimerHandle | None = None
    """Runs while the head of a request is waited for, or is there in part."""
    _taking_timer: asyncio.TimerHandle | None = None
    """Until the next look at what is left of an answer."""
    _left_bytes = 0
    """Of an answer, at the last look."""

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
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn's."""
        self._head_came()
        if self._taking_timer is not None:
            self._taking_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """uvicorn's."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head_came()
        elif self.transport.get_protocol() is self:
            self._await_head()

    def resume_writing(self) -> None:
        """uvicorn's: nearly all has been taken, and more may follow."""
        super().resume_writing()
        self._left_bytes = 0

    def _look_later(self) -> None:
        self._taking_timer = self.loop.call_later(self._guard.take_seconds, self._look_at_taking)

    def _look_at_taking(self) -> None:
        """Whoever takes an answer slowly may: what is left of it differs from look to look. While it is paused nothing
        is added, nor when it is closing, which waits for what is left."""
        if self.transport.get_protocol() is not self:  # it has left HTTP
            return
        left_bytes = self.transport.get_write_buffer_size()
        if left_bytes and left_bytes == self._left_bytes:
            log.warning("an HTTP client takes nothing of its answer; disconnected", left_bytes=left_bytes)
            self.transport.abort()
            return
        self._left_bytes = left_bytes
        self._look_later()

    def _await_head(self) -> None:
        if self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self._guard.head_seconds, self.transport.abort)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
