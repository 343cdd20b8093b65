"""Control connections: announcements that gather, answers to readers, and conversations that go wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.rig import Site, Worker
from tests.support.waiting import WAIT_SECONDS, until
from websockets.exceptions import ConnectionClosed

from fairlead.gateway.links.grants import connected_reader, granting
from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.model.errors import UnknownStream
from fairlead.model.names import StreamPath
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.values import GrantRun, LogObject
from fairlead.wire.control import (
    Announce,
    Grant,
    ListObjects,
    Locate,
    Located,
    ReaderHello,
    SinkHello,
    TopicName,
    Topics,
    TopicsWanted,
    Withdraw,
)
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.messages import to_json

SHIPS = "/ships"
REPLICA = StreamPath("/ships", "ny")


@pytest.fixture
async def sf(tmp_path: Path) -> AsyncIterator[Site]:
    """A cluster with a stream of three commits: a topic and two batches."""
    async with Site("sf", tmp_path) as site:
        await site.stream(SHIPS)
        await site.write(SHIPS, "a", b"1")
        await site.write(SHIPS, "a", b"2")
        yield site


@pytest.fixture
async def ny(tmp_path: Path) -> AsyncIterator[Site]:
    """A cluster whose stream accepts the first one's."""
    async with Site("ny", tmp_path) as site:
        await site.stream(SHIPS)
        await site.links.add_upstream(SHIPS, StreamPath("/ships", "sf"))
        yield site


def grant_of(site: Site, start: int) -> Grant:
    """A grant of one slice from a commit on."""
    stream = site.cluster.stream(SHIPS)
    here = StreamPlace("sf", SHIPS, stream.id)
    return Grant(1, b"l" * 16, GrantRun(1, 1), here, 0, here, "all", "", "", {0: start}, (), 3)


def key_of(site: Site) -> tuple[bytes, int]:
    """The only shard."""
    return site.cluster.stream(SHIPS).id, 0


async def said(reader: ConnectedReader) -> list[Any]:
    """What waits to be said."""
    return await asyncio.wait_for(reader.outgoing(), WAIT_SECONDS)


async def test_a_grant_is_followed_by_the_objects_from_its_position_on(sf: Site) -> None:
    """The reader knows at once what to read."""
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    reader.grant(grant_of(sf, 1))
    grant, announce = await said(reader)
    assert isinstance(grant, Grant)
    assert isinstance(announce, Announce)
    assert announce.reset
    assert (announce.objects[0].first, announce.end) == (1, 3)


async def write_and_tell(sf: Site, reader: ConnectedReader) -> None:
    """One more commit, and the reader hears of it."""
    await sf.write(SHIPS, "a", b"x")
    reader.moved(key_of(sf))


async def test_new_commits_gather_while_the_socket_is_busy(sf: Site) -> None:
    """Five commits, one announcement, only of what was not named before."""
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    reader.grant(grant_of(sf, 0))
    await said(reader)
    for _ in range(5):
        await write_and_tell(sf, reader)
    (announce,) = await said(reader)
    assert [each.first for each in announce.objects] == [3, 4, 5, 6, 7]
    assert not announce.reset


async def test_a_reader_is_told_of_cuts_with_the_objects(sf: Site) -> None:
    """Also of one in a commit that is not announced for its own sake; a repair is told of all of its partition."""
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    reader.grant(grant_of(sf, 0))
    await said(reader)
    shard, topic = sf.cluster.stream(SHIPS).topic("a")
    end = shard.state.partition(topic.number, 0).end
    await shard.submit(lambda draft: cut(draft, topic.number, 0, end - 1, "takeover", 9, None))
    cuts = tuple(shard.state.dead_from())
    await write_and_tell(sf, reader)
    (announce,) = await said(reader)
    assert announce.cuts == cuts == ((topic.number, 0, end - 1, announce.end - 2, 0),)
    await write_and_tell(sf, reader)
    (announce,) = await said(reader)
    assert announce.cuts == ()
    reader.list_again(ListObjects(*key_of(sf), 0))
    (announce,) = await said(reader)
    assert announce.cuts == cuts
    await reader.locate(Locate(*key_of(sf), topic.number, 0, 0))
    (located,) = await said(reader)
    assert located.cuts == cuts


