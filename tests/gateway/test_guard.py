"""The guard before the HTTP listener: pages of other sites, bent names, and calls that are too large, slow or many."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from fairlead.listening.guard import BODY_BYTES_MAX, Guard, names_of
from fairlead.model.clock import SystemClock
from fairlead.model.limits import CONTROL_MESSAGE_BYTES_MAX
from fairlead.process import control_secret
from tests.gateway.desk import Desk, desks
from tests.gateway.rig import SECRET, Site
from tests.support.waiting import WAIT_SECONDS, in_time

EVIL = "http://evil.example"
READS = ["/", "/docs", "/health", "/metrics", "/openapi.json", "/rest/stream/list", "/records/plan?path=/x"]
CHANGES = ["/rest/stream/create", "/gateway/link", "/gateway/copy", "/records/topics"]
UPGRADE = {"connection": "upgrade", "upgrade": "fairlead-apply"}


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("sanfrancisco") as (found,):
        yield found


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A listener with room for few, and as much patience as a busy machine needs."""
    async with Site("sf", tmp_path, guard=guard()) as found:
        yield found


def guard(body_seconds: float = WAIT_SECONDS) -> Guard:
    return Guard(SystemClock(), secret=SECRET, connections_max=8, head_seconds=WAIT_SECONDS, body_seconds=body_seconds)


