"""Calls of a destination's gateways: several addresses in turn, dead ones skipped, waits that grow."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from fairlead.client.admin import new_http_client
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.timing import Backoff, Timing
from fairlead.model.envelope import error_envelope
from fairlead.model.errors import Moved, NotAgreed, Unreachable
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.messages import to_json
from fairlead.wire.neighbours import LinkAnswer, LinkRequest

REQUEST = LinkRequest(b"l" * 16, StreamPlace("a", "/s", b"s" * 16), "/r")
ANSWER = LinkAnswer("b", "/r", b"r" * 16, (), (), 0, 0, (), 0)
URLS = ("http://one", "http://two")


class Still:
    """A clock that a test moves, and randomness that is always the same."""

    def __init__(self) -> None:
        self.now_ms = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def id16(self) -> bytes:
        return b"\xff" * 16


class Network:
    """Answers of hosts by name; a host that is not there refuses."""

    def __init__(self, **hosts: httpx.Response) -> None:
        self.hosts = hosts
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host)
        if request.url.host not in self.hosts:
            raise httpx.ConnectError("refused")
        return self.hosts[request.url.host]


def ok() -> httpx.Response:
    """A gateway that agrees."""
    return httpx.Response(200, text=to_json(ANSWER))


def gateways(network: Network, still: Still) -> Gateways:
    """Gateways over a network of one's own."""
    http = httpx.AsyncClient(transport=httpx.MockTransport(network))
    return Gateways(http, still, Timing())


async def test_addresses_are_asked_in_turn() -> None:
    """New contacts spread over the gateways."""
    network = Network(one=ok(), two=ok())
    there = gateways(network, Still())
    for _ in range(4):
        assert await there.ask(URLS, REQUEST) == ANSWER
    assert network.asked == ["one", "two", "one", "two"]


async def test_a_dead_address_is_skipped_for_a_while() -> None:
    """It is asked again after ten seconds, and before that only if no other answers."""
    network, still = Network(two=ok()), Still()
    there = gateways(network, still)
    await there.ask(URLS, REQUEST)
    await there.ask(URLS, REQUEST)
    await there.ask(URLS, REQUEST)
    assert network.asked == ["one", "two", "two", "two"]
    still.now_ms = 20_000
    network.hosts["one"] = ok()
    for _ in range(2):
        await there.ask(URLS, REQUEST)
    assert "one" in network.asked[-2:]


async def test_no_address_answering_names_all_of_them() -> None:
    """The error lists what was tried."""
    with pytest.raises(Unreachable, match=r"http://one .*http://two"):
        await gateways(Network(), Still()).ask(URLS, REQUEST)


@pytest.mark.parametrize("url", ["http://[:::::]:1", "http://xn--a:1", "http://[1.2]:1"])
async def test_an_address_that_cannot_be_keeps_nobody_from_the_others(url: str) -> None:
    """A neighbour names its gateways as it likes."""
    async with new_http_client() as http:
        there = Gateways(http, Still(), Timing())
        with pytest.raises(Unreachable, match=re.escape(url)):
            await there.ask([url], REQUEST)
    network = Network(two=ok())
    for _ in range(2):
        assert await gateways(network, Still()).ask([url, "http://two"], REQUEST) == ANSWER


async def test_a_refusal_keeps_its_kind() -> None:
    """What the gateway said is raised as the same error here."""
    envelope = error_envelope(NotAgreed("run: fairlead stream upstream add …"), 0)
    network = Network(one=httpx.Response(403, text=json.dumps(envelope)))
    with pytest.raises(NotAgreed, match="run: fairlead stream upstream add"):
        await gateways(network, Still()).ask(URLS[:1], REQUEST)


def moved(*urls: str) -> httpx.Response:
    """A gateway that another one has taken over from."""
    return httpx.Response(421, text=json.dumps(error_envelope(Moved("another server takes this now", urls), 0)))


async def test_a_gateway_that_has_moved_says_where_to() -> None:
    """The call goes on there; from each to the next, but not for ever."""
    network = Network(one=moved("http://two"), two=moved("http://three", "http://four"), four=ok())
    there = gateways(network, Still())
    assert await there.ask(URLS[:1], REQUEST) == ANSWER
    assert network.asked[:2] == ["one", "two"]
    network.hosts["two"] = moved("http://one")
    with pytest.raises(Moved):
        await there.ask(URLS[:1], REQUEST)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://u:p@two", "http://two/rest/topic/delete", "two:80", ""])
async def test_only_addresses_are_followed(url: str) -> None:
    """Another cluster chooses no path, and no name and password, that a server here then calls with."""
    network = Network(one=moved(url), two=ok())
    with pytest.raises(Moved, match="another server takes this now"):
        await gateways(network, Still()).ask(URLS[:1], REQUEST)
    assert network.asked == ["one"]


async def test_an_answer_that_is_not_ours_is_unreachable() -> None:
    """A proxy's error page is no gateway."""
    with pytest.raises(Unreachable, match="HTTP 502"):
        await gateways(Network(one=httpx.Response(502, text="<html>")), Still()).ask(URLS[:1], REQUEST)


def test_waits_double_up_to_ten_seconds_and_begin_again() -> None:
    """0.2, 0.4 … 10 s with jitter below; a reset begins with the shortest."""
    backoff = Backoff(Timing(), Still())
    waits = [backoff.next_s() for _ in range(8)]
    assert waits[:3] == pytest.approx([0.2, 0.4, 0.8], rel=1e-6)
    assert waits[-1] == pytest.approx(10, rel=1e-6)
    backoff.reset()
    assert backoff.next_s() == pytest.approx(0.2, rel=1e-6)
