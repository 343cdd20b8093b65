"""Fetch sessions (KIP-227): a client is told what has changed, all of it, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, asking, topic_id
from tests.broker.handlers.fetching import BY_ID, BY_NAME, Place, SessionClient, ask, told_by
from tests.support.batches import produced_to

from fairlead.broker.fetching.poll import FetchMemory
from fairlead.broker.fetching.remembered import Hold, Remembered
from fairlead.broker.fetching.sessions import EVICTION_SECONDS, FetchSessions, Owner
from fairlead.protocol.batch import build_batch, read_header
from fairlead.protocol.fetch import FetchPartition, FetchTopic

A0, A1 = Place("a", 0), Place("a", 1)
BATCH = build_batch([(None, b"record")])


async def publish(asker: Asker, place: Place, batch: bytes = BATCH) -> None:
    shard, topic = asker.cluster.stream("/default").topic(str(place.topic))
    await produced_to(shard, topic.number, place.partition, batch)


async def reader_of(asker: Asker, *places: Place) -> SessionClient:
    """A client that has a session and was told of these partitions, which are empty."""
    client = SessionClient(asker)
    client.offsets = dict.fromkeys(places, 0)
    assert (await client.poll()).keys() == set(places)
    assert client.session > 0
    return client


async def test_only_what_has_changed_is_told() -> None:
    """Nothing at first; records once; then that the client knows the new end."""
    async with asking() as asker:
        client = await reader_of(asker, A0, A1)
        assert await client.poll() == {}
        await publish(asker, A1)
        found = await client.poll()
        assert found.keys() == {A1}
        assert (found[A1].end, read_header(found[A1].records).record_count) == (1, 1)
        assert await client.poll() == found  # it has not moved on
        client.offsets[A1] = 1
        assert await client.poll() == {}


async def test_a_request_that_waits_is_answered_by_what_comes() -> None:
    """By a record, also one for a partition that joined the session meanwhile; else when its time is over."""
    async with asking() as asker:
        client = await reader_of(asker, A0)
        for place in (A0, A1):
            client.offsets[place] = 0
            await client.poll()
            waiting = asyncio.ensure_future(client.poll(wait_seconds=60))
            await asyncio.sleep(0)
            await publish(asker, place)
            assert (await waiting)[place].end == 1
            client.offsets[place] = 1
        assert await client.poll(wait_seconds=0.01) == {}


async def test_a_topic_that_goes_while_a_request_waits_is_told() -> None:
    """And again with each request, as long as the client asks for it."""
    async with asking() as asker:
        client = await reader_of(asker, A0)
        waiting = asyncio.ensure_future(client.poll(wait_seconds=60))
        await asyncio.sleep(0)
        await asker.cluster.stream("/default").delete_topic("a")
        assert (await waiting)[A0].error == ErrorCode.unknown_topic_or_partition
        assert (await client.poll(wait_seconds=60))[A0].error == ErrorCode.unknown_topic_or_partition


async def test_a_topic_made_anew_is_told_anew() -> None:
    """Under its name it is the same to the client; by its id it is unknown."""
    async with asking() as asker:
        stream = asker.cluster.stream("/default")
        by_name, by_id = await reader_of(asker, A0), SessionClient(asker, BY_ID)
        old = Place(topic_id(stream, "a"), 0)
        by_id.offsets[old] = 0
        assert (await by_id.poll())[old].error == ErrorCode.none
        await stream.delete_topic("a")
        await stream.create_topic("a", 1)
        assert (await by_id.poll())[old].error == ErrorCode.unknown_topic_id
        await publish(asker, A0)
        assert (await by_name.poll())[A0].end == 1
        new = Place(topic_id(stream, "a"), 0)
        del by_id.offsets[old]
        by_id.offsets[new] = 0
        assert (await by_id.poll())[new].end == 1


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_partitions_that_a_topic_gets_are_read_like_the_others(version: int) -> None:
    """Also those for which the topic had room when the session began: it gets room for twice as many each time."""
    async with asking() as asker:
        stream = asker.cluster.stream("/default")
        await stream.create_topic("grows", 4)
        await stream.set_partitions("grows", 6)
        key = "grows" if version == BY_NAME else topic_id(stream, "grows")
        client = SessionClient(asker, version)
        client.offsets = {Place(key, 0): 0}
        await client.poll()
        await stream.set_partitions("grows", 8)
        await publish(asker, Place("grows", 7))
        client.offsets[Place(key, 7)] = 0
        found = await client.poll(wait_seconds=60)
        assert {place: (told.error, told.end) for place, told in found.items()} == {Place(key, 7): (0, 1)}


async def test_forgotten_partitions_are_not_told_and_an_empty_session_ends() -> None:
    async with asking() as asker:
        client = await reader_of(asker, A0, A1)
        del client.offsets[A0]
        assert await client.poll() == {}
        await publish(asker, A0)
        assert await client.poll() == {}
        assert len(asker.fetch_sessions) == 1
        client.offsets.clear()
        assert await client.poll(wait_seconds=60) == {}
        assert (client.session, len(asker.fetch_sessions)) == (0, 0)
        shard = asker.cluster.stream("/default").topic("a")[0]
        assert shard.watched == 0


async def test_a_request_that_does_not_fit_its_session_is_refused() -> None:
    """By Kafka's codes; a client begins a new session then."""
    async with asking() as asker:
        client = await reader_of(asker, A0)
        number = client.session

        async def code(session: int, epoch: int, version: int = BY_NAME) -> Any:
            return (await ask(asker, {}, session=session, epoch=epoch, version=version)).error_code

        assert await code(number + 1, 1) == ErrorCode.fetch_session_id_not_found
        assert await code(number, 2) == ErrorCode.invalid_fetch_session_epoch
        assert await code(number, 1, BY_ID) == ErrorCode.fetch_session_topic_id_error
        assert await client.poll() == {}


