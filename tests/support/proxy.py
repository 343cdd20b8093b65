"""A way to a server that a test can cut, hold up, or let answers get lost on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Proxy:
    """Passes bytes on between whoever connects and `target`, a port of this host."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.connections = 0
        """How many were opened so far."""
        self.answers_pass = True
        """False: what the server says is dropped."""
        self.refuses = False
        """True: whoever connects is cut off at once."""
        self.requests_pass = asyncio.Event()
        """Cleared: nothing is read from whoever connected."""
        self.requests_pass.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End all connections."""
        for writer in self._open:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        if self.refuses:
            writer.transport.abort()
            return
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._open |= {writer, far_writer}
        try:
            with suppress(OSError):
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._requests(reader, far_writer))
                    group.create_task(self._answers(far_reader, writer))
        except ExceptionGroup:
            pass
        finally:
            self._open -= {writer, far_writer}
            for each in (writer, far_writer):
                each.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self.requests_pass.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionError

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self.answers_pass:
                writer.write(data)
                await writer.drain()
        raise ConnectionError


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    """A proxy to a port of this host."""
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await asyncio.sleep(0)