async def test_commits_of_a_busy_log_gather_into_one_announcement(sf: Site) -> None:
    """The first after a pause is said at once; those that follow it closely are said together."""
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1), announce_interval_seconds=2)
    reader.grant(grant_of(sf, 3))
    await said(reader)
    await write_and_tell(sf, reader)
    (first,) = await said(reader)
    assert [each.first for each in first.objects] == [3]
    for _ in range(5):
        await write_and_tell(sf, reader)
    (second,) = await said(reader)
    assert [each.first for each in second.objects] == [4, 5, 6, 7, 8]


async def test_what_else_is_to_be_said_does_not_wait_for_commits_to_gather(sf: Site) -> None:
    """A withdrawal is said at once, however lately a commit was announced."""
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1), announce_interval_seconds=3600)
    reader.grant(grant_of(sf, 3))
    await said(reader)
    await write_and_tell(sf, reader)
    await said(reader)
    await write_and_tell(sf, reader)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.outgoing(), 0.05)
    reader.withdraw(1, None, "paused")
    assert Withdraw(1, "paused") in await said(reader)


async def test_a_shard_is_followed_only_while_it_is_granted(sf: Site) -> None:
    """After the last grant has ended nothing is said about it."""
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    reader.grant(grant_of(sf, 0))
    await said(reader)
    reader.withdraw(1, key_of(sf), "paused")
    assert await said(reader) == [Withdraw(1, "paused")]
    reader.moved(key_of(sf))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.outgoing(), 0.05)


