"""The destination's side of /gateway/apply, and all its open connections.

Beyond the window, and beyond the room that all links have together, nothing is read from the socket, so the source's
sink waits and not this server's memory. When the
agreement ends (upstream removed, stream deleted) the connection is closed at once.
"""

from __future__ import annotations

import asyncio

import structlog
from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from fairlead.cluster.cluster import Cluster
from fairlead.gateway.apply.agreement import admit
from fairlead.gateway.apply.room import ApplyRoom
from fairlead.gateway.apply.session import ApplyCounts, ApplySession
from fairlead.model.conversation import from_json
from fairlead.model.envelope import code_of
from fairlead.model.errors import Closed, FairleadError, NotAgreed
from fairlead.wire.apply import Error, Ok
from fairlead.wire.connection import ApplyStream, Disconnected
from fairlead.wire.first_of import first_of
from fairlead.wire.framing import FRAMES
from fairlead.wire.messages import APPLY_SAYS, check_protocol, to_json
from fairlead.wire.upgrade import APPLY_PATH, TOKEN
from fairlead.wire.waits import HELLO_SECONDS

log = structlog.get_logger()
router = APIRouter()


class ApplyGateway:
    """The open apply connections of this server. `start` and `close` enclose its life."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.counts = ApplyCounts()
        self.room = ApplyRoom(cluster.settings.apply_bytes)
        self.sessions: set[ApplySession] = set()

    def start(self) -> None:
        """End connections from now on whose agreement has ended."""
        self.cluster.links.listen(self._check_again)
        self.cluster.kafka.listen(self._check_again)
        self.cluster.listen(self._check_again)

    def open(self, text: bytes) -> ApplySession:
        """Begin a connection by its hello.

        Raises:
            FairleadError: it is refused.
        """
        check_protocol(text)
        hello = from_json(text, APPLY_SAYS)
        stream, admission = admit(self.cluster, hello)
        session = ApplySession(stream, hello, self.cluster.settings.window_bytes, self.counts, self.room)
        session.admission = admission
        self.sessions.add(session)
        return session

    def close(self) -> None:
        """End all connections; the server is stopping."""
        for session in self.sessions:
            session.fail(Closed(f"cluster {self.cluster.name} is stopping"))

    def _check_again(self) -> None:
        for session in self.sessions:
            try:
                _, session.admission = admit(self.cluster, session.hello)
            except FairleadError as error:
                session.fail(error)


@router.get(APPLY_PATH, include_in_schema=False)
async def apply() -> Response:
    """Answers a client that does not ask to leave HTTP; `http_protocol` takes the others."""
    message = f"{APPLY_PATH} is for the replicator, which leaves HTTP by `Upgrade: {TOKEN}`"
    return JSONResponse({"error": message}, 426, {"Connection": "Upgrade", "Upgrade": TOKEN})


async def serve(stream: ApplyStream, gateway: ApplyGateway) -> None:
    """Frames of one link, answered cumulatively, until the connection ends."""
    try:
        await _serve(stream, gateway)
    except (TimeoutError, Disconnected):
        pass
    except Exception:
        log.exception("a bug in an apply connection")
    finally:
        stream.close()


async def _serve(stream: ApplyStream, gateway: ApplyGateway) -> None:
    try:
        hello = await asyncio.wait_for(stream.receive(), HELLO_SECONDS)
        session = gateway.open(bytes(hello.payload))
    except FairleadError as error:
        await _refuse(stream, error)
        return
    try:
        await _converse(stream, session, gateway)
    finally:
        gateway.sessions.discard(session)
        await session.close()


async def _converse(stream: ApplyStream, session: ApplySession, gateway: ApplyGateway) -> None:
    try:
        stream.expect(FRAMES)
        await stream.send_text(to_json(Ok(session.window_bytes)))
        await first_of(_receive(stream, session, gateway), _answer(stream, session))
    except FairleadError as error:
        # A connection that was admitted ends so when its agreement does: at the end of a copy, or by an operator.
        note = log.info if isinstance(error, NotAgreed) else log.warning
        note("link refused", link=session.hello.link.hex(), stream=session.stream.path, error=str(error))
        await _refuse(stream, error)


async def _receive(stream: ApplyStream, session: ApplySession, gateway: ApplyGateway) -> None:
    hello, heard = session.hello, session.stream.heard
    while True:
        await session.submit((await stream.receive()).payload)
        heard.note_frame(hello.source.stream, hello.shard, session.lacking, gateway.cluster.clock.wall_ms())


async def _answer(stream: ApplyStream, session: ApplySession) -> None:
    while True:
        for message in await session.answers():
            await stream.send_text(to_json(message))


async def _refuse(stream: ApplyStream, error: FairleadError) -> None:
    """Say why, and close."""
    await stream.finish(to_json(Error(code_of(error), str(error))))