async def answer_to(site: Site, request: bytes) -> bytes:
    """What comes back until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        writer.write(request)
        async with in_time():
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:7660", "127.0.0.1.evil.example", "", "[::1"])
async def test_a_name_that_is_not_the_server_s_is_refused(desk: Desk, path: str, host: str) -> None:
    """Whoever owns a name can bend it to this address: a page there would then be of the same site (DNS rebinding)."""
    assert (await desk.http.get(desk.url + path, headers={"host": host})).status_code == 421


@pytest.mark.parametrize("host", ["sanfrancisco", "SanFrancisco:7660", "127.0.0.1:7660", "[::1]:7660", "localhost."])
async def test_numbers_and_own_names_are_served(desk: Desk, host: str) -> None:
    assert (await desk.http.get(f"{desk.url}/health", headers={"host": host})).status_code == 200


def test_other_names_are_given_by_a_setting() -> None:
    """As where a proxy or a container calls the server by another name."""
    guard = Guard(SystemClock(), names_of("fleet.example, ship-7"))
    assert guard.refusal("GET", "/", [(b"host", b"ship-7:7660")]) is None
    assert guard.refusal("GET", "/", [(b"host", b"ship-8:7660")]) is not None


# ---------------------------------------------------------------- pages of other sites

FOREIGN = [
    {"origin": EVIL},
    {"origin": "null"},
    {"origin": "http://sanfrancisco.evil.example"},
    {"origin": "http://sanfrancisco:3000"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("path", READS)
async def test_a_page_of_another_site_reads_nothing(desk: Desk, path: str, headers: dict[str, str]) -> None:
    """Also where no answer reaches it, a look-up can be dear."""
    assert (await desk.http.get(desk.url + path, headers=headers)).status_code == 403


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("path", CHANGES)
async def test_a_page_of_another_site_changes_nothing(desk: Desk, path: str, headers: dict[str, str]) -> None:
    response = await desk.http.post(desk.url + path, json={"path": "/x"}, headers=headers)
    assert response.status_code == 403
    assert len(desk.cluster.streams()) == 1


@pytest.mark.parametrize(("host", "origin"), [("localhost", EVIL), ("evil.example", "http://evil.example")])
@pytest.mark.parametrize("path", ["reader", "sink", "replicator"])
async def test_a_page_of_another_site_opens_no_websocket(site: Site, path: str, host: str, origin: str) -> None:
    """Browsers ask nobody before they open one."""
    headers = {"origin": origin, control_secret.HEADER: SECRET}
    with pytest.raises(InvalidStatus, match="403"):
        await connect(
            f"ws://{host}/control/{path}",
            additional_headers=headers,
            open_timeout=WAIT_SECONDS,
            host="127.0.0.1",
            port=site.port,
        )


@pytest.mark.parametrize("header", [f"Host: localhost\r\nOrigin: {EVIL}", "Host: evil.example"])
async def test_the_way_out_of_http_is_guarded_too(site: Site, header: str) -> None:
    """The Upgrade of a link is answered before any middleware."""
    upgrade = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
    answer = await answer_to(site, f"GET /gateway/apply HTTP/1.1\r\n{header}\r\n{upgrade}\r\n".encode())
    assert status_of(answer) in {403, 421}


async def test_own_pages_and_programs_are_served(desk: Desk) -> None:
    """A browser says that a page is of the same site, or that a person typed the address; a program says nothing."""
    for headers in ({"origin": desk.url}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, {}):
        assert (await desk.http.get(f"{desk.url}/rest/stream/list", headers=headers)).status_code == 200


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/docs", 200), ("/rest/stream/list", 403)])
async def test_a_link_on_another_page_leads_to_the_pages_alone(desk: Desk, path: str, status: int) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert (await desk.http.get(desk.url + path, headers=headers)).status_code == status


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", "text/plain, application/json", None])
@pytest.mark.parametrize("path", CHANGES)
async def test_what_browsers_send_unasked_is_no_call(desk: Desk, path: str, kind: str | None) -> None:
    """An old browser sends such a body to any site, and says not from where."""
    headers = {} if kind is None else {"content-type": kind}
    response = await desk.http.post(desk.url + path, content=json.dumps({"path": "/x"}), headers=headers)
    assert response.status_code == 415
    assert len(desk.cluster.streams()) == 1


async def test_a_form_is_for_commands_alone(desk: Desk) -> None:
    """What links and readers send is JSON."""
    for path, status in (("/rest/stream/create", 200), ("/gateway/link", 415)):
        assert (await desk.http.post(desk.url + path, data={"path": "/x"})).status_code == status


async def test_answers_are_neither_framed_nor_given_scripts(desk: Desk) -> None:
    """The pages come whole: a name in them that escaped our care would still load nothing."""
    for path in ("/", "/docs"):
        response = await desk.http.get(desk.url + path)
        assert "<script" not in response.text
        assert "src=" not in response.text
        named = response.text.replace("http://sanfrancisco", "").replace("kafka://NAME", "")  # in text, not loaded
        assert "//" not in named
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


# ---------------------------------------------------------------- size, time, number


@pytest.mark.parametrize("size", [BODY_BYTES_MAX + 1, 800_000_000])
async def test_a_large_body_is_refused_unread(site: Site, size: int) -> None:
    """It was gathered in memory to its end: 800 MB took more than 6 GB."""
    head = f"POST /gateway/link HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}"
    assert status_of(await answer_to(site, f"{head}\r\n\r\n".encode())) == 413


async def test_a_body_without_a_length_is_counted_as_it_comes(site: Site) -> None:
    """In chunks."""
    head = b"POST /gateway/link HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunks = b"%x\r\n%s\r\n" % (BODY_BYTES_MAX + 1, b"x" * (BODY_BYTES_MAX + 1))
    answer = await answer_to(site, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert status_of(answer) == 413


async def test_a_slow_body_ends(tmp_path: Path) -> None:
    """A byte a second held a connection for ever."""
    head = b"POST /rest/stream/create HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    async with Site("sf", tmp_path, guard=guard(body_seconds=0.3)) as site:
        assert status_of(await answer_to(site, head + b"Content-Length: 10\r\n\r\n{")) == 408


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: lo"])
async def test_a_slow_head_ends(site: Site, sent: bytes) -> None:
    """So does a connection that says nothing."""
    site.guard.head_seconds = 0.3
    assert await answer_to(site, sent) == b""


async def test_a_slow_second_head_ends(site: Site) -> None:
    """Bytes that trickle in behind the first answer begin another head, and do not put its end off."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with in_time():
        await reader.readuntil(b"}")
    site.guard.head_seconds = 0.3
    closed = asyncio.ensure_future(reader.read())
    async with in_time():
        while not closed.done():
            writer.write(b"G")
            await asyncio.sleep(0.05)
    writer.close()


async def test_there_are_only_so_many_connections(site: Site) -> None:
    """A further one is closed at once, and one that ends makes room."""
    crowd = [await site.control("replicator") for _ in range(8)]
    assert await answer_to(site, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
    await crowd.pop().close()
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with in_time():
        while not await answer_to(site, request):
            pass
    for each in crowd:
        await each.close()


async def test_a_large_control_message_ends_its_connection(site: Site) -> None:
    """One of 40 MB was taken before anything was known of who sent it."""
    async with site.control("reader") as socket:
        await socket.send("x" * (CONTROL_MESSAGE_BYTES_MAX + 1))
        async with in_time():
            await socket.wait_closed()
        assert socket.close_code == 1009
