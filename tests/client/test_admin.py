"""The client of the admin interface: several addresses, and what it says when none answers."""

from __future__ import annotations

import httpx
import pytest

from fairlead.client.admin import AdminClient, check_url
from fairlead.model.envelope import envelope, error_envelope
from fairlead.model.errors import InvalidValue, UnknownStream, Unreachable

URLS = ("http://one:1", "http://two:2")


def client(answer: httpx.MockTransport) -> AdminClient:
    return AdminClient(URLS, httpx.AsyncClient(transport=answer))


async def test_a_refused_connection_tries_the_next_address() -> None:
    """Nothing was sent to the first, so nothing can be done twice."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "one":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=envelope([{"path": "/a"}], 0))

    found = await client(httpx.MockTransport(answer)).get("/rest/stream/info", {"path": "/a", "left": None})
    assert found.first == {"path": "/a"}


async def test_a_call_that_may_have_arrived_is_not_sent_again() -> None:
    """A lost answer is said, not repeated."""
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        raise httpx.ReadTimeout("slow")

    with pytest.raises(Unreachable, match="one"):
        await client(httpx.MockTransport(answer)).post("/rest/stream/create", {"path": "/a"})
    assert asked == ["one"]


async def test_when_no_address_answers_all_are_named() -> None:
    """So that the reader sees which to check."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(Unreachable, match=r"one.*two"):
        await client(httpx.MockTransport(answer)).get("/rest/stream/list")


async def test_the_servers_error_is_raised() -> None:
    """As the class it had there."""
    body = error_envelope(UnknownStream("stream /a does not exist"), 0)
    with pytest.raises(UnknownStream, match="/a"):
        await client(httpx.MockTransport(lambda _: httpx.Response(404, json=body))).get("/rest/stream/info")


async def test_something_that_is_no_fairlead_server_is_told() -> None:
    """An address that points at another program."""
    with pytest.raises(InvalidValue, match="not a Fairlead server"):
        await client(httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))).get("/rest/cluster/info")


@pytest.mark.parametrize("url", ["", "localhost:7660", "ftp://x", "http://"])
def test_a_wrong_url_is_refused(url: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidValue):
        check_url(url)
