"""Who may call the HTTP listener at all, and with how much; asked before anything else looks at a call.

A page in a browser on this host or in its network can reach the listener. It is known by three things: the name it
called (`Host`, after DNS was bent to this address), where it comes from (`Origin`, `Sec-Fetch-Site`), and the few
content types that a browser sends without asking. In: the head of a call. Out: nothing, or why it is refused. Bodies
are read here, whole, within a time and a bound, so a handler is never given a body that grows.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead.model.clock import Clock
from fairlead.model.envelope import error_envelope
from fairlead.model.errors import Busy, FairleadError, InvalidValue, NotAllowed
from fairlead.process import control_secret

BODY_BYTES_MAX: Final = 1_000_000
"""Of one call."""
BODIES_BYTES_MAX: Final = 64_000_000
"""Of all calls that are under way."""
HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 10.0
TAKE_SECONDS: Final = 30.0
"""Between two looks at what a client has taken of its answer."""

Headers = Sequence[tuple[bytes, bytes]]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_PAGES: Final = frozenset({"/", "/docs"})
"""A link on a page of another site may lead here; the answers can be neither framed nor read there."""
_OWN: Final = frozenset({"same-origin", "none"})
_ANSWER_HEADERS: Final = (
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)
"""Of every answer: a page here loads nothing and is shown in no other's frame."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not let in, and the HTTP status that says so."""

    status: int
    error: FairleadError


class _Gone(Exception):
    """The caller has left."""


