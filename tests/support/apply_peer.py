"""Both ends of /gateway/apply for tests, written from the document and not from the code: the bytes are said once more.

`connect_apply` is a sink, `serve_apply` a gateway. What is sent and received is a str (JSON) or bytes (a frame).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

REQUEST = b"GET /gateway/apply HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: fairlead-apply\r\n\r\n"
ANSWER = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: fairlead-apply\r\n\r\n"
JSON, FRAME = 0, 1


class PeerClosed(ConnectionError):
    """The other side has ended the connection."""


def packed(message: str | bytes) -> bytes:
    """A message as it travels."""
    kind, payload = (JSON, message.encode()) if isinstance(message, str) else (FRAME, message)
    return struct.pack("<IB", len(payload), kind) + payload


class ApplyPeer:
    """An open connection that has left HTTP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, message: str | bytes) -> None:
        """Send one message."""
        await self.send_raw(packed(message))

    async def send_raw(self, data: bytes) -> None:
        """Send any bytes."""
        if self.writer.is_closing():
            raise PeerClosed
        self.writer.write(data)
        await self.writer.drain()

    async def recv(self) -> str | bytes:
        """The next message."""
        try:
            size, kind = struct.unpack("<IB", await self.reader.readexactly(5))
            payload = await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise PeerClosed from error
        return payload.decode() if kind == JSON else payload

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        """All messages until the other side ends."""
        with suppress(PeerClosed):
            while True:
                yield await self.recv()

    async def close(self) -> None:
        """End, and wait for it."""
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


async def connect_apply(url: str, request: bytes = REQUEST) -> ApplyPeer:
    """A sink's connection to the gateway at an HTTP address."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(request)
    assert await reader.readuntil(b"\r\n\r\n") == ANSWER
    return ApplyPeer(reader, writer)


@asynccontextmanager
async def serve_apply(serve: Callable[[ApplyPeer], Awaitable[None]], answer: bytes = ANSWER) -> AsyncIterator[str]:
    """A gateway that does `serve` with every sink; gives its HTTP address."""
    running: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        peer = ApplyPeer(reader, writer)
        try:
            with suppress(OSError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"GET /gateway/apply HTTP/1.1\r\n")
                assert b"\r\nConnection: Upgrade\r\nUpgrade: fairlead-apply\r\n" in head
                writer.write(answer)
                await serve(peer)
        finally:
            running.discard(task)
            await peer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
