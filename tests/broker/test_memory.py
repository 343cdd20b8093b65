"""Requests and answers of all connections share one memory; whoever would exceed it waits, and small requests go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.broker.test_connections import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    V_FETCH,
    V_PRODUCE,
    fetch_body,
    make_topic,
    one_record,
    partition_of,
    produce_body,
)
from tests.support.broker import RunningBroker, run_broker
from tests.support.hot_requests import metadata_request
from tests.support.kafka_wire import WireClient, read_response
from tests.support.waiting import in_time, until, wait_until

from fairlead.broker import memory
from fairlead.broker.memory import FREE_BYTES, SMALL_BYTES, RequestMemory, Share
from fairlead.model.settings import Settings

LARGE = SMALL_BYTES + FREE_BYTES + 1


class Holder:
    """A connection that notes what it is told."""

    def __init__(self, of: RequestMemory) -> None:
        self.share = Share(of, self._came, self._overdue)
        self.came = 0
        self.overdue = 0

    def _came(self) -> None:
        self.came += 1

    def _overdue(self, far: bool) -> None:
        self.overdue += far


async def test_what_would_exceed_the_memory_waits_until_some_is_given_back() -> None:
    """As in Kafka it is granted while anything is left, so that the largest request is granted too."""
    of = RequestMemory(4 * LARGE)
    one, two = Holder(of), Holder(of)
    assert one.share.resize(100 * LARGE)
    assert not two.share.resize(LARGE)
    assert (two.share.bytes, two.came) == (0, 0)
    one.share.resize(0)
    assert two.came == 1
    assert two.share.resize(LARGE)
    assert of.used_bytes == LARGE - FREE_BYTES
    two.share.resize(0)
    assert of.used_bytes == 0


async def test_small_requests_go_on_while_large_ones_wait() -> None:
    """They have a quarter for themselves, and the first bytes of each connection are free."""
    of = RequestMemory(4 * LARGE)
    holders = [Holder(of) for _ in range(100)]
    large = [holder.share.resize(LARGE) for holder in holders]
    assert 3 <= sum(large) < 5
    small = Holder(of)
    assert small.share.resize(SMALL_BYTES)
    assert all(Holder(of).share.resize(FREE_BYTES) for _ in range(1000))


async def test_an_answer_is_counted_though_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there; but no further request begins that may have a long one, until some is given back."""
    monkeypatch.setattr(memory, "_APART_SECONDS", 0.0)
    of = RequestMemory(LARGE)
    holder = Holder(of)
    assert holder.share.resize(LARGE + FREE_BYTES, forced=True)
    assert holder.share.resize(2 * LARGE, forced=True)
    waiting = [asyncio.ensure_future(of.room()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    waiting[0].cancel()
    holder.share.resize(0)
    async with in_time():
        await asyncio.gather(*waiting[1:])


async def test_who_holds_memory_for_long_is_told_while_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only then: over a thin link a request may take its time."""
    hurry(monkeypatch, 0.05)
    of = RequestMemory(LARGE)
    one, two = Holder(of), Holder(of)
    assert one.share.resize(2 * LARGE)
    await asyncio.sleep(0.1)
    assert one.overdue == 0
    assert not two.share.resize(2 * LARGE)
    await until(lambda: one.overdue)
    assert two.overdue == 0
    one.share.resize(0)
    assert two.came == 1


def hurry(monkeypatch: pytest.MonkeyPatch, patience_seconds: float) -> None:
    """Whoever is slow is given up after this."""
    monkeypatch.setattr(memory, "_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(memory, "STALLED_SECONDS", patience_seconds)
    monkeypatch.setattr(memory, "PATIENCE_SECONDS", patience_seconds)


def half_sent(broker: RunningBroker, size_bytes: int) -> WireClient:
    """A client that has begun a request of that size."""
    client = WireClient(broker.address)
    client.socket.sendall(size_bytes.to_bytes(4, "big") + bytes(100))
    return client


def test_requests_that_never_end_do_not_hold_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight clients that began 100 MB each and send no more: a large produce waits until the first are given up, and
    small ones go on meanwhile."""
    hurry(monkeypatch, 0.5)
    settings = Settings(queued_max_request_bytes=50_000_000)
    with run_broker(tmp_path / "data", settings=settings) as broker, capture_logs() as logs:
        make_topic(broker, "line")
        slow = [half_sent(broker, 90_000_000) for _ in range(8)]
        wait_until(lambda: broker.server.memory.used_bytes > 80_000_000, "the first is granted")
        assert broker.server.memory.used_bytes < 100_000_000
        with WireClient(broker.address) as small, WireClient(broker.address) as large:
            sent = large.send(PRODUCE, V_PRODUCE, produce_body("line", one_record(bytes(5_000_000))))
            assert partition_of(small.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record()))).error_code == 0
            answered, data = large.receive()
            assert answered == sent
            assert partition_of(read_response(PRODUCE, V_PRODUCE, data)).error_code == 0
        for client in slow:
            client.socket.close()
        wait_until(lambda: broker.server.memory.used_bytes == 0, "all is given back")
    assert "others wait for the memory" in logs[0]["why"]


def test_answers_that_nobody_takes_do_not_hold_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that reads nothing has its answer in memory; others begin theirs once it is given up."""
    hurry(monkeypatch, 0.5)
    with run_broker(tmp_path / "data", settings=Settings(queued_max_request_bytes=4_000_000)) as broker:
        make_topic(broker, "line")
        with WireClient(broker.address) as writer:
            for _ in range(3):
                writer.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record(bytes(4_000_000))))
        slow = [WireClient(broker.address, receive_bytes=4096) for _ in range(3)]
        for client in slow:
            client.send(FETCH, V_FETCH, fetch_body("line", 0))
        wait_until(lambda: broker.server.memory.full, "an answer is in memory")
        with WireClient(broker.address) as other:
            assert other.call(API_VERSIONS, 0).error_code == 0
            answer = other.exchange(METADATA, 9, metadata_request(None, 9))
            assert [topic.name for topic in answer.topics] == ["line"]
        for client in slow:
            client.socket.close()
