"""One connection: what a broker sends is held against what was asked and against the bytes that are there."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.client import opened
from tests.kafka.fake_broker import SILENCE, fake_broker
from tests.support.waiting import in_time

from fairlead.kafka.connecting.connection import ANSWER_BYTES_MAX, Connection
from fairlead.kafka.connecting.versions import API_VERSIONS, METADATA, PRODUCE, SPOKEN
from fairlead.kafka.fetching.positions import reach_of
from fairlead.model.addresses import Address
from fairlead.model.errors import BadRequest, TryAgain, Unanswered
from fairlead.protocol.batch import build_batch
from fairlead.protocol.wire import Malformed


class Wire(asyncio.Transport):
    """Takes what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.aborted = False

    def writelines(self, list_of_data: Any) -> None:
        self.sent.append(b"".join(list_of_data))

    def abort(self) -> None:
        self.aborted = True


def connection(answer_seconds: float = 30) -> tuple[Connection, Wire]:
    made = Connection(Address("broker", 9092), "me", answer_seconds, memoryview(bytearray(1000)))
    wire = Wire()
    made.connection_made(wire)
    return made, wire


def give(made: Connection, data: bytes) -> None:
    """Bytes come from the broker."""
    while data:
        space = made.get_buffer(-1)
        piece = data[: len(space)]
        space[: len(piece)] = piece
        made.buffer_updated(len(piece))
        data = data[len(piece) :]


def answer(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


async def test_answers_come_in_the_order_of_the_requests() -> None:
    """However they are cut, and large ones in memory of their own."""
    made, wire = connection()
    asked = [made.send(METADATA, 4, [b"a", b"bc"]) for _ in range(3)]
    assert wire.sent[0] == struct.pack(">ihhih", 8 + 2 + 5, METADATA, 4, 1, 2) + b"meabc"
    data = answer(1, b"one") + answer(2, b"x" * 5000) + answer(3, b"three")
    for at in range(0, len(data), 777):
        give(made, data[at : at + 777])
    assert [bytes(await each) for each in asked] == [b"one", b"x" * 5000, b"three"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (answer(2, b""), r"an answer \(2\) to nothing that was asked"),
        (struct.pack(">i", ANSWER_BYTES_MAX + 1), "is larger than the limit"),
        (struct.pack(">i", -1), "cannot have -1 bytes"),
        (b"HTTP/1.1 400", "larger than the limit"),
    ],
)
async def test_what_is_no_answer_ends_the_connection(data: bytes, message: str) -> None:
    """And all that is under way with it."""
    made, wire = connection()
    asked = made.send(METADATA, 4, [])
    give(made, data)
    with pytest.raises(Malformed, match=f"broker broker:9092: .*{message}"):
        await asked
    assert made.ended.is_set()
    assert wire.aborted
    with pytest.raises(Unanswered, match="has ended"):
        await made.send(METADATA, 4, [])


async def test_a_broker_that_does_not_answer_in_time_is_left() -> None:
    made, _ = connection(answer_seconds=0.01)
    async with in_time():
        with pytest.raises(Unanswered, match=r"has not answered for 0\.01 s \(request\.timeout\.ms\)"):
            await made.send(METADATA, 4, [])


async def test_a_connection_that_breaks_fails_what_is_under_way() -> None:
    made, _ = connection()
    asked = [made.send(METADATA, 4, []) for _ in range(2)]
    made.connection_lost(ConnectionResetError("reset by peer"))
    for each in asked:
        with pytest.raises(Unanswered, match="the connection broke: reset by peer"):
            await each


async def test_a_question_without_an_answer_is_asked_again_elsewhere() -> None:
    async with fake_broker() as broker, opened(broker.bootstrap, request_timeout_ms=2_000) as cluster:
        broker.next(METADATA, lambda _: SILENCE)
        with pytest.raises(TryAgain, match=r"request\.timeout\.ms"):
            await cluster.topics([])
        assert await cluster.topics([]) == {}


async def test_a_broker_that_is_older_than_our_question_for_versions_is_asked_in_its_own() -> None:
    """KIP-511: it answers in version 0, whatever it was asked in."""
    async with fake_broker(versions={API_VERSIONS: range(1)}) as broker:
        broker.next(API_VERSIONS, lambda _: struct.pack(">hi", ErrorCode.unsupported_version, 0))
        async with opened(broker.bootstrap) as cluster:
            assert cluster.cluster_id == "fake"
        assert [seen.version for seen in broker.seen if seen.api == API_VERSIONS] == [3, 0]


async def test_a_broker_that_is_too_old_is_an_error_that_says_from_when_on() -> None:
    async with fake_broker(versions={METADATA: range(2)}) as broker:
        with pytest.raises(BadRequest, match=r"takes no version of metadata from 4 to 12; .* from 0\.11 on"):
            async with opened(broker.bootstrap):
                pass


async def test_the_highest_version_that_both_speak_is_used() -> None:
    async with fake_broker(versions={METADATA: range(100)}) as broker, opened(broker.bootstrap):
        assert {seen.version for seen in broker.seen if seen.api == METADATA} == {SPOKEN[METADATA][-1]}
    assert SPOKEN[PRODUCE][-1] == 13


def test_whole_batches_reach_as_far_as_their_last_offset() -> None:
    """Compaction leaves a batch's last offset as it was; the last batch may be cut."""
    first = build_batch([(None, b"a"), (None, b"b")], base_offset=5, leader_epoch=2)
    second = build_batch([(None, b"c" * 100)], base_offset=9, leader_epoch=3)
    both = memoryview(first + second)
    assert reach_of(both, 5) == (10, 3, 0)
    assert reach_of(both[:-1], 5) == (7, 2, len(second))
    assert reach_of(both[: len(first) + 20], 5) == (7, 2, 0)
    assert reach_of(both[:0], 5) == (5, -1, 0)


def test_messages_of_the_old_formats_reach_as_far_as_their_own_offset() -> None:
    """Version 1: CRC, magic, attributes, time, key, value."""
    body = struct.pack(">IbbqiiI", 0, 1, 0, 0, -1, 4, 7)
    message = struct.pack(">qi", 41, len(body)) + body
    assert reach_of(memoryview(message), 40) == (42, -1, 0)


def test_lengths_in_records_are_not_believed() -> None:
    """A negative one would go back for ever."""
    wrong = struct.pack(">qi", 0, -20) + bytes(100)
    assert reach_of(memoryview(wrong), 0) == (0, -1, 0)
