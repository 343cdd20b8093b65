"""A client that leaves: what it sent without wanting an answer takes effect all the same, without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.broker.test_connections import METADATA, PRODUCE, V_PRODUCE, one_record, produce_body
from tests.broker.test_pacing import SlowService, connected
from tests.support.waiting import until

from fairlead.broker.connection import PRODUCE_IN_FLIGHT_MAX, Connection
from fairlead.broker.dispatch import Header, PendingAnswer
from fairlead.broker.memory import FREE_BYTES
from fairlead.model.errors import Closed
from fairlead.protocol.produce import wants_no_answer
from fairlead.protocol.wire import string

VALUE = bytes(400)


def produce_frame(number: int, *, acks: int = 0, version: int = V_PRODUCE, client: str | None = "c") -> bytes:
    body = produce_body("line", one_record(VALUE), acks=acks, version=version)
    tags = b"\x00" if version >= 9 else b""
    start = PRODUCE.to_bytes(2, "big") + version.to_bytes(2, "big") + number.to_bytes(4, "big")
    return start + string(client, False) + tags + bytes(body)


def metadata_frame(number: int) -> bytes:
    return METADATA.to_bytes(2, "big") + bytes(2) + number.to_bytes(4, "big") + bytes(6)


def sent(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


class Service(SlowService):
    """Notes which requests it begins; produces are answered when their commit is, `long` ones are coroutines, and one
    is refused."""

    def __init__(self, *, long: bool = False, refused: int = -1) -> None:
        super().__init__()
        self.request_bytes_max = 10_000_000
        self.begun: list[int] = []
        self.committed: list[int] = []
        self.forgotten = 0
        self.ended_early = 0
        self._long = long
        self._refused = refused
        self._commits: list[tuple[int, asyncio.Future[None]]] = []
        self._scratch = memoryview(bytearray(1 << 19))

    def forget(self, connection: Connection) -> None:
        self.forgotten += 1

    def begin(self, connection: Connection, frame: memoryview) -> tuple[Header, Any]:
        number = int.from_bytes(frame[4:8], "big")
        self.begun.append(number)
        if frame[1] == METADATA or self._long:
            return Header(frame[1], 0, number, ""), self._in_turns(number)
        commit = asyncio.get_running_loop().create_future()
        self._commits.append((number, commit))
        return Header(PRODUCE, 0, number, ""), PendingAnswer([commit], lambda: self._finish(number))

    def commit(self) -> None:
        """Whatever was begun."""
        for number, commit in self._commits:
            if not commit.done():
                commit.set_result(None)
                self.committed.append(number)
        self._commits.clear()

    def _finish(self, number: int) -> None:
        if number == self._refused:
            raise Closed("a produce with acks=0 was refused: enough")

    async def _in_turns(self, number: int) -> None:
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.ended_early += 1
            raise
        self.committed.append(number)


async def committed_all(service: Service, connection: Connection) -> list[int]:
    """What is committed until the connection has ended."""

    def ended() -> bool:
        service.commit()
        return connection.ended.is_set()

    await until(ended)
    return service.committed


async def test_what_wants_no_answer_is_handed_over_though_its_client_has_left() -> None:
    """More requests than are under way at a time, in their order; the connection and its memory count until then."""
    service = Service()
    frames = [produce_frame(number) for number in range(500)]
    connection, _ = connected(service, sent(*frames))
    assert len(service.begun) == PRODUCE_IN_FLIGHT_MAX
    held_bytes = sum(map(len, frames)) - FREE_BYTES
    connection.connection_lost(None)
    assert (service.memory.used_bytes, service.forgotten) == (held_bytes, 0)
    assert await committed_all(service, connection) == list(range(500))
    assert (service.memory.used_bytes, service.forgotten) == (0, 1)


async def test_it_is_also_where_it_waits_behind_what_nobody_needs_any_more() -> None:
    """A Metadata request is ended, and what wants an answer does not begin."""
    service = Service()
    frames = [metadata_frame(0), produce_frame(1), produce_frame(2, acks=1), metadata_frame(3), produce_frame(4)]
    connection, _ = connected(service, sent(*frames))
    await until(lambda: connection.answering)
    await asyncio.sleep(0)
    connection.connection_lost(ConnectionResetError())
    assert await committed_all(service, connection) == [1, 4]
    assert service.begun == [0, 1, 4]
    assert (service.ended_early, service.forgotten) == (1, 1)


async def test_long_batches_are_looked_through_to_their_end() -> None:
    """Such a request is a coroutine, which has submitted nothing yet."""
    service = Service(long=True)
    connection, _ = connected(service, sent(produce_frame(0), produce_frame(1)))
    await asyncio.sleep(0)
    connection.connection_lost(None)
    service.free.set()
    assert await committed_all(service, connection) == [0, 1]


async def test_it_goes_on_past_an_answer_that_waits_for_the_client_to_read() -> None:
    """One that stands between them."""
    service = Service()
    connection, _ = connected(service, sent(produce_frame(0, acks=1), *[produce_frame(n) for n in range(1, 300)]))
    connection.pause_writing()
    connection.connection_lost(None)
    assert await committed_all(service, connection) == list(range(300))


@pytest.mark.parametrize("late", [False, True])
async def test_what_we_end_ourselves_goes_no_further(late: bool) -> None:
    """A server that stops, also while it goes on for a client that has left."""
    service = Service()
    connection, _ = connected(service, sent(*[produce_frame(number) for number in range(300)]))
    if late:
        connection.connection_lost(None)
        connection.close()
    else:
        connection.close()
        connection.connection_lost(None)
    await until(connection.ended.is_set)
    assert len(service.begun) == PRODUCE_IN_FLIGHT_MAX
    assert (service.memory.used_bytes, service.forgotten) == (0, 1)


async def test_a_refused_one_ends_what_is_behind_it() -> None:
    """As it closes the connection of a client that is there; with one line."""
    service = Service(refused=3)
    connection, _ = connected(service, sent(*[produce_frame(number) for number in range(300)]))
    connection.connection_lost(None)
    with capture_logs() as logs:
        await committed_all(service, connection)
    assert len(service.begun) == PRODUCE_IN_FLIGHT_MAX
    assert [line["why"] for line in logs] == ["a produce with acks=0 was refused: enough"]


@pytest.mark.parametrize("version", range(3, 14))
def test_whether_a_request_wants_no_answer_is_read_from_its_beginning(version: int) -> None:
    """Whatever the form; what cannot be read is no such request."""
    for client in ("c", "", None):
        frame = produce_frame(0, version=version, client=client)
        assert wants_no_answer(memoryview(frame))
        assert not wants_no_answer(memoryview(frame[:11]))
        assert not wants_no_answer(memoryview(produce_frame(0, acks=-1, version=version, client=client)))
    assert not wants_no_answer(memoryview(metadata_frame(0)))
    assert not wants_no_answer(memoryview(bytes(8)))
