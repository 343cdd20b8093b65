"""The client of the admin interface: several addresses, and what it says when none answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import httpx
import pytest

from fairlead.client.admin import ask, check_url
from fairlead.model.envelope import envelope, error_envelope
from fairlead.model.errors import InvalidValue, Unanswered, UnknownStream, Unreachable

Answer = Callable[[httpx.Request], httpx.Response]
Answered = Callable[[Answer], None]
URLS = ("http://one:1", "http://two:2")


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Answered:
    """Calls are answered so."""

    def by(answer: Answer) -> None:
        monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=httpx.MockTransport(answer)))

    return by


def test_a_refused_connection_tries_the_next_address(answered: Answered) -> None:
    """Nothing was sent to the first, so nothing can be done twice."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "one":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=envelope([{"path": "/a"}], 0))

    answered(answer)
    found = ask(URLS, "GET", "/rest/stream/info", {"path": "/a", "left": None})
    assert found.first == {"path": "/a"}


def test_a_call_that_may_have_arrived_is_not_sent_again(answered: Answered) -> None:
    """A lost answer is said, not repeated; of a question it is only that, of a change nobody knows if it is made."""
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        raise httpx.ReadTimeout("slow")

    answered(answer)
    with pytest.raises(Unanswered, match=r"one.*may be done all the same"):
        ask(URLS, "POST", "/rest/stream/create", {"path": "/a"})
    with pytest.raises(Unreachable, match="one"):
        ask(URLS, "GET", "/rest/stream/info", {"path": "/a"})
    assert asked == ["one", "one"]


def test_when_no_address_answers_all_are_named(answered: Answered) -> None:
    """So that the reader sees which to check."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    answered(answer)
    with pytest.raises(Unreachable, match=r"one.*two"):
        ask(URLS, "GET", "/rest/stream/list")


def test_the_servers_error_is_raised(answered: Answered) -> None:
    """As the class it had there."""
    body = error_envelope(UnknownStream("stream /a does not exist"), 0)
    answered(lambda _: httpx.Response(404, json=body))
    with pytest.raises(UnknownStream, match="/a"):
        ask(URLS, "GET", "/rest/stream/info")


def test_something_that_is_no_fairlead_server_is_told(answered: Answered) -> None:
    """An address that points at another program."""
    answered(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(InvalidValue, match="not a Fairlead server"):
        ask(URLS, "GET", "/rest/cluster/info")


@pytest.mark.parametrize("url", ["", "localhost:7660", "ftp://x", "http://"])
def test_a_wrong_url_is_refused(url: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidValue):
        check_url(url)


@pytest.mark.parametrize("host", ["a..b", "..", "x" * 70, "xn--a", f"a.{'x' * 64}.b"])
def test_what_no_host_can_be_called_is_refused(host: str) -> None:
    """Looking it up fails in another way than for a name that nobody has."""
    with pytest.raises(InvalidValue, match="cannot be the name of a host"):
        check_url(f"http://{host}:7660")


@pytest.mark.parametrize("host", ["b\u00fccher.example", "xn--bcher-kva.example", "xn--fa-hia.de", "a_b", "[::1]"])
def test_names_that_a_host_may_have_are_taken(host: str) -> None:
    """Whether there is such a host is found out when it is called."""
    assert check_url(f"http://{host}:7660/") == f"http://{host}:7660"