async def test_nobody_else_uses_or_ends_a_session() -> None:
    """Neither on another listener nor from another address: its number can be guessed."""
    async with asking() as asker:
        client = await reader_of(asker, A0)
        elsewhere = asker.another_connection()
        elsewhere.connection = replace(elsewhere.connection, client_host="10.0.0.9")
        other = asker.on_stream("/ships")
        other.fetch_sessions = asker.fetch_sessions
        for stranger in (elsewhere, other):
            answer = await ask(stranger, {}, session=client.session, epoch=1)
            assert answer.error_code == ErrorCode.fetch_session_id_not_found
            assert (await ask(stranger, {}, session=client.session, epoch=-1)).error_code == ErrorCode.none
        assert await client.poll() == {}


@pytest.mark.parametrize("epoch", [-1, 0])
async def test_a_full_request_ends_the_session_that_it_names(epoch: int) -> None:
    """The first epoch begins another one; -1 is the end."""
    async with asking() as asker:
        client = await reader_of(asker, A0)
        answer = await ask(asker, {A0: 0, A1: 0}, session=client.session, epoch=epoch)
        assert told_by(answer).keys() == {A0, A1}
        assert (answer.session_id == 0) == (epoch == -1)
        assert answer.session_id != client.session
        assert len(asker.fetch_sessions) == (epoch == 0)
        answer = await ask(asker, {}, session=client.session, epoch=1)
        assert answer.error_code == ErrorCode.fetch_session_id_not_found


async def test_a_connection_has_one_session() -> None:
    """A client that begins one with each request holds no more than others."""
    async with asking() as asker:
        for _ in range(5):
            assert (await ask(asker, {A0: 0}, epoch=0)).session_id
        assert len(asker.fetch_sessions) == 1


