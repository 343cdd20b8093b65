"""A connection reads no further than it can hold, without a socket."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Coroutine
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.waiting import until

from fairlead.broker.connection import Connection
from fairlead.broker.dispatch import Begun, Header, PendingAnswer
from fairlead.broker.memory import RequestMemory
from fairlead.broker.pacing import Turns, turns
from fairlead.broker.traffic import Traffic
from fairlead.model.errors import Busy
from fairlead.protocol.wire import Malformed


class SlowService:
    """Begins every request and answers when it is told to."""

    request_bytes_max = 1_000
    idle_seconds = 60.0

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.memory = RequestMemory(10**9)
        self.free = asyncio.Event()
        self._scratch = memoryview(bytearray(1 << 16))

    def scratch(self) -> memoryview:
        return self._scratch

    def admit(self, connection: Connection) -> float:
        return 0.0

    def forget(self, connection: Connection) -> None:
        pass

    def begin(self, connection: Connection, frame: memoryview) -> tuple[Header, Coroutine[Any, Any, None]]:
        return Header(1, 0, 0, ""), self._answer()

    async def _answer(self) -> None:
        await self.free.wait()


PRODUCE_REQUEST = (8).to_bytes(4, "big") + bytes(8)


def connected(service: SlowService, data: bytes) -> tuple[Connection, Mock]:
    """A connection on which this has arrived, and its transport."""
    transport = Mock()
    transport.get_extra_info.return_value = ("127.0.0.1", 1)
    transport.get_write_buffer_size.return_value = 0
    transport.is_closing.return_value = False
    connection = Connection(service)
    connection.connection_made(transport)
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))
    return connection, transport


@pytest.mark.parametrize(("size", "count"), [(8, 300), (400, 3)])
async def test_reading_stops_while_requests_wait_and_goes_on_after_them(size: int, count: int) -> None:
    """Many small ones, or a few that hold as many bytes as one request may have."""
    service = SlowService()
    connection, transport = connected(service, (size.to_bytes(4, "big") + bytes([0, 1]) + bytes(size - 2)) * count)
    transport.pause_reading.assert_called_once()
    transport.resume_reading.assert_not_called()
    service.free.set()
    await until(lambda: transport.resume_reading.called)
    connection.connection_lost(None)


class ProduceService(SlowService):
    """Answers Produce requests by their number; the one that is told to fails."""

    def __init__(self, failing: int = -1, malformed: int = -1) -> None:
        super().__init__()
        self._numbers = itertools.count()
        self._failing = failing
        self._malformed = malformed
        self.commits: list[asyncio.Future[None]] = []

    def begin(self, connection: Connection, frame: memoryview) -> tuple[Header, Begun]:  # type: ignore[override]
        number = next(self._numbers)
        if number == self._malformed:
            raise Malformed("the message is cut")
        committed = asyncio.get_running_loop().create_future()
        self.commits.append(committed)
        return Header(0, 0, 0, ""), PendingAnswer([committed], partial(self._finish, number))

    def _finish(self, number: int) -> list[bytes | bytearray | memoryview] | None:
        if number == self._failing:
            raise Busy("enough")
        return [b"%d" % number, b";"] if number % 3 else None


async def answered(service: ProduceService, count: int) -> list[bytes]:
    """What is written once all may be answered."""
    connection, transport = connected(service, PRODUCE_REQUEST * count)
    for committed in service.commits:
        committed.set_result(None)
    assert connection.answering
    await until(lambda: not connection.answering)
    connection.connection_lost(None)
    return [bytes(call.args[0]) for call in transport.write.call_args_list]


async def test_answers_that_come_together_share_a_packet() -> None:
    """In the order of the requests; those that want none, as with acks=0, leave no hole."""
    assert await answered(ProduceService(), 8) == [b"1;2;4;5;7;"]


async def test_answers_before_one_that_fails_are_sent() -> None:
    """Then the connection ends, as ever."""
    assert await answered(ProduceService(failing=5), 8) == [b"1;2;4;"]


async def test_what_waits_for_a_commit_is_given_up_with_its_connection() -> None:
    """A commit that fails afterwards is nobody's news: asyncio would write it into the log."""
    service = ProduceService()
    connection, _transport = connected(service, PRODUCE_REQUEST * 3)
    service.commits[1].set_exception(Busy("enough"))
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    assert connection.answering
    connection.connection_lost(None)
    await until(lambda: not connection.answering)
    assert [commit.cancelled() for commit in service.commits] == [True, False, True]
    service.commits.clear()
    gc.collect()
    assert complaints == []


