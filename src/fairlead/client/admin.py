"""Calls of another server's HTTP listener: used by the command line, and by servers that call each other.

In: the URLs of one cluster, tried in turn. Out: the envelope's data, or the error that it carries, as the class it had
there. A call that may have reached a server is never sent again: only a connection that was refused tries the next URL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from fairlead.model.envelope import to_error
from fairlead.model.errors import InvalidValue, Unreachable
from fairlead.model.limits import PORT_MAX
from fairlead.wire.urls import Attempts
from fairlead.wire.waits import COMMAND_SECONDS, CONNECT_SECONDS

FORWARDED = "x-fairlead-forwarded"
"""Header of a call that one cluster sends on to another, so that it is never sent on twice."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a call answered: the rows, and the whole envelope they came in."""

    data: tuple[dict[str, Any], ...]
    envelope: Mapping[str, Any]

    @property
    def first(self) -> dict[str, Any]:
        """The only row of an `info`; empty if there is none."""
        return self.data[0] if self.data else {}


class AdminClient:
    """Speaks to one cluster. `http` is shared if given, else made here and closed by `close`."""

    def __init__(self, urls: Sequence[str], http: httpx.AsyncClient | None = None) -> None:
        if not urls:
            raise InvalidValue("no HTTP address is known for the cluster")
        self.urls = tuple(check_url(url) for url in urls)
        self._owned = http is None
        self._http = http or new_http_client()

    async def __aenter__(self) -> AdminClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, if they are this client's own."""
        if self._owned:
            await self._http.aclose()

    async def get(
        self, path: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Envelope:
        """Ask, for example `/rest/stream/info`; None values are left out, a mapping travels as JSON.

        Raises:
            Unreachable: no URL answers.
            FairleadError: the error that the server answered.
        """
        query = {name: _text(value) for name, value in (params or {}).items() if value is not None}
        return _answer(await self._send("GET", path, params=query, headers=dict(headers or {})))

    async def post(
        self, path: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Envelope:
        """Change something. Raises as `get`; after an `Unreachable` that was no refused connection it may be done."""
        body = {name: value for name, value in (params or {}).items() if value is not None}
        return _answer(await self._send("POST", path, json=body, headers=dict(headers or {})))

    async def _send(self, method: str, path: str, **how: Any) -> httpx.Response:
        attempts = Attempts(self.urls, httpx.ConnectError, httpx.ConnectTimeout)
        for url in attempts.urls:
            try:
                with attempts.at(url):
                    return await self._http.request(method, url + path, **how)
            except httpx.TransportError as error:
                raise Unreachable(f"{url}: no answer ({str(error) or type(error).__name__})") from error
        raise Unreachable(f"no server answers at {attempts}; is it running?")


def new_http_client() -> httpx.AsyncClient:
    """An HTTP client with Fairlead's time limits, without proxies from the environment."""
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=50)
    timeout = httpx.Timeout(COMMAND_SECONDS, connect=CONNECT_SECONDS)
    return httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False)


def check_url(url: str) -> str:
    """A server's HTTP address without a slash at its end.

    Raises:
        InvalidValue: it is not http://HOST:PORT.
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidValue(f"address {url!r}: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise InvalidValue(f"address {url!r}: write it as http://HOST:PORT")
    if parsed.port is not None and not 0 < parsed.port <= PORT_MAX:
        raise InvalidValue(f"address {url!r}: the port is a number from 1 to {PORT_MAX}")
    return url.rstrip("/")


def _answer(response: httpx.Response) -> Envelope:
    body = _json(response)
    if response.is_error or body.get("status") == "ERROR":
        raise to_error(body)
    rows = body.get("data", [])
    return Envelope(tuple(rows), body)


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        where = f"{response.request.url.copy_with(query=None)}"
        raise InvalidValue(f"{where} is not a Fairlead server: HTTP {response.status_code}, {response.text[:80]!r}")
    return body


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)
