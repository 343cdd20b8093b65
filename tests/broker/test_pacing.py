"""A connection reads no further than it can hold, without a socket."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from unittest.mock import Mock

import pytest

from fairlead.broker.connection import Connection
from fairlead.broker.dispatch import Header
from fairlead.broker.traffic import Traffic
from fairlead.model.errors import Busy


class SlowService:
    """Begins every request and answers when it is told to."""

    request_bytes_max = 1_000
    idle_seconds = 60.0

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.free = asyncio.Event()
        self._scratch = memoryview(bytearray(1 << 16))

    def scratch(self) -> memoryview:
        return self._scratch

    def admit(self, connection: Connection) -> bool:
        return True

    def forget(self, connection: Connection) -> None:
        pass

    def begin(self, connection: Connection, frame: memoryview) -> tuple[Header, Awaitable[None]]:
        return Header(1, 0, 0, ""), self._answer()

    async def _answer(self) -> None:
        await self.free.wait()


@pytest.mark.parametrize(("size", "count"), [(8, 300), (400, 3)])
async def test_reading_stops_while_requests_wait_and_goes_on_after_them(size: int, count: int) -> None:
    """Many small ones, or a few that hold as many bytes as one request may have."""
    service, transport = SlowService(), Mock()
    transport.get_extra_info.return_value = ("127.0.0.1", 1)
    connection = Connection(service)  # type: ignore[arg-type]
    connection.connection_made(transport)
    data = (size.to_bytes(4, "big") + bytes([0, 1]) + bytes(size - 2)) * count
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))
    transport.pause_reading.assert_called_once()
    transport.resume_reading.assert_not_called()
    service.free.set()
    async with asyncio.timeout(10):
        while not transport.resume_reading.called:  # noqa: ASYNC110 - a mock has no event
            await asyncio.sleep(0.01)
    connection.connection_lost(None)


class ProduceService(SlowService):
    """Answers Produce requests by their number; the one that is told to fails."""

    def __init__(self, failing: int = -1) -> None:
        super().__init__()
        self._numbers = itertools.count()
        self._failing = failing

    def begin(self, connection: Connection, frame: memoryview) -> tuple[Header, Awaitable[list[bytes] | None]]:  # type: ignore[override]
        return Header(0, 0, 0, ""), self._numbered(next(self._numbers))

    async def _numbered(self, number: int) -> list[bytes] | None:
        await self.free.wait()
        if number == self._failing:
            raise Busy("enough")
        return [b"%d" % number, b";"] if number % 3 else None


async def answered(service: ProduceService, count: int) -> list[bytes]:
    """What is written once all may be answered."""
    transport = Mock()
    transport.get_extra_info.return_value = ("127.0.0.1", 1)
    transport.get_write_buffer_size.return_value = 0
    connection = Connection(service)  # type: ignore[arg-type]
    connection.connection_made(transport)
    data = ((8).to_bytes(4, "big") + bytes(8)) * count
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))
    service.free.set()
    answering = connection._answering
    assert answering is not None
    await answering
    connection.connection_lost(None)
    return [bytes(call.args[0]) for call in transport.write.call_args_list]


async def test_answers_that_come_together_share_a_packet() -> None:
    """In the order of the requests; those that want none, as with acks=0, leave no hole."""
    assert await answered(ProduceService(), 8) == [b"1;2;4;5;7;"]


async def test_answers_before_one_that_fails_are_sent() -> None:
    """Then the connection ends, as ever."""
    assert await answered(ProduceService(failing=5), 8) == [b"1;2;4;"]
