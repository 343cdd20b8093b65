"""The sink's end of /gateway/apply: connect, leave HTTP, then frames and messages (`wire/framing.py`)."""

from __future__ import annotations

import asyncio
import fcntl
import ssl
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast
from urllib.parse import urlsplit

from typing_extensions import Buffer

from fairlead.model.errors import InvalidValue, Unreachable
from fairlead.wire.connection import ApplyStream, Disconnected
from fairlead.wire.framing import ANSWERS
from fairlead.wire.messages import APPLY_HEARS, from_json, to_json
from fairlead.wire.upgrade import APPLY_PATH, HEAD_BYTES_MAX, HEAD_END, check_answer, request_of


class ApplyWire:
    """An open connection to a gateway."""

    def __init__(self, stream: ApplyStream) -> None:
        self._stream = stream

    async def send_message(self, message: object) -> None:
        """Send a message of `messages.py`."""
        await self._send(self._stream.send_text(to_json(message)))

    async def send_frames(self, frames: Sequence[Sequence[Buffer]]) -> None:
        """Send frames, each given as parts one after the other. Returns when the kernel has the bytes; until then they
        must not be changed. One call at a time."""
        await self._send(self._stream.send_frames(frames))

    async def _send(self, sending: Any) -> None:
        try:
            await sending
        except Disconnected:
            # The gateway's last message, which says why, may still be unread: `receive` will raise.
            await asyncio.get_running_loop().create_future()

    async def receive(self) -> Any:
        """The gateway's next message, one of `APPLY_HEARS`.

        Raises:
            InvalidValue: this side does not know such a message.
            Disconnected: the gateway is gone.
        """
        return from_json(bytes((await self._stream.receive()).payload), APPLY_HEARS)

    @property
    def acknowledged_bytes(self) -> int:
        """How many sent bytes the other machine has acknowledged, as the kernel says (Linux)."""
        return self._stream.taken_bytes - _unacknowledged_bytes(self._stream)


@asynccontextmanager
async def open_apply_wire(base: str, open_seconds: float) -> AsyncIterator[ApplyWire]:
    """A connection to the gateway at `base`, an http or https URL.

    Raises:
        Unreachable: it cannot be opened, or broke while it was used.
    """
    try:
        async with asyncio.timeout(open_seconds):
            stream = await _open(base)
    except (OSError, ValueError, InvalidValue) as error:
        raise Unreachable(f"{base}{APPLY_PATH}: {str(error) or type(error).__name__}") from error
    try:
        yield ApplyWire(stream)
    except OSError as error:
        raise Unreachable(f"{base}{APPLY_PATH}: {str(error) or type(error).__name__}") from error
    finally:
        stream.close()


async def _open(base: str) -> ApplyStream:
    parts = urlsplit(base)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidValue("write the address as http://HOST:PORT")
    context = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if context else 80)
    request = request_of(parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + APPLY_PATH)
    loop = asyncio.get_running_loop()
    _, upgrade = await loop.create_connection(lambda: _Upgrade(request), parts.hostname, port, ssl=context)
    try:
        return await upgrade.switched
    except BaseException:
        upgrade.abort()
        raise


class _Upgrade(asyncio.Protocol):
    """Asks to leave HTTP, and reads the headers of the answer."""

    def __init__(self, request: bytes) -> None:
        self.switched: asyncio.Future[ApplyStream] = asyncio.get_running_loop().create_future()
        self._request = request
        self._head = b""
        self._transport: asyncio.Transport = cast(Any, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.switched.done():
            return
        self._head += data
        head, end, early = self._head.partition(HEAD_END)
        if len(head) > HEAD_BYTES_MAX:
            self._fail(InvalidValue(f"no gateway of Fairlead: its answer is longer than {HEAD_BYTES_MAX} bytes"))
        elif end:
            self._switch(head, early)

    def _switch(self, head: bytes, early: bytes) -> None:
        try:
            check_answer(head)
        except InvalidValue as error:
            self._fail(error)
            return
        stream = ApplyStream(ANSWERS)
        stream.take_over(self._transport, early)
        self.switched.set_result(stream)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or Disconnected("the connection was closed before the gateway had answered"))

    def _fail(self, error: Exception) -> None:
        if not self.switched.done():
            self.switched.set_exception(error)

    def abort(self) -> None:
        """End at once."""
        self._transport.abort()


def _unacknowledged_bytes(stream: ApplyStream) -> int:
    """Bytes in the kernel's send queue (Linux); 0 if the kernel cannot be asked."""
    raw = stream.socket
    with suppress(OSError, ValueError, AttributeError):
        return int(struct.unpack("i", fcntl.ioctl(cast(Any, raw).fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0])
    return 0
