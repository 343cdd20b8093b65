"""The sink's end of /gateway/apply: connect, leave HTTP, then frames and messages (`wire/framing.py`)."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from typing_extensions import Buffer

from fairlead.model.conversation import from_json
from fairlead.model.errors import InvalidValue, Unreachable
from fairlead.wire.connection import ApplyStream, Disconnected
from fairlead.wire.dial import leave_http
from fairlead.wire.framing import ANSWERS
from fairlead.wire.messages import APPLY_HEARS, to_json
from fairlead.wire.upgrade import APPLY_PATH


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
            stream = await leave_http(base, APPLY_PATH, _taken_over)
    except (OSError, ValueError, InvalidValue) as error:
        raise Unreachable(f"{base}{APPLY_PATH}: {str(error) or type(error).__name__}") from error
    try:
        yield ApplyWire(stream)
    except OSError as error:
        raise Unreachable(f"{base}{APPLY_PATH}: {str(error) or type(error).__name__}") from error
    finally:
        stream.close()


def _taken_over(transport: asyncio.Transport, early: bytes) -> ApplyStream:
    stream = ApplyStream(ANSWERS)
    stream.take_over(transport, early)
    return stream


def _unacknowledged_bytes(stream: ApplyStream) -> int:
    """Bytes in the kernel's send queue (Linux); 0 if the kernel cannot be asked."""
    raw = stream.socket
    with suppress(OSError, ValueError, AttributeError):
        return int(struct.unpack("i", fcntl.ioctl(cast(Any, raw).fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0])
    return 0
