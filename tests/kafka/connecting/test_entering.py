"""A broker whose name stands for several addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.client import settings_of
from tests.kafka.fake_broker import FakeBroker, fake_broker
from tests.support.waiting import in_time, until

from fairlead.kafka.configuration.settings import Sasl, Security
from fairlead.kafka.connecting.entering import Entering
from fairlead.kafka.connecting.versions import SASL_AUTHENTICATE
from fairlead.model.addresses import Address
from fairlead.model.errors import NotAllowed, Unreachable

NAME = Address("many", 1)
SOON = settings_of("many:1", connect_timeout_ms=3_000)
NOT_BELIEVED = {"error_code": ErrorCode.sasl_authentication_failed, "error_message": "who?", "auth_bytes": b""}


class Silent:
    """Something that takes connections and answers nobody, as what a dead broker has left behind does."""

    def __init__(self) -> None:
        self.port = 0
        self.tried = 0
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tried += 1
        self.open += 1
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.open -= 1


@asynccontextmanager
async def silent() -> AsyncIterator[Silent]:
    made = Silent()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
        await until(lambda: not made.open)


def stands_for(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """`NAME` is these, in this order."""

    async def found(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


async def enter(entering: Entering) -> None:
    async with in_time():
        connection, _ = await entering.connection(NAME)
    assert connection.open
    connection.close()


async def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """That one is the first to be tried from then on, until it is dead itself."""
    async with silent() as dead, fake_broker() as one, fake_broker() as other:
        stands_for(monkeypatch, dead.port, one.port, other.port)
        entering = Entering(SOON)
        await enter(entering)
        await enter(entering)
        assert (dead.tried, one.connections, other.connections) == (1, 2, 0)
        one.away = True
        await enter(entering)
        await enter(entering)
        assert (dead.tried, one.connections, other.connections) == (2, 2, 2)


async def test_addresses_that_all_are_dead_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with silent() as dead:
        stands_for(monkeypatch, free_port(), dead.port, dead.port)
        with pytest.raises(Unreachable, match=r"^broker many:1: .*; broker many:1: it does not answer$"):
            await enter(Entering(SOON))
        assert dead.tried == 1


async def test_a_name_that_cannot_be_looked_up_is_a_broker_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def unknown(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    with pytest.raises(Unreachable, match="broker many:1: Name or service not known"):
        await enter(Entering(SOON))


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_refusal_is_not_tried_at_the_next_address(monkeypatch: pytest.MonkeyPatch, is_known: bool) -> None:
    """Accounts are locked after some wrong passwords."""

    def refuse(broker: FakeBroker) -> None:
        broker.next(SASL_AUTHENTICATE, lambda _: NOT_BELIEVED)

    async with fake_broker() as one, fake_broker() as other:
        stands_for(monkeypatch, one.port, other.port)
        entering = Entering(replace(SOON, security=Security(sasl=Sasl("PLAIN", "ann", "secret"))))
        if is_known:
            await enter(entering)
        refuse(one)
        with pytest.raises(Unreachable if is_known else NotAllowed, match="who"):
            await enter(entering)
        assert other.connections == 0