async def test_a_long_list_of_objects_is_said_in_parts(sf: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part ends where its last object does, the last one at the announced end."""
    monkeypatch.setattr(connected_reader, "OBJECTS_PER_MESSAGE_MAX", 2)
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    reader.grant(grant_of(sf, 0))
    _, *parts = await said(reader)
    assert [(part.end, part.reset, len(part.objects)) for part in parts] == [(2, True, 2), (3, False, 1)]


async def test_a_list_that_is_cut_within_a_merged_run_allows_reading_up_to_the_run(
    sf: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may be named by several objects: a reader that wakes between two messages would leave out the others."""
    monkeypatch.setattr(connected_reader, "OBJECTS_PER_MESSAGE_MAX", 1)
    log = sf.cluster.stream(SHIPS).shards[0].announced
    run = [LogObject(name, 1, 3, segment=True) for name in ("control", "data", "data-2")]
    objects = [LogObject("first", 0, 1, segment=True), *run]
    monkeypatch.setattr(type(log), "objects", lambda *_: objects)
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    reader.grant(grant_of(sf, 0))
    _, *parts = await said(reader)
    assert [[each.name for each in part.objects] for part in parts] == [["first"], ["control"], ["data"], ["data-2"]]
    assert [part.end for part in parts] == [1, 1, 1, 3]


async def test_a_reader_that_missed_an_object_is_told_again(sf: Site) -> None:
    """The list begins anew at the commit that it names."""
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    reader.grant(grant_of(sf, 0))
    await said(reader)
    reader.list_again(ListObjects(*key_of(sf), from_commit=2))
    (announce,) = await said(reader)
    assert announce.reset
    assert [each.first for each in announce.objects] == [2]


async def test_topic_numbers_and_places_of_rows_are_answered(sf: Site) -> None:
    """Unknown numbers are left out; a partition's objects are named up to the announced end."""
    shard, topic = sf.cluster.stream(SHIPS).topic("a")
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    reader.name_topics(TopicsWanted(*key_of(sf), numbers=(topic.number, 12345)))
    await reader.locate(Locate(*key_of(sf), number=topic.number, partition=0, offset=0))
    names, located = await said(reader)
    assert isinstance(names, Topics)
    assert names.topics == (TopicName(topic.number, topic.incarnation, "a"),)
    assert isinstance(located, Located)
    assert located.end == shard.announced.end
    assert located.objects


async def test_what_is_announced_while_rows_are_located_is_read_by_a_repair_too(
    sf: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The objects may hold it by then, also merged with what was there before; a frame with rows beyond the commit to
    which it says that it was read is refused, and its link with it."""
    locate, written = AnnouncedLog.locate, threading.Event()

    def late(log: AnnouncedLog, slices: Collection[int]) -> list[LogObject]:
        assert written.wait(WAIT_SECONDS)
        return locate(log, slices)

    monkeypatch.setattr(AnnouncedLog, "locate", late)
    shard, topic = sf.cluster.stream(SHIPS).topic("a")
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    locating = asyncio.ensure_future(reader.locate(Locate(*key_of(sf), topic.number, 0, 0)))
    await asyncio.sleep(0)
    await sf.write(SHIPS, "a", b"3")
    written.set()
    await locating
    (located,) = await said(reader)
    assert located.end == max(each.end for each in located.objects) == shard.announced.end


@pytest.mark.parametrize("path", ["reader", "sink"])
@pytest.mark.parametrize("text", ["good morning", '{"type":"done","grant":1}', '{"type":"hello"}'])
async def test_a_conversation_that_begins_wrong_is_ended(sf: Site, path: str, text: str) -> None:
    """The reason is in the close frame, and the server goes on."""
    async with sf.control(path) as socket:
        await socket.send(text)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert closed.value.rcvd.reason


@pytest.mark.parametrize(("path", "hello"), [("reader", ReaderHello("w", 1)), ("sink", SinkHello("w"))])
async def test_a_second_hello_ends_the_conversation(sf: Site, path: str, hello: object) -> None:
    """It is a task that has lost its place."""
    async with sf.control(path) as socket:
        await socket.send(to_json(hello))
        await socket.send(to_json(hello))
        with pytest.raises(ConnectionClosed, match="second hello"):
            await socket.recv()
    await until(lambda: not sf.manager.table.readers and not sf.manager.table.sinks)


async def test_a_big_backlog_is_divided_also_when_a_reader_joins_later(
    sf: Site, ny: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reader has all slices until there is a second; then each has some, and all of it arrives."""
    for number in range(16):
        await sf.write(SHIPS, f"t{number}", b"x" * 1000)
    async with Worker(sf, "one") as one:
        one.hold.clear()
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        await until(lambda: one.grants)
        assert len(one.granted[0].slices) == 16
        monkeypatch.setattr(granting, "SPLIT_BYTES", 1)
        monkeypatch.setattr("fairlead.gateway.links.grants.grant_table.SPLIT_BYTES", 1)
        async with Worker(sf, "two") as two:
            await until(lambda: two.grants)
            await until(lambda: one.withdrawn and one.grants)
            slices = [set(reading.grant.slices) for worker in (one, two) for reading in worker.grants.values()]
            assert len(slices) == 2
            assert slices[0].isdisjoint(slices[1])
            assert slices[0] | slices[1] == set(range(16))
            one.hold.set()
            await until(lambda: sf.ends(SHIPS) == ny.ends(SHIPS))


async def test_readers_that_are_full_get_no_more(sf: Site, ny: Site) -> None:
    """A second link waits for a place, and takes it when the first one is paused."""
    await ny.stream("/other")
    await ny.links.add_upstream("/other", StreamPath("/ships", "sf"))
    async with Worker(sf, slots=1) as worker:
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        await until(lambda: worker.grants)
        await sf.links.add_replica(SHIPS, StreamPath("/other", "ny"), urls=ny.urls)
        await until(lambda: sf.links.list(SHIPS)[1]["replicaState"] == "REPLICA_STATE_COPY_SCHEDULE")
        assert ny.end("/other", "a") == -1
        await sf.links.pause(SHIPS, REPLICA)
        await until(lambda: ny.end("/other", "a") == 2)


async def test_a_reader_joins_beside_a_link_whose_stream_is_gone(
    sf: Site, ny: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others' links are served."""
    await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
    await until(lambda: [link.state.ready for link in sf.manager.running] == [True])
    monkeypatch.setattr(sf.cluster, "stream_by_id", lambda id: None)
    reader = ConnectedReader(sf.cluster, ReaderHello("w", 1))
    sf.manager.tasks.reader_joined(reader)
    assert sf.manager.table.readers == [reader]
    sf.manager.tasks.reader_left(reader)


async def test_a_reader_that_cannot_join_leaves_nothing_behind(sf: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it would be given grants that nobody reads."""
    joined: list[ConnectedReader] = []

    def join(reader: ConnectedReader) -> None:
        sf.manager.table.join(reader)
        joined.append(reader)
        raise UnknownStream("it was deleted")

    monkeypatch.setattr(sf.manager.tasks, "reader_joined", join)
    async with sf.control("reader") as socket:
        await socket.send(to_json(ReaderHello("w", 1)))
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    await until(lambda: joined and not sf.manager.table.readers)
