"""WebSockets of tasks to whoever decides for them, which must show a secret; see `process/control_secret`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI

from fairlead.model.conversation import Kinds, from_json
from fairlead.model.errors import Unreachable
from fairlead.process import control_secret

_FORBIDDEN = 403
CONNECT_SECONDS = 5.0
"""Until a connection is open."""
RECONNECT_SECONDS = 0.25
"""Pause before a lost control connection is opened again: one that was started again is found within a second."""

_BROKEN = (OSError, TimeoutError, InvalidHandshake, InvalidMessage, InvalidURI, ConnectionClosed, EOFError)


def websocket_url(base: str, path: str) -> str:
    """`http://host:7660` and `/control/sink` give `ws://host:7660/control/sink`; https gives wss."""
    parts = urlsplit(base)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + path, "", ""))


@asynccontextmanager
async def open_websocket(base: str, path: str, secret_file: str = "") -> AsyncIterator[ClientConnection]:
    """A WebSocket to `path` of the server at `base`, whose secret is in that file.

    Raises:
        Unreachable: it cannot be opened, or broke while it was used.
        InvalidValue: the file holds no secret.
    """
    url = websocket_url(base, path)
    headers = {control_secret.HEADER: control_secret.read(Path(secret_file))} if secret_file else {}
    opening = connect(
        url,
        compression=None,
        max_size=None,
        proxy=None,
        additional_headers=headers,
        open_timeout=CONNECT_SECONDS,
        close_timeout=0.5,
        ping_interval=20.0,
    )
    try:
        async with opening as socket:
            yield socket
    except _BROKEN as error:
        raise Unreachable(f"{url}: {_why(error)}") from error


class Control:
    """A control connection: typed messages both ways."""

    def __init__(self, socket: ClientConnection, hears: Kinds, write: Callable[[object], str]) -> None:
        """`write` gives the text of a message that this side says."""
        self._socket = socket
        self._hears = hears
        self._write = write

    async def send(self, message: object) -> None:
        """Raises: Unreachable: the connection broke."""
        try:
            await self._socket.send(self._write(message))
        except ConnectionClosed as error:
            raise Unreachable(_why(error)) from error

    async def receive(self) -> Any:
        """The next message.

        Raises:
            InvalidValue: this side does not know such a message.
        """
        return from_json(await self._socket.recv(), self._hears)


def _why(error: BaseException) -> str:
    if isinstance(error, ConnectionClosed):
        return f"the connection was closed ({error})"
    if isinstance(error, InvalidStatus) and error.response.status_code == _FORBIDDEN:
        return "the server does not know this secret: is it of its data directory and its present start?"
    return str(error) or type(error).__name__
