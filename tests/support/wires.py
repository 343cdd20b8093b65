"""Wires between sites that a test can cut: proxies of TCP connections on the loopback interface."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self

_PIECE_BYTES = 65_536
_SLOW_BYTES = 1024


class Wire:
    """Carries connections to one address while it is whole. What is cut is closed on both sides, and so is what breaks
    on one; who connects while it is cut is closed at once."""

    def __init__(self, wires: Wires, host: str, port: int) -> None:
        self._wires = wires
        self._to = host, port
        self._whole = True
        self._open: set[asyncio.StreamWriter] = set()
        self._pause_seconds = 0.0
        self.port = 0
        self.connections = 0
        """How many were opened so far."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open(self) -> bool:
        """Whether anybody is connected."""
        return bool(self._open)

    def cut(self) -> None:
        self._wires.call(self._set(whole=False))

    def heal(self) -> None:
        self._wires.call(self._set(whole=True))

    def trickle(self, bytes_per_second: float | None) -> None:
        """Carry no more than that each way; None: all at once again."""
        self._pause_seconds = 0.0 if bytes_per_second is None else _SLOW_BYTES / bytes_per_second

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        await self._set(whole=False)

    async def _set(self, *, whole: bool) -> None:
        self._whole = whole
        if not whole:
            for writer in self._open:
                writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            if not self._whole:
                return
            self._open.add(writer)
            self.connections += 1
            there, back = await asyncio.open_connection(*self._to)
            ends.append(back)
            self._open.add(back)
            if self._whole:
                await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        except OSError:
            return
        finally:
            for end in ends:
                self._open.discard(end)
                end.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(_SLOW_BYTES if self._pause_seconds else _PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
            if self._pause_seconds:
                await asyncio.sleep(self._pause_seconds)
        writer.write_eof()


class Wires:
    """The wires of a test, on a loop in a thread of its own."""

    def __enter__(self) -> Self:
        self._all: list[Wire] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires")
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for wire in self._all:
            self.call(wire.close())
        self.call(_end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to(self, url: str) -> Wire:
        """A wire to the server at an URL."""
        host, port = url.removeprefix("http://").rsplit(":", 1)
        wire = Wire(self, host, int(port))
        self.call(wire.listen())
        self._all.append(wire)
        return wire

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it on the loop, and wait until it is done."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
