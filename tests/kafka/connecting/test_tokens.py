"""Tokens for OAUTHBEARER: who gives them, how long they are used, and what a broker is told."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.client import settings_of
from tests.kafka.fake_broker import fake_broker
from tests.streamlog.world import FakeClock
from tests.support.waiting import in_time

from fairlead.kafka import Cluster
from fairlead.kafka.configuration.settings import OAuthBearer, Security, TokenEndpoint
from fairlead.kafka.connecting.tokens import Tokens
from fairlead.kafka.connecting.versions import SASL_AUTHENTICATE
from fairlead.model.errors import InvalidValue, NotAllowed, TryAgain


class Teller:
    """Gives out tokens over HTTP."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, str], str]] = []
        """Headers and body of each request."""
        self.answers: list[tuple[int, str]] = []
        """The next ones; the last of them again and again."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[1:]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append((headers, body.decode()))
        status, text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + text.encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def telling() -> AsyncIterator[tuple[Teller, OAuthBearer]]:
    """Who gives tokens, and settings that ask there."""
    teller = Teller()
    server = await asyncio.start_server(teller.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    endpoint = TokenEndpoint(f"http://127.0.0.1:{port}/token", "us", "client-secret", scope="kafka")
    try:
        async with in_time():
            yield teller, OAuthBearer(endpoint)
    finally:
        server.close()
        await server.wait_closed()


def token(clock: FakeClock, life_ms: int) -> str:
    claims = json.dumps({"sub": "us", "exp": (clock.wall_ms() + life_ms) / 1000}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


async def test_a_token_is_asked_for_once_in_its_life() -> None:
    """By client credentials; until 80 % of its life are over."""
    clock = FakeClock()
    tokens = Tokens(clock)
    async with telling() as (teller, oauth):
        first = token(clock, 10_000)
        teller.answers = [(200, json.dumps({"access_token": first})), (200, json.dumps({"access_token": "opaque"}))]
        assert [await tokens.of(oauth) for _ in range(3)] == [first] * 3
        headers, body = teller.asked[0]
        assert body == "grant_type=client_credentials&scope=kafka"
        assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"us:client-secret"
        clock.pass_ms(8_001)
        assert await tokens.of(oauth) == "opaque"
        assert await tokens.of(oauth) == "opaque"
        assert len(teller.asked) == 3, "one that does not say when it ends is used once"


async def test_a_token_that_a_broker_refuses_is_not_used_again() -> None:
    clock = FakeClock()
    tokens = Tokens(clock)
    async with telling() as (teller, oauth):
        teller.answers = [(200, json.dumps({"access_token": token(clock, 10_000)}))]
        await tokens.of(oauth)
        tokens.drop()
        await tokens.of(oauth)
        assert len(teller.asked) == 2


@pytest.mark.parametrize(
    ("status", "text", "kind", "said"),
    [
        (
            401,
            '{"error": "invalid_client", "error_description": "no\\nsuch client"}',
            NotAllowed,
            "401 invalid_client no such",
        ),
        (400, "<html>client-secret</html>", NotAllowed, "gives client us no token: 400"),
        (503, "", TryAgain, "gives client us no token: 503"),
        (200, '{"access_token": "a b"}', InvalidValue, "what it gives is no token"),
        (200, "[]", TryAgain, "no token: 200"),
    ],
)
async def test_who_gives_no_token_is_one_line(status: int, text: str, kind: type[Exception], said: str) -> None:
    async with telling() as (teller, oauth):
        teller.answers = [(status, text)]
        with pytest.raises(kind, match=said) as raised:
            await Tokens().of(oauth)
        assert "\n" not in str(raised.value)
        assert "client-secret" not in str(raised.value)


async def test_who_gives_tokens_and_is_away_is_waited_for() -> None:
    async with telling() as (_, oauth):
        pass
    with pytest.raises(TryAgain, match="gives no token"):
        await Tokens().of(oauth)


async def test_a_token_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "my token").write_text("a.b.c\n")
    oauth = OAuthBearer(TokenEndpoint((tmp_path / "my token").as_uri()))
    assert await Tokens().of(oauth) == "a.b.c"
    with pytest.raises(InvalidValue, match="there: No such file"):
        await Tokens().of(OAuthBearer(TokenEndpoint((tmp_path / "there").as_uri())))


async def test_a_broker_is_told_a_token_and_says_why_it_takes_none() -> None:
    """RFC 7628: its reason is answered before it refuses."""
    oauth = OAuthBearer({"sub": "ann"}, extensions=(("tenant", "x"),))
    async with fake_broker() as broker:
        reason = {"error_code": ErrorCode.none, "auth_bytes": b'{"status":"invalid_token"}'}
        refused = {"error_code": ErrorCode.sasl_authentication_failed, "error_message": "who?", "auth_bytes": b""}
        broker.next(SASL_AUTHENTICATE, lambda _: reason, lambda _: refused)
        with pytest.raises(NotAllowed, match=r"by a token: SASL_AUTHENTICATION_FAILED \(invalid_token who\?\)"):
            async with in_time():
                await Cluster.open(replace(settings_of(broker.bootstrap), security=Security(sasl=oauth)))
        first, second = (said.auth_bytes for said in broker.of(SASL_AUTHENTICATE))
        assert first.startswith(b"n,,\1auth=Bearer ey")
        assert first.endswith(b".\1tenant=x\1\1")
        assert second == b"\1"
