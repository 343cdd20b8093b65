"""Calls of a server's admin interface by the command line.

In: the URLs of one cluster, tried in turn. Out: the envelope's data, or the error that it carries, as the class it had
there. A call that may have reached a server is never sent again: only a connection that was refused tries the next URL.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from fairlead.client.answers import answer_now
from fairlead.model.addresses import check_host
from fairlead.model.envelope import to_error
from fairlead.model.errors import FairleadError, InvalidValue, Unanswered, Unreachable
from fairlead.model.limits import PORT_MAX
from fairlead.wire.urls import Attempts
from fairlead.wire.waits import COMMAND_SECONDS, CONNECT_SECONDS

Method = Literal["GET", "POST"]
_ADDRESS = re.compile(r"(?i:https?)://[^/?#@\\\s]+/*")
"""Whatever follows would be sent before the path of a call, or hide it."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a call answered: the rows, and the whole envelope they came in."""

    data: tuple[dict[str, Any], ...]
    envelope: Mapping[str, Any]

    @property
    def first(self) -> dict[str, Any]:
        """The only row of an `info`; empty if there is none."""
        return self.data[0] if self.data else {}


def ask(urls: Sequence[str], method: Method, path: str, params: Mapping[str, Any] | None = None) -> Envelope:
    """One call that is waited for. For the command line: asyncio would take as long to import as the call takes.

    Raises:
        Unreachable: no URL answers, and nothing was done.
        Unanswered: the answer to a POST was lost, so it may be done or not.
        FairleadError: the error that the server answered.
    """
    attempts = _attempts(_checked(urls))
    with httpx.Client(**_how(tls=any(url.startswith("https:") for url in attempts.urls))) as http:
        for url in attempts.urls:
            try:
                with attempts.at(url):
                    return _answer(answer_now(http, method, url + path, **_content(method, params)))
            except httpx.TransportError as error:
                raise _no_answer(method, url, error) from error
    raise _nobody(attempts)


def new_http_client() -> httpx.AsyncClient:
    """An HTTP client with Fairlead's time limits, without proxies from the environment."""
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=50)
    return httpx.AsyncClient(limits=limits, **_how(tls=True))


def _how(*, tls: bool) -> dict[str, Any]:
    """What all clients have. Certificates take long to load; without `tls` there are none, and none is trusted."""
    timeout = httpx.Timeout(COMMAND_SECONDS, connect=CONNECT_SECONDS)
    return {"timeout": timeout, "trust_env": False, "verify": tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}


def _checked(urls: Sequence[str]) -> tuple[str, ...]:
    if not urls:
        raise InvalidValue("no HTTP address is known for the cluster")
    return tuple(check_url(url) for url in urls)


def _attempts(urls: Sequence[str]) -> Attempts:
    return Attempts(urls, httpx.ConnectError, httpx.ConnectTimeout)


def _no_answer(method: Method, url: str, error: httpx.TransportError) -> FairleadError:
    what = f"{url}: no answer ({str(error) or type(error).__name__})"
    return Unanswered(f"{what}; it may be done all the same") if method == "POST" else Unreachable(what)


def _nobody(attempts: Attempts) -> Unreachable:
    return Unreachable(f"no server answers at {attempts}; is it running?")


def _content(method: Method, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters of a call: a query, or a body of JSON."""
    given = {name: value for name, value in (params or {}).items() if value is not None}
    if method == "POST":
        return {"json": given}
    return {"params": {name: _text(value) for name, value in given.items()}}


def check_url(url: str) -> str:
    """A server's HTTP address without a slash at its end.

    Raises:
        InvalidValue: it is not http://HOST:PORT, or no host can be called so.
    """
    checked, parsed = check_form(url), httpx.URL(url)
    host = check_host(parsed.raw_host.decode("ascii"), f"address {url!r}")
    try:
        parsed.host.encode()  # a name in the ASCII form of others (xn--…) is decoded here
    except UnicodeError as error:
        raise InvalidValue(f"address {url!r}: {host!r} cannot be the name of a host ({error})") from error
    return checked


def check_form(url: str) -> str:
    """An HTTP address of whatever host, without a slash at its end.

    Raises:
        InvalidValue: it is not http://HOST:PORT.
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidValue(f"address {url!r}: {error}") from error
    if not _ADDRESS.fullmatch(url) or not parsed.raw_host:
        raise InvalidValue(f"address {url!r}: write it as http://HOST:PORT, and nothing more")
    if parsed.port is not None and not 0 < parsed.port <= PORT_MAX:
        raise InvalidValue(f"address {url!r}: the port is a number from 1 to {PORT_MAX}")
    return url.rstrip("/")


def _answer(response: httpx.Response) -> Envelope:
    body = _json(response)
    if response.is_error or body.get("status") == "ERROR":
        raise to_error(body)
    rows = body.get("data", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _not_fairlead(response)
    return Envelope(tuple(rows), body)


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise _not_fairlead(response)
    return body


def _not_fairlead(response: httpx.Response) -> InvalidValue:
    where = response.request.url.copy_with(query=None)
    return InvalidValue(f"{where} is not a Fairlead server: HTTP {response.status_code}, {response.text[:80]!r}")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)
