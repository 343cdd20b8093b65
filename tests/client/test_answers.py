"""Answers of other clusters, some of them hostile."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from tests.support.waiting import in_time

from fairlead.client.admin import check_url
from fairlead.client.answers import ANSWER_BYTES_MAX, answer_now, answer_of
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.timing import Timing
from fairlead.model.clock import SystemClock
from fairlead.model.errors import FairleadError, NotAgreed, Unreachable
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.neighbours import LinkRequest

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
REQUEST = LinkRequest(b"l" * 16, StreamPlace("sf", "/ships", b"s" * 16), "/ships")


@asynccontextmanager
async def answering(*parts: bytes, pause_seconds: float = 0) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that says this, and what it was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause_seconds)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, in_time():
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def asked_of(url: str, seconds: float = 60) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await answer_of(http, "GET", url, seconds)


async def test_an_answer_that_never_ends_is_left() -> None:
    """It was gathered as long as it came."""
    async with answering(HEAD + b"\r\n", *[b"x" * 1_000_000] * 20) as (url, _):
        with pytest.raises(httpx.RemoteProtocolError, match="larger than"):
            await asked_of(url)


async def test_nothing_is_decompressed() -> None:
    """Not asked for, and not done: 1.46 MB of gzip took 3 GB."""
    bomb = gzip.compress(b"x" * 10 * ANSWER_BYTES_MAX)
    head = HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    async with answering(head, bomb) as (url, asked):
        with pytest.raises(httpx.RemoteProtocolError, match="compressed"):
            await asked_of(url)
        assert b"accept-encoding: identity\r\n" in asked[0].lower()

        def now() -> httpx.Response:
            with httpx.Client(trust_env=False) as http:
                return answer_now(http, "GET", url)

        with pytest.raises(httpx.RemoteProtocolError, match="compressed"):
            await asyncio.to_thread(now)


async def test_an_answer_that_trickles_is_left() -> None:
    """Each piece comes within the time for a piece."""
    async with answering(HEAD + b"\r\n", *[b" "] * 10_000, pause_seconds=0.02) as (url, _):
        with pytest.raises(httpx.ReadTimeout, match="no whole answer"):
            await asked_of(url, 0.3)


async def test_an_answer_comes_whole() -> None:
    async with answering(HEAD + b"content-length: 8\r\n\r\n", b'{"a":', b" 1}") as (url, _):
        response = await asked_of(url)
        assert (response.status_code, response.json()) == (200, {"a": 1})


async def contact(body: bytes, status: int) -> FairleadError:
    """What a link says of this answer."""

    async def pieces() -> AsyncIterator[bytes]:
        yield body

    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=pieces()))
    async with httpx.AsyncClient(transport=transport) as http:
        with pytest.raises(FairleadError) as refused:
            await Gateways(http, SystemClock(), Timing()).ask(["http://inside:8080"], REQUEST)
    return refused.value


@pytest.mark.parametrize(
    "body",
    [b'{"password": "hunter2"}', b'{"errors": [{"desc": "hunter2"}]}', b"hunter2", b'["hunter2"]', b"[" * 100_000],
    ids=range(5),
)
@pytest.mark.parametrize("status", [400, 404, 500])
async def test_what_another_program_answers_is_not_told(body: bytes, status: int) -> None:
    """A link to an address inside told its caller what was found there."""
    error = await contact(body, status)
    assert isinstance(error, Unreachable)
    assert "hunter2" not in str(error)
    assert f"HTTP {status}" in str(error)


async def test_what_a_gateway_answers_is_told_up_to_a_length() -> None:
    """It is kept with the link, logged and shown."""
    text = b"no " * 100_000
    error = await contact(b'{"status": "ERROR", "errors": [{"code": "not_agreed", "desc": "%s"}]}' % text, 403)
    assert isinstance(error, NotAgreed)
    assert str(error).startswith("no no no")
    assert len(str(error)) == 10_000


REFUSED: list[str] = [
    "http://host:80/any#",
    "http://host:80/any?",
    "http://host:80/rest",
    "http://host:80#",
    "http://host:80?a=1",
    "http://user:secret@host:80",
    "http://host:80/..",
    "http://host:0",
    "http://host\\@inside:80",
    "file:///etc/passwd",
]


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_is_scheme_host_and_port_alone(url: str) -> None:
    """The rest of a call's URL was behind a `#`, so that any path of any host was called."""
    with pytest.raises(FairleadError, match="address"):
        check_url(url)
