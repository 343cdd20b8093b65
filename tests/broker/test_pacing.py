"""A connection reads no further than it can hold, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from unittest.mock import Mock

import pytest

from fairlead.broker.connection import Connection
from fairlead.broker.dispatch import Header
from fairlead.broker.traffic import Traffic


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
