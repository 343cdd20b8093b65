"""A source server and a gateway that do what a test tells them, on real sockets of port 0."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve

from fairlead.model.conversation import from_json
from fairlead.replication.carried.addresses import FrameAddress
from fairlead.spark.packets import Packet
from fairlead.streamlog.frames.codec import decode_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.values import GrantRun
from fairlead.wire.apply import Applied, ApplyHello, Error, Ok, SlicesAt
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.messages import APPLY_SAYS, READER_SAYS, SINK_SAYS, to_json
from tests.support.apply_peer import ApplyPeer, serve_apply
from tests.support.waiting import WAIT_SECONDS, in_time

LINK = b"L" * 16
SOURCE = b"S" * 16
DESTINATION = b"D" * 16
RUN = GrantRun(1, 1)


def url_of(server: Server) -> str:
    """HTTP address of a fake."""
    port = next(iter(server.sockets)).getsockname()[1]
    return f"http://127.0.0.1:{port}"


def link_frame(data: bytes, *urls: str, shard: int = 0, run: GrantRun = RUN, link: bytes = LINK) -> Packet:
    """A frame on its way to a gateway."""
    hello = ApplyHello(1, link, run, StreamPlace("a", "/s", SOURCE), DESTINATION, shard)
    address = FrameAddress(hello, StreamPlace("b", "/s", DESTINATION, urls)).to_json()
    return Packet(address, data, len(data))


@dataclass
class FakeControl:
    """A source server: keeps what readers and sinks say; `tell` is what it says to whoever comes next."""

    heard: list[Any] = field(default_factory=list)
    sockets: list[ServerConnection] = field(default_factory=list)
    on_message: Callable[[Any], list[object]] = lambda _message: []
    url: str = ""
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, socket: ServerConnection) -> None:
        """One control connection."""
        assert socket.request is not None
        kinds = READER_SAYS if socket.request.path.endswith("reader") else SINK_SAYS
        self.sockets.append(socket)
        async for text in socket:
            message = from_json(text, kinds)
            for answer in self.on_message(message):
                await socket.send(to_json(answer))
            async with self.news:
                self.heard.append(message)
                self.news.notify_all()

    def all(self, kind: type[Any]) -> list[Any]:
        """Messages of that kind, in order."""
        return [message for message in self.heard if isinstance(message, kind)]

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until what was heard makes `reached` true."""
        async with in_time(), self.news:
            await self.news.wait_for(reached)

    async def say(self, message: object) -> None:
        """To the newest connection."""
        await self.sockets[-1].send(to_json(message))


@asynccontextmanager
async def fake_control(on_message: Callable[[Any], list[object]] = lambda _message: []) -> AsyncIterator[FakeControl]:
    """A running source server."""
    control = FakeControl(on_message=on_message)
    async with serve(control.serve, "127.0.0.1", 0) as server:
        control.url = url_of(server)
        yield control


@dataclass
class FakeGateway:
    """A gateway: keeps frames, answers them when `answering` is set."""

    frames: list[bytes] = field(default_factory=list)
    hellos: list[ApplyHello] = field(default_factory=list)
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    window_bytes: int = 1 << 30
    error: Error | None = None
    url: str = ""
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, socket: ApplyPeer) -> None:
        """One connection of a sink."""
        self.hellos.append(from_json(await socket.recv(), APPLY_SAYS))
        if self.error is not None:
            await socket.send(to_json(self.error))
            return
        await socket.send(to_json(Ok(self.window_bytes)))
        through = 0
        async for data in socket:
            assert isinstance(data, bytes)
            async with self.news:
                self.frames.append(data)
                self.news.notify_all()
            await self.answering.wait()
            through += 1
            await socket.send(to_json(Applied(through, (SlicesAt(1, through),), through, 0, 0)))

    async def until(self, frames: int) -> None:
        """Wait until so many frames have come."""
        async with in_time(), self.news:
            await self.news.wait_for(lambda: len(self.frames) >= frames)

    def decoded(self) -> list[Frame]:
        """The frames that came."""
        return [decode_frame(data) for data in self.frames]


@asynccontextmanager
async def fake_gateway(**changes: Any) -> AsyncIterator[FakeGateway]:
    """A running gateway that answers at once."""
    gateway = FakeGateway(**changes)
    gateway.answering.set()
    async with serve_apply(gateway.serve) as gateway.url:
        try:
            yield gateway
        finally:
            gateway.answering.set()


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """A program that runs beside the test and is ended with it."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=WAIT_SECONDS)
