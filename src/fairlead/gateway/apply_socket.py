"""The destination's WebSocket /gateway/apply, and all its open connections.

Beyond the window nothing is read from the socket, so the source's sink waits and not this server's memory. When the
agreement ends (upstream removed, stream deleted) the connection is closed at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from fairlead.cluster.cluster import Cluster
from fairlead.gateway.agreement import admit
from fairlead.gateway.apply_session import ApplyCounts, ApplySession
from fairlead.gateway.errors import code_of
from fairlead.gateway.first_of import first_of
from fairlead.gateway.messages import APPLY_SAYS, Error, Ok, from_json, to_json
from fairlead.model.errors import Closed, FairleadError, NotAgreed

log = structlog.get_logger()
router = APIRouter()

HELLO_TIMEOUT_S = 10.0


class ApplyGateway:
    """The open apply connections of this server."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.counts = ApplyCounts()
        self.sessions: set[ApplySession] = set()
        cluster.links.listen(self._check_again)
        cluster.listen(self._check_again)

    def open(self, text: str) -> ApplySession:
        """Begin a connection by its hello.

        Raises:
            FairleadError: it is refused.
        """
        hello = from_json(text, APPLY_SAYS)
        stream = admit(self.cluster, hello)
        session = ApplySession(stream, hello, self.cluster.settings.window_bytes, self.counts)
        self.sessions.add(session)
        return session

    def close(self) -> None:
        """End all connections; the server is stopping."""
        for session in self.sessions:
            session.fail(Closed(f"cluster {self.cluster.name} is stopping"))

    def _check_again(self) -> None:
        for session in self.sessions:
            try:
                admit(self.cluster, session.hello)
            except FairleadError as error:
                session.fail(error)


@router.websocket("/gateway/apply")
async def apply(socket: WebSocket) -> None:
    """Frames of one link, answered cumulatively."""
    await socket.accept()
    gateway: ApplyGateway = socket.app.state.links.gateway
    try:
        text = await asyncio.wait_for(socket.receive_text(), HELLO_TIMEOUT_S)
        session = gateway.open(text)
    except FairleadError as error:
        await refuse(socket, error)
        return
    except (TimeoutError, WebSocketDisconnect, KeyError):
        await close(socket)
        return
    try:
        await _serve(socket, session)
    finally:
        gateway.sessions.discard(session)
        await session.close()


async def _serve(socket: WebSocket, session: ApplySession) -> None:
    try:
        await socket.send_text(to_json(Ok(session.window_bytes)))
        await first_of(_receive(socket, session), _answer(socket, session))
    except FairleadError as error:
        # A connection that was admitted ends so when its agreement does: at the end of a copy, or by an operator.
        note = log.info if isinstance(error, NotAgreed) else log.warning
        note("link refused", link=session.hello.link.hex(), stream=session.stream.path, error=str(error))
        await refuse(socket, error)
    except (WebSocketDisconnect, KeyError, RuntimeError):
        await close(socket)


async def _receive(socket: WebSocket, session: ApplySession) -> None:
    while True:
        await session.submit(await socket.receive_bytes())


async def _answer(socket: WebSocket, session: ApplySession) -> None:
    while True:
        for message in await session.answers():
            await socket.send_text(to_json(message))


async def refuse(socket: WebSocket, error: FairleadError) -> None:
    """Say why, and close."""
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.send_text(to_json(Error(code_of(error), str(error))))
    await close(socket)


async def close(socket: WebSocket) -> None:
    """Close, if the other side has not."""
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close()