class Guard:
    """Of one listener. `hosts`: names that others call it by; a number and `localhost` always pass. `secret`: what
    the server's own replicator says; without one, nobody controls anything."""

    def __init__(
        self,
        clock: Clock,
        hosts: Iterable[str] = (),
        *,
        secret: str = "",
        connections_max: int = 500,
        head_seconds: float = HEAD_SECONDS,
        body_seconds: float = BODY_SECONDS,
        take_seconds: float = TAKE_SECONDS,
    ) -> None:
        self.connections_max = connections_max
        self.head_seconds = head_seconds
        self.take_seconds = take_seconds
        self._clock = clock
        self._hosts = frozenset({"localhost", *map(_plain, hosts)})
        self._secret = secret
        self._body_seconds = body_seconds
        self._bodies_bytes = 0

    def refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        """Why a call with this head is refused; None lets it in."""
        return (
            self._by_host(headers)
            or _by_origin(method, path, headers)
            or _by_kind(path, headers)
            or self._by_secret(path, headers)
        )

    def _by_host(self, headers: Headers) -> Refusal | None:
        named = _values(headers, b"host")
        if len(named) == 1 and self._is_ours(named[0]):
            return None
        why = f"{', '.join(named)[:200]!r} is no name of this server; if it is, add it to the setting http_hosts"
        return Refusal(421, NotAllowed(why))

    def _is_ours(self, named: str) -> bool:
        """Names can be bent to any address by those who own them, numbers cannot."""
        with suppress(ValueError):
            host = urlsplit(f"//{named}").hostname or ""
            if _plain(host) in self._hosts:
                return True
            ipaddress.ip_address(host)
            return True
        return False

    def _by_secret(self, path: str, headers: Headers) -> Refusal | None:
        """Who opens a control connection takes links' grants and says how far they are."""
        if not path.startswith("/control/"):
            return None
        said = [value for key, value in headers if key.lower() == control_secret.HEADER.encode()]
        if self._secret and len(said) == 1 and hmac.compare_digest(said[0], self._secret.encode()):
            return None
        return Refusal(
            403, NotAllowed(f"{path} is for this server's own replicator, which reads {control_secret.FILE}")
        )

    def wrap(self, app: App) -> App:
        """The application behind this guard."""

        async def guarded(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
            match scope["type"]:
                case "http":
                    await self._http(app, scope, receive, send)
                case "websocket":
                    refused = self.refusal("GET", scope["path"], scope["headers"])
                    await (app(scope, receive, send) if refused is None else send({"type": "websocket.close"}))
                case _:
                    await app(scope, receive, send)

        return guarded

    async def _http(self, app: App, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        refused = self.refusal(scope["method"], scope["path"], scope["headers"])
        if refused is not None:
            await self._refuse(refused, send)
            return
        body = bytearray()
        try:
            refused = await self._read(body, scope["headers"], receive)
            if refused is None:
                await app(scope, _after(bytes(body), receive), _with_headers(send))
            else:
                await self._refuse(refused, send)
        except _Gone:
            pass
        finally:
            self._bodies_bytes -= len(body)

    async def _read(self, body: bytearray, headers: Headers, receive: Receive) -> Refusal | None:
        """Fill `body`, which counts as held from then on."""
        length = next(iter(_values(headers, b"content-length")), "0")
        if not length.isdigit() or int(length) > BODY_BYTES_MAX:
            return _too_large()
        try:
            async with asyncio.timeout(self._body_seconds):
                while True:
                    part = await receive()
                    if part["type"] == "http.disconnect":
                        raise _Gone
                    piece = part.get("body", b"")
                    body += piece
                    self._bodies_bytes += len(piece)
                    if len(body) > BODY_BYTES_MAX:
                        return _too_large()
                    if self._bodies_bytes > BODIES_BYTES_MAX:
                        return Refusal(503, Busy("too many calls with large bodies are under way; try again"))
                    if not part.get("more_body", False):
                        return None
        except TimeoutError:
            return Refusal(408, InvalidValue(f"the body took longer than {self._body_seconds:g} s"))

    async def _refuse(self, refused: Refusal, send: Send) -> None:
        """Answer, and end the connection: what may still come of the body is not read."""
        body = json.dumps(error_envelope(refused.error, self._clock.wall_ms())).encode()
        headers = [
            (b"content-type", _JSON.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        send = _with_headers(send)
        await send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _by_origin(method: str, path: str, headers: Headers) -> Refusal | None:
    host = _values(headers, b"host")
    for origin in _values(headers, b"origin"):
        if [_netloc(origin)] != host:
            return Refusal(403, NotAllowed(f"a page of {origin[:200]!r} may not call this server"))
    sites = set(_values(headers, b"sec-fetch-site"))
    if sites <= _OWN:
        return None
    visit = _values(headers, b"sec-fetch-mode") == ["navigate"] and _values(headers, b"sec-fetch-dest") == ["document"]
    if visit and method == "GET" and path in _PAGES:
        return None
    return Refusal(403, NotAllowed("a page of another site may not call this server"))


def _by_kind(path: str, headers: Headers) -> Refusal | None:
    """Browsers send text, forms and bodies without a type to other sites unasked; forms say their Origin."""
    sizes = _values(headers, b"content-length")
    if not _values(headers, b"transfer-encoding") and set(sizes) <= {"0"}:
        return None
    taken = {_JSON, _FORM} if path.startswith("/rest/") else {_JSON}
    kinds = {value.partition(";")[0].strip() for value in _values(headers, b"content-type")}
    if kinds and kinds <= taken:
        return None
    named = ", ".join(sorted(kinds))[:100] or "none"
    return Refusal(415, InvalidValue(f"content type {named!r}: send {' or '.join(sorted(taken))}"))


def _too_large() -> Refusal:
    return Refusal(413, InvalidValue(f"the body is larger than {BODY_BYTES_MAX:,} bytes"))


def _values(headers: Headers, name: bytes) -> list[str]:
    """What a header says, in lower case: hosts, origins, kinds and numbers do not differ by that."""
    return [value.decode("latin-1").strip().lower() for key, value in headers if key.lower() == name]


def _plain(host: str) -> str:
    return host.strip().lower().strip("[]").rstrip(".")


def _netloc(origin: str) -> str:
    """`null`, and what is no URL, are nobody's."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _after(body: bytes, receive: Receive) -> Receive:
    """What was read, then whatever follows."""
    waiting: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def next_message() -> Message:
        for message in waiting:
            return message
        return await receive()

    return next_message


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_ANSWER_HEADERS]}
        await send(message)

    return sending


def names_of(setting: str) -> tuple[str, ...]:
    """The names of `http_hosts`."""
    return tuple(filter(None, map(str.strip, setting.split(","))))