async def test_the_next_request_ends_one_that_still_waits() -> None:
    """Its client has lost the connection, or patience; what was found for it is told to the next one."""
    async with asking() as asker:
        client = await reader_of(asker, A0)
        waiting = asyncio.ensure_future(ask(asker, {}, session=client.session, epoch=1, wait_seconds=60))
        await asyncio.sleep(0)
        client.epoch = 2
        assert await client.poll() == {}
        assert (await waiting).error_code == ErrorCode.invalid_fetch_session_epoch
        await publish(asker, A0)
        assert (await client.poll())[A0].end == 1


async def test_a_request_that_is_given_up_takes_nothing_along() -> None:
    """Its connection went while it waited."""
    async with asking() as asker:
        client = await reader_of(asker, A0, A1)
        waiting = asyncio.ensure_future(ask(asker, {}, session=client.session, epoch=1, wait_seconds=60))
        await asyncio.sleep(0)
        await publish(asker, A0)
        waiting.cancel()
        await asyncio.wait([waiting])
        client.epoch = 2
        assert (await client.poll()).keys() == {A0}


async def test_a_session_for_which_there_is_no_room_is_none() -> None:
    """Everything is answered all the same, each time; one that grows too large is gone."""
    async with asking() as asker:
        asker.fetch_sessions = FetchSessions(10, Remembered(4000), asker.cluster.randomness)
        await asker.cluster.stream("/default").create_topic("wide", 10)
        wide = {Place("wide", partition): 0 for partition in range(10)}
        for _ in range(2):
            answer = await ask(asker, wide, epoch=0)
            assert answer.session_id == 0
            assert set(told_by(answer)) == set(wide)
        client = await reader_of(asker, A0)
        answer = await ask(asker, wide, session=client.session, epoch=1)
        assert answer.error_code == ErrorCode.fetch_session_id_not_found
        assert len(asker.fetch_sessions) == 0
        asker.fetch_sessions = FetchSessions(0, Remembered(4000), asker.cluster.randomness)
        assert (await ask(asker, {A0: 0}, epoch=0)).session_id == 0


@pytest.mark.parametrize("epoch", [-1, 0])
async def test_long_names_of_topics_count_as_what_is_remembered(epoch: int) -> None:
    """A hostile client asks for topics that nobody has, with names as long as the protocol allows."""
    async with asking() as asker:
        remembered = Remembered(50_000)
        asker.fetch_sessions = FetchSessions(10, remembered, asker.cluster.randomness)
        asker.connection = replace(asker.connection, fetches=FetchMemory(Hold(remembered, "host")))
        for length, remembers in ((10, True), (30_000, False)):
            await ask(asker, {Place("x" * length, 0): 0}, epoch=epoch)
            assert (remembered.used_bytes > 0) == remembers


class Cache:
    """Sessions that are begun and used at times that a test says."""

    def __init__(self, asker: Asker, slots: int) -> None:
        self.sessions = FetchSessions(slots, Remembered(10_000_000), asker.cluster.randomness)
        self._listener = asker.listener

    def begin(self, host: str, size: int, now: float) -> Any:
        """A session of so many partitions; None if it is not kept."""
        session = self.sessions.begin(Owner(self._listener, host), by_id=False)
        session.put(FetchTopic("a", None, [FetchPartition(number, -1, 0, -1, 1) for number in range(size)]))
        return session if self.sessions.keep(session, now) else None


async def test_a_session_leaves_for_another_only_when_kafka_would_let_it() -> None:
    """It was not used for two minutes; or it is older than that, and smaller."""
    async with asking() as asker:
        cache = Cache(asker, 2)
        small, large = cache.begin("one", 2, 0), cache.begin("two", 5, 0)
        assert cache.begin("three", 9, EVICTION_SECONDS) is None
        late = EVICTION_SECONDS + 1
        for session in (small, large):
            assert cache.sessions.touch(session, late)
        assert cache.begin("three", 2, late) is None
        third = cache.begin("three", 3, late)
        assert (small.closed, large.closed, third.closed) == (True, False, False)
        assert cache.begin("four", 1, 2 * late) is not None
        assert large.closed