async def test_a_client_that_left_while_it_was_not_reading_is_waited_for_no_more() -> None:
    """Its answer waited for room in the socket, the commits behind for the disk."""
    service = ProduceService()
    connection, transport = connected(service, PRODUCE_REQUEST * 3)
    connection.pause_writing()
    service.commits[0].set_result(None)
    service.commits[1].set_result(None)
    while not transport.write.called:  # noqa: ASYNC110 - a mock has no event
        await asyncio.sleep(0)
    assert connection.answering
    connection.connection_lost(None)
    await until(lambda: not connection.answering)
    assert service.commits[2].cancelled()


async def test_a_request_that_cannot_be_read_is_refused_in_its_turn() -> None:
    """The answers of those before it are sent, and none behind it begins."""
    service = ProduceService(malformed=2)
    connection, transport = connected(service, PRODUCE_REQUEST * 4)
    assert len(service.commits) == 2
    transport.abort.assert_not_called()
    for committed in service.commits:
        committed.set_result(None)
    assert connection.answering
    await until(lambda: not connection.answering)
    assert [bytes(call.args[0]) for call in transport.write.call_args_list] == [b"1;"]
    transport.abort.assert_called_once()
    connection.connection_lost(None)


@pytest.mark.parametrize(("key", "limit_bytes"), [(0, 1024 * 1024), (15, 256 * 1024)])
async def test_a_large_request_is_read_in_its_turn_unless_it_is_a_produce(key: int, limit_bytes: int) -> None:
    """A flood of them, each refused when it is whole, took the event loop from those who produce."""
    size = 2_000_000
    service = SlowService()
    service.request_bytes_max = size
    connection, transport = connected(service, size.to_bytes(4) + key.to_bytes(2) + bytes(1_000))
    connection.buffer_updated(len(connection.get_buffer(-1)))
    transport.pause_reading.assert_called_once()
    await until(lambda: transport.resume_reading.called)
    left = size - 1_002 - 1024 * 1024
    assert len(connection.get_buffer(-1)) == min(left, limit_bytes)
    connection.connection_lost(None)


async def test_long_work_comes_less_often_while_an_answer_is_waited_for_and_comes_all_the_same() -> None:
    """A produce needs the loop several times for a moment, and each slice of others' work may be in its way."""
    loop = Mock(wraps=asyncio.get_running_loop())
    long_work = Turns(loop)
    waiting, done = 1, list[int]()

    def slice_(number: int) -> None:
        done.append(number)

    async def rests(count: int) -> int:
        loop.reset_mock()
        long_work.waits = waiting
        for number in range(count):
            long_work.next(partial(slice_, number))
        await until(lambda: len(done) == count)
        assert done == list(range(count))
        done.clear()
        return int(loop.call_later.call_count)

    assert await rests(1) == 1
    assert await rests(3) == 4 + 4 + 1
    waiting = 0
    assert await rests(1) == 0
    assert await rests(3) == 1


async def test_requests_that_wait_for_a_commit_are_counted_until_they_are_answered_or_given_up() -> None:
    """Else long work would be put off for ever."""
    before = turns().waits
    service = ProduceService()
    connection, _ = connected(service, PRODUCE_REQUEST * 3)
    assert turns().waits == before + 3
    service.commits[0].set_result(None)
    await until(lambda: turns().waits == before + 2)
    connection.connection_lost(None)
    await until(lambda: turns().waits == before)
