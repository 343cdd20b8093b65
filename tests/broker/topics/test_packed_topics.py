"""Metadata of all topics leaves the loop to others: how much is done between two turns, by count, not by the clock."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.broker import RunningBroker

from fairlead.broker import pacing
from fairlead.broker.connection import Connection
from fairlead.broker.memory import RequestMemory
from fairlead.broker.topics import packed_topics
from fairlead.broker.topics.packed_topics import RUN, PackedTopics
from fairlead.broker.traffic import Traffic
from fairlead.protocol.metadata import topic as pack_topic
from fairlead.streamlog.requests.topics import create_topic

TOPICS = 3 * RUN
PIECE_BYTES = 256 * 1024


class Turns:
    """Every look at the clock is a slice later, so that work pauses wherever it may; what it does is counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.packed = 0
        self.packed_in_turn = 0
        self.packed_in_turn_max = 0
        self.rests = 0
        monkeypatch.setattr(pacing, "perf_counter", self._clock)
        monkeypatch.setattr(pacing, "asyncio", Mock(wraps=asyncio, sleep=self._sleep))
        monkeypatch.setattr(packed_topics, "pack_topic", self._pack)

    def _clock(self) -> float:
        self.now += 1
        return self.now

    async def _sleep(self, seconds: float) -> None:
        self.rests += 1
        self.packed_in_turn = 0
        await asyncio.sleep(0)

    def _pack(self, *arguments: Any) -> Any:
        self.packed += 1
        self.packed_in_turn += 1
        self.packed_in_turn_max = max(self.packed_in_turn_max, self.packed_in_turn)
        return pack_topic(*arguments)


def make(broker: RunningBroker, names: Any) -> Any:
    home = broker.cluster.stream("/default")
    broker.submit(home.shards[0], lambda draft: [create_topic(draft, name) for name in names])
    return home


@pytest.fixture
def home(running_broker: RunningBroker) -> Any:
    return make(running_broker, [f"ship-{number}" for number in range(TOPICS)])


def test_packing_may_pause_after_every_topic_and_every_run(
    running_broker: RunningBroker, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many partitions a topic has; what is packed already pauses between runs."""
    packed, turns = PackedTopics(), Turns(monkeypatch)
    count, pieces = running_broker.call(packed.all({home: ""}, 12))
    assert (count, turns.packed, turns.packed_in_turn_max) == (TOPICS, TOPICS, 1)
    turns.rests = 0
    assert running_broker.call(packed.all({home: ""}, 12)) == (count, pieces)
    assert turns.packed == TOPICS
    assert turns.rests == len(pieces) >= TOPICS / RUN


def test_clients_that_ask_at_once_have_the_topics_packed_once(
    running_broker: RunningBroker, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each packs in the other's rests, and nobody else gets any."""
    packed, turns = PackedTopics(), Turns(monkeypatch)

    async def ask() -> Any:
        return await asyncio.gather(*(packed.all({home: ""}, 12) for _ in range(3)))

    first, *others = running_broker.call(ask())
    assert others == [first, first]
    assert (first[0], turns.packed, turns.packed_in_turn_max) == (TOPICS, TOPICS, 1)


def test_topics_that_come_and_go_while_all_are_packed_are_in_the_next_answer(
    running_broker: RunningBroker, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that changes while it is packed is packed again, and only such a run."""
    packed, turns = PackedTopics(), Turns(monkeypatch)

    async def ask_and_change() -> None:
        asking = asyncio.ensure_future(packed.all({home: ""}, 12))
        while turns.packed < RUN // 2:  # noqa: ASYNC110 - the test counts turns
            await asyncio.sleep(0)
        await home.delete_topic("ship-0")
        await home.create_topic("new")
        await asking

    running_broker.call(ask_and_change())
    count, pieces = running_broker.call(packed.all({home: ""}, 12))
    names = {topic.name for topic in running_broker.do(lambda: list(home.topics()))}
    assert count == len(names) == TOPICS
    body = b"".join(pieces)
    assert all(bytes([len(name) + 1]) + name.encode() in body for name in names)
    assert b"\x07ship-0" not in body


def test_ids_are_made_only_for_versions_that_have_them(
    running_broker: RunningBroker, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take longer than all the rest."""
    made = Mock(wraps=home.id_of)
    monkeypatch.setattr(home, "id_of", made)
    for version, ids in ((9, 0), (10, TOPICS)):
        assert running_broker.call(PackedTopics().all({home: ""}, version))[0] == TOPICS
        assert made.call_count == ids


async def test_a_long_answer_is_written_in_turns_to_a_client_that_takes_it_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transport that never asks for a pause; others run between any two pieces."""
    Turns(monkeypatch)
    transport = Mock()
    transport.get_extra_info.return_value = ("127.0.0.1", 1)
    connection = Connection(
        Mock(
            request_bytes_max=1000,
            idle_seconds=60.0,
            traffic=Traffic(),
            memory=RequestMemory(10**9),
            admit=Mock(return_value=0.0),
        )
    )
    connection.connection_made(transport)
    parts = [bytes(100)] * 1000 + [bytes(20 * PIECE_BYTES)]
    sending = asyncio.ensure_future(connection._send(parts))  # noqa: SLF001 - an answer of these very pieces
    written = [0]
    while not sending.done():
        await asyncio.sleep(0)
        written.append(transport.write.call_count)
    assert written[-1] == 21
    assert max(after - before for before, after in itertools.pairwise(written)) == 1
    connection.connection_lost(None)
