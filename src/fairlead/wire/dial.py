"""A connection to another cluster's gateway that leaves HTTP (`upgrade.py`): connect, ask, hand over to whoever speaks
from then on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlsplit

from fairlead.model.errors import InvalidValue
from fairlead.wire.connection import Disconnected
from fairlead.wire.upgrade import HEAD_BYTES_MAX, HEAD_END, TOKEN, check_answer, request_of

T = TypeVar("T")
TakeOver = Callable[[asyncio.Transport, bytes], T]
"""Given the transport, and the bytes that came behind the end of HTTP; it sets the transport's protocol at once."""


async def leave_http(base: str, path: str, take_over: TakeOver[T], token: str = TOKEN) -> T:
    """What `take_over` makes of a connection to the gateway at `base`, an http or https URL, once it has switched.

    Raises:
        OSError, ValueError: it cannot be opened.
        InvalidValue: what answers there does not switch to this protocol.
    """
    parts = urlsplit(base)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidValue("write the address as http://HOST:PORT")
    context = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if context else 80)
    request = request_of(parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + path, token)
    loop = asyncio.get_running_loop()
    _, upgrade = await loop.create_connection(
        lambda: _Upgrade(request, token, take_over), parts.hostname, port, ssl=context
    )
    try:
        return await upgrade.switched
    except BaseException:
        upgrade.abort()
        raise


class _Upgrade(asyncio.Protocol, Generic[T]):
    """Asks to leave HTTP, and reads the headers of the answer."""

    def __init__(self, request: bytes, token: str, take_over: TakeOver[T]) -> None:
        self.switched: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._request = request
        self._token = token
        self._take_over = take_over
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
            check_answer(head, self._token)
        except InvalidValue as error:
            self._fail(error)
            return
        self.switched.set_result(self._take_over(self._transport, early))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or Disconnected("the connection was closed before the gateway had answered"))

    def _fail(self, error: Exception) -> None:
        if not self.switched.done():
            self.switched.set_exception(error)

    def abort(self) -> None:
        """End at once."""
        self._transport.abort()