async def test_one_address_has_three_quarters_of_the_sessions_at_most() -> None:
    """More of its sessions take the place of its own, so others keep theirs."""
    async with asking() as asker:
        cache = Cache(asker, 8)
        honest = [cache.begin(f"honest {number}", 1, 0) for number in range(2)]
        hostile = [cache.begin("hostile", 9, 0) for _ in range(20)]
        assert sum(session is not None for session in hostile) == 6
        late = EVICTION_SECONDS + 1
        for session in honest:
            cache.sessions.touch(session, late)
        for _ in range(20):
            cache.begin("hostile", 10, late)
        assert not any(session.closed for session in honest)


PLACES = [Place(topic, partition) for topic in ("a", "b") for partition in range(2)]
ACTIONS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(PLACES)),
    st.tuples(st.just("read on"), st.sampled_from(PLACES)),
    st.tuples(st.just("ask from the beginning"), st.sampled_from(PLACES)),
    st.tuples(st.just("forget"), st.sampled_from(PLACES)),
    st.tuples(st.just("delete"), st.sampled_from(PLACES)),
    st.tuples(st.just("make"), st.sampled_from(PLACES)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(ACTIONS, max_size=4), min_size=1, max_size=12))
async def test_a_session_tells_what_a_full_request_would(rounds: Sequence[Sequence[tuple[str, Place]]]) -> None:
    """After each poll the client knows of every partition what it would learn by asking for all of them, and it was
    told no more than what it did not know: records, errors, another end or start."""
    async with asking() as asker:
        client = SessionClient(asker)
        client.offsets = {A0: 0}
        for actions in rounds:
            for action in actions:
                await act(client, *action)
            before = client.known if client.epoch else {}
            found = await client.poll()
            if not client.offsets:
                continue
            full = told_by(await ask(asker, client.offsets))
            assert found == {
                place: told for place, told in full.items() if told.error or told.records or before.get(place) != told
            }
            assert client.known == {place: told._replace(records=b"") for place, told in full.items()}


async def act(client: SessionClient, action: str, place: Place) -> None:
    stream = client.asker.cluster.stream("/default")
    name = str(place.topic)
    there = stream.find_topic(name) is not None
    match action:
        case "publish" if there:
            await publish(client.asker, place)
        case "read on" if place in client.known and place in client.offsets:
            client.offsets[place] = max(0, client.known[place].end)
        case "ask from the beginning":
            client.offsets[place] = 0
        case "forget":
            client.offsets.pop(place, None)
        case "delete" if there:
            await stream.delete_topic(name)
        case "make" if not there:
            await stream.create_topic(name, 2)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(0, 4 * len(BATCH)))
async def test_everything_has_its_turn_in_small_answers(batches: Sequence[int], max_bytes: int) -> None:
    """Whatever fits into an answer, each poll brings something until all is read, and whoever waits is no more than one
    turn behind."""
    async with asking() as asker:
        await asker.cluster.stream("/default").create_topic("many", len(batches))
        counts = {Place("many", partition): count for partition, count in enumerate(batches)}
        for place, count in counts.items():
            for _ in range(count):
                await publish(asker, place)
        client = SessionClient(asker)
        client.offsets = dict.fromkeys(counts, 0)
        turns = dict.fromkeys(counts, 0)
        while client.offsets != counts:
            found = await client.poll(max_bytes=max_bytes)
            read = {place: told.records for place, told in found.items() if told.records}
            assert read
            for place, records in read.items():
                turns[place] += 1
                client.offsets[place] = read_header(records[-len(BATCH) :]).last_offset + 1
            waiting = [turns[place] for place, count in counts.items() if client.offsets[place] < count]
            assert not waiting or max(turns.values()) <= min(waiting) + 1
