"""Clients that write at a copy, which passes it on to the owner: they see one cluster like any other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import PRODUCE, Submitted
from fairlead.broker.taking import ForwardTaker
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.apply.http_protocol import HttpProtocol
from fairlead.listening.guard import Guard
from fairlead.listening.http import configuration
from tests.interop.arrivals import Link
from tests.interop.clients.base import Client
from tests.interop.site import LostAnswers, Site
from tests.interop.test_behaviours import content, messages, sent, stored
from tests.support.waiting import until

_names = count(1)


class _Server(uvicorn.Server):
    capture_signals = nullcontext  # type: ignore[assignment]


class AnswersLostAtTheOwner(LostAnswers):
    """Of requests that were passed on; those of clients are answered."""

    def submit(self, ctx: RequestContext, body: memoryview) -> Submitted:
        assert self._api.submit is not None
        return super().submit(ctx, body) if ctx.connection.passed_on else self._api.submit(ctx, body)


@pytest.fixture(scope="module")
def copy(site: Site) -> Iterator[Link]:
    """A replica that passes writes on to the stream of all tests, over the gateway of the cluster itself."""
    link = Link(site, site.another("/forwarding", autocreate=False, forward_writes=True))
    broker = site.broker
    server, serving = broker.call(_listening(broker))
    broker.call(_linked(link))
    yield link
    broker.call(_stopped(server, serving))


async def _stopped(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    server.should_exit = server.force_exit = True
    await serving


async def _listening(broker: Any) -> tuple[uvicorn.Server, asyncio.Task[None]]:
    """The HTTP listener, as far as it takes writes."""
    app = FastAPI()
    app.state.guard, app.state.forwards = Guard(broker.cluster.clock), ForwardTaker(broker.server)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    broker.cluster.urls = (f"http://127.0.0.1:{listening.getsockname()[1]}",)
    server = _Server(configuration(app, HttpProtocol))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started or serving.done())
    return server, serving


async def _linked(link: Link) -> None:
    """The owner's link, which accepts writes, and the copy's, which says where the owner is."""
    links = link.source.broker.cluster.links
    for id, source, replica in ((b"a" * 16, link.source, link.replica), (b"b" * 16, link.replica, link.source)):
        path = link.source.broker.cluster.global_path(replica.path)
        record = LinkRecord(id, source.stream.id, source.path, path, (), True, 0)
        await links.add(replace(record, replica_stream=replica.stream.id, accept_writes=True))


@pytest.fixture
def forwarded(site: Site, copy: Link) -> str:
    """A topic of the owner, which the copy has."""
    name = site.make_topic(f"forwarded-{next(_names)}")
    copy.bring(name)
    return name


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_what_it_sends_at_a_copy_is_stored_at_the_owner(
    client: Client, site: Site, copy: Link, forwarded: str, idempotent: bool
) -> None:
    """Keys, values and order arrive as they were sent, at offsets without holes."""
    given = messages(200)
    client.produce(copy.replica, forwarded, given, idempotent=idempotent)
    assert content(stored(site, forwarded)) == sent(given)


def test_an_answer_that_the_owner_loses_doubles_nothing(client: Client, site: Site, copy: Link, forwarded: str) -> None:
    """The copy says that it does not know, the client sends the batch again, the owner finds it."""
    given = messages(100)
    with AnswersLostAtTheOwner(PRODUCE, 1) as losing:
        client.produce(copy.replica, forwarded, given, idempotent=True)
    assert losing.lost == 1
    assert content(stored(site, forwarded)) == sent(given)
