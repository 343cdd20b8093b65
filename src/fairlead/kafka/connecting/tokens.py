"""Tokens for OAUTHBEARER: given out by an endpoint (OAuth 2.0 client credentials), kept in a file, or signed by nobody.

A token is used until 80 % of its life is over, as in Java (`sasl.login.refresh.window.factor`), then another is asked
for. None stands in a message.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlparse
from urllib.request import url2pathname

import httpx

from fairlead.kafka.configuration.settings import OAuthBearer, TokenEndpoint
from fairlead.kafka.connecting.tls import context_of
from fairlead.model.clock import Clock, SystemClock
from fairlead.model.errors import InvalidValue, NotAllowed, Unreachable

_USED_FOR: Final = 0.8
"""Of a token's life."""
_REFUSALS: Final = range(400, 500)
_PASSING: Final = (408, 429)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750."""


class Tokens:
    """The token of now."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._token = ""
        self._for: OAuthBearer | None = None
        self._until_ms = 0
        self._asking = asyncio.Lock()

    async def of(self, oauth: OAuthBearer) -> str:
        """A token that is valid for some time yet.

        Raises:
            NotAllowed: we are given none; InvalidValue: what we are given is none.
            Unreachable: the endpoint does not answer.
        """
        async with self._asking:
            now = self._clock.wall_ms()
            if self._for != oauth or now >= self._until_ms:
                self._token = await self._asked(oauth, now)
                self._for = oauth
                self._until_ms = now + int(_USED_FOR * (_expires_ms(self._token, now) - now))
            return self._token

    def drop(self) -> None:
        """A broker has refused it."""
        self._for = None

    async def _asked(self, oauth: OAuthBearer, now_ms: int) -> str:
        source = oauth.source
        if not isinstance(source, TokenEndpoint):
            return _unsecured({**source, "iat": now_ms / 1000, "exp": now_ms / 1000 + oauth.lifetime_seconds})
        token = _in_file(source.url) if source.url.startswith("file:") else await _given_by(source)
        if not _TOKEN.fullmatch(token):
            raise InvalidValue(f"{source.url}: what it gives is no token")
        return token


def _unsecured(claims: dict[str, object]) -> str:
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(fields: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def _in_file(url: str) -> str:
    path = url2pathname(urlparse(url).path)
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{path}: {getattr(error, 'strerror', None) or 'it holds no token'}") from None


async def _given_by(endpoint: TokenEndpoint) -> str:
    client_id, secret = endpoint.client_id, endpoint.client_secret
    if endpoint.url_encoded:
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    asked = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    context = await asyncio.to_thread(context_of, endpoint.tls)
    try:
        async with httpx.AsyncClient(verify=context, timeout=endpoint.timeout_ms / 1000) as client:
            answer = await client.post(endpoint.url, data=asked, auth=(client_id, secret))
    except httpx.HTTPError as error:
        raise Unreachable(f"{endpoint.url} gives no token: {error or type(error).__name__}") from None
    return _token_in(answer, endpoint)


def _token_in(answer: httpx.Response, endpoint: TokenEndpoint) -> str:
    try:
        fields = answer.json()
    except ValueError:
        fields = None
    fields = fields if isinstance(fields, dict) else {}
    token = fields.get("access_token")
    if answer.is_success and isinstance(token, str):
        return token.strip()
    why = " ".join(str(fields[key]) for key in ("error", "error_description") if key in fields)
    said = (
        f"{endpoint.url} gives client {endpoint.client_id} no token: {answer.status_code} {' '.join(why.split())[:200]}"
    )
    if answer.status_code in _REFUSALS and answer.status_code not in _PASSING:
        raise NotAllowed(said.strip())
    raise Unreachable(said.strip())


def _expires_ms(token: str, now_ms: int) -> int:
    """When the token's life ends, as it says itself; a token that does not say is used once."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return int(float(claims["exp"]) * 1000)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, binascii.Error):
        return now_ms
