"""One connection of /gateway/apply once both sides have left HTTP: messages in, messages out, on either side.

Little is read ahead: while messages wait to be taken, nothing is read from the socket, so a reader that takes none
makes the other side wait.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

from typing_extensions import Buffer

from fairlead.model.errors import InvalidValue
from fairlead.wire.framing import Limits, Message, MessageKind, MessageReader, header_of

READ_AHEAD_BYTES = 256 * 1024
"""Reading pauses while more than this waits to be taken; one message may be larger."""

WRITE_BYTES = 256 * 1024
"""Handed to the transport at once: of what the kernel does not take, asyncio before 3.12 makes a copy."""

LINGER_SECONDS = 2.0
"""For the other side to read what was said last."""

KEEPALIVE_SECONDS = 20
"""How often a silent connection is probed; three probes without an answer end it."""

_CLOSED = "the connection was closed"


class Disconnected(ConnectionError):
    """The other side is gone."""


class ApplyStream(asyncio.BufferedProtocol):
    """Give it a connected transport by `take_over`."""

    def __init__(self, limits: Limits) -> None:
        self._reader = MessageReader(limits)
        self._news = asyncio.Event()
        self._end: Exception | None = None
        self._reading = True
        self._discarding = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._handed_bytes = 0
        self._lost = asyncio.Event()
        self._on_lost: Callable[[ApplyStream], object] | None = None
        self._transport: asyncio.Transport = cast(Any, None)

    def take_over(
        self,
        transport: asyncio.Transport,
        early: bytes = b"",
        on_lost: Callable[[ApplyStream], object] | None = None,
    ) -> None:
        """Read from this transport from now on; `early` are bytes that came behind the end of HTTP."""
        self._transport, self._on_lost = transport, on_lost
        # uvloop chooses between its two ways of reading when reading begins.
        transport.pause_reading()
        transport.set_protocol(self)
        transport.set_write_buffer_limits(high=0)
        _tune(transport)
        transport.resume_reading()
        if early:
            self._take(lambda: self._reader.feed(early))

    def expect(self, limits: Limits) -> None:
        """Take messages of these kinds and sizes from now on."""
        self._reader.limits = limits

    @property
    def waiting_bytes(self) -> int:
        """What was received and not taken yet."""
        return self._reader.waiting_bytes

    @property
    def taken_bytes(self) -> int:
        """What the kernel has taken of what was sent, since the connection began."""
        return self._handed_bytes - self._transport.get_write_buffer_size()

    @property
    def socket(self) -> socket.socket | None:
        """The connection's socket, to ask it things."""
        found: socket.socket | None = self._transport.get_extra_info("socket")
        return found

    # ------------------------------------------------------------ in

    async def receive(self) -> Message:
        """The next message; those that came before the end are given first.

        Raises:
            Disconnected: the other side is gone.
            InvalidValue: it has sent something that is not taken here.
        """
        while not self._reader:
            if self._end is not None:
                raise self._end
            self._news.clear()
            await self._news.wait()
        message = self._reader.take()
        if not self._reading and self._reader.waiting_bytes <= READ_AHEAD_BYTES:
            self._resume()
        return message

    def get_buffer(self, sizehint: int) -> memoryview:
        """asyncio's."""
        return self._reader.space()

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio's."""
        if not self._discarding:
            self._take(lambda: self._reader.filled(nbytes))

    def _take(self, cut: Callable[[], None]) -> None:
        try:
            cut()
        except InvalidValue as error:
            self._ended(error)
        if self._reader or self._end is not None:
            self._news.set()
        if self._reading and (self._reader.waiting_bytes > READ_AHEAD_BYTES or self._end is not None):
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._end is None and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """asyncio's: nothing more comes, and the transport may close."""
        self._ended(Disconnected(_CLOSED if self._reader.between else f"{_CLOSED} in the middle of a message"))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's."""
        self._ended(Disconnected(str(exc) if exc is not None else _CLOSED))
        self._lost.set()
        if self._on_lost is not None:
            self._on_lost(self)

    def _ended(self, error: Exception) -> None:
        self._end = self._end or error
        self._news.set()
        self._writable.set()

    # ------------------------------------------------------------ out

    async def send_text(self, text: str) -> None:
        """Send a JSON message as a whole, though the caller may be cancelled meanwhile. Raises as `send_frames`."""
        payload = text.encode()
        await self._until_writable()
        self._write([memoryview(header_of(MessageKind.JSON, len(payload)) + payload)])
        await self._until_writable()

    async def send_frames(self, frames: Sequence[Sequence[Buffer]]) -> None:
        """Send frames, each of whose bytes are some parts, and return when the kernel has them: until then they must
        not be changed. One call at a time.

        Raises:
            Disconnected: the other side is gone.
        """
        views: list[memoryview] = []
        for parts in frames:
            frame = [memoryview(part).cast("B") for part in parts]
            views += [memoryview(header_of(MessageKind.FRAME, sum(map(len, frame)))), *frame]
        for chunk in chunks(views):
            await self._until_writable()
            self._write(chunk)
        await self._until_writable()

    def _write(self, chunk: list[memoryview]) -> None:
        self._handed_bytes += sum(map(len, chunk))
        if len(chunk) == 1:
            self._transport.write(chunk[0])
        else:
            self._transport.writelines(chunk)

    async def _until_writable(self) -> None:
        await self._writable.wait()
        if self._transport.is_closing():
            raise self._end if isinstance(self._end, Disconnected) else Disconnected(_CLOSED)

    def pause_writing(self) -> None:
        """asyncio's."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """asyncio's."""
        self._writable.set()

    # ------------------------------------------------------------ ends

    def shutdown(self) -> None:
        """uvicorn's: the server is stopping."""
        self._ended(Disconnected("the server is stopping"))
        self._transport.close()

    def close(self) -> None:
        """End; what the kernel has not taken is dropped."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    async def finish(self, text: str) -> None:
        """Send a last JSON message and end, so that the other side can read it: what it still sends is read and
        dropped for a while. A socket that is closed with bytes unread answers with a reset, which may overtake it."""
        try:
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(LINGER_SECONDS):
                    await self.send_text(text)
                    self._discard()
                    await self._lost.wait()
        finally:
            self._transport.abort()

    def _discard(self) -> None:
        self._discarding = True
        self._reader = MessageReader({})
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        if not self._reading and not self._transport.is_closing():
            self._transport.resume_reading()


def chunks(views: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """The same bytes, at most `WRITE_BYTES` at a time, none of them copied."""
    chunk: list[memoryview] = []
    room = WRITE_BYTES
    for view in views:
        rest = view
        while len(rest):
            piece, rest = rest[:room], rest[room:]
            chunk.append(piece)
            room -= len(piece)
            if not room:
                yield chunk
                chunk, room = [], WRITE_BYTES
    if chunk:
        yield chunk


def _tune(transport: asyncio.Transport) -> None:
    """Send at once, whatever the loop's default is; and let the kernel find out about a machine that is gone."""
    raw = transport.get_extra_info("socket")
    with suppress(OSError, AttributeError):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
