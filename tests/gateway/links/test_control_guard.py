"""Control connections against those who are not the server's own replicator, and readers that fall silent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.gateway.rig import REPLICA, SECRET, SHIPS, SOURCE, Site, Worker
from tests.support.waiting import in_time, until
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fairlead.gateway.links.grants.outbox import MESSAGES_MAX, Outbox
from fairlead.model.conversation import from_json
from fairlead.model.errors import InvalidValue
from fairlead.streamlog.values import GrantRun
from fairlead.wire.control import Grant, Progress, ReaderHello, SinkHello
from fairlead.wire.messages import READER_HEARS, to_json


@pytest.fixture
async def sf(tmp_path: Path) -> AsyncIterator[Site]:
    """A source with two records."""
    async with Site("sf", tmp_path) as site:
        await site.stream(SHIPS)
        await site.write(SHIPS, "a", b"1")
        await site.write(SHIPS, "a", b"2")
        yield site


@pytest.fixture
async def ny(tmp_path: Path) -> AsyncIterator[Site]:
    """A cluster whose stream accepts it."""
    async with Site("ny", tmp_path) as site:
        await site.stream(SHIPS)
        await site.links.add_upstream(SHIPS, SOURCE)
        yield site


async def heard(socket: ClientConnection) -> Grant:
    """The next grant."""
    async with in_time():
        while not isinstance(message := from_json(await socket.recv(), READER_HEARS), Grant):
            pass
        return message


async def ended_by(socket: ClientConnection) -> str:
    """Why the server closes a connection."""
    async with in_time():
        with suppress(ConnectionClosed):
            async for _ in socket:
                pass
        await socket.wait_closed()
    return socket.close_reason or ""


@pytest.mark.parametrize("secret", ["", "5e" * 31, "00" * 32, SECRET.upper()])
@pytest.mark.parametrize("path", ["reader", "sink", "replicator"])
async def test_only_who_reads_the_secret_controls(sf: Site, path: str, secret: str) -> None:
    """A stranger took a link's grants: replication stood still without an error. Another forged its progress."""
    with pytest.raises(InvalidStatus, match="403"):
        await sf.control(path, secret)


@pytest.mark.parametrize("slots", [0, -1, 4097, 2**40])
async def test_a_worker_asks_for_a_bounded_number_of_grants(sf: Site, slots: int) -> None:
    async with sf.control("reader") as socket:
        await socket.send(to_json(ReaderHello("w", slots)))
        assert "slots" in await ended_by(socket)
    assert sf.manager.table.readers == []


async def test_a_grant_of_which_nothing_is_said_is_given_anew(sf: Site, ny: Site) -> None:
    """A task that hangs keeps its connection; with its grants the link stood still."""
    async with sf.control("reader") as silent:
        await silent.send(to_json(ReaderHello("silent", 64)))
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        grant = await heard(silent)
        (reader,) = sf.manager.table.readers
        async with Worker(sf):
            reader._report_seconds = 0.01  # noqa: SLF001 - not the worker's, which a busy machine holds up
            reader.grant(grant)
            assert "silent has said nothing of a grant for 0.01 s" in await ended_by(silent)
            await until(lambda: ny.end(SHIPS, "a") == 2)


async def test_a_reader_that_reports_is_kept(sf: Site, ny: Site) -> None:
    """Also when there is nothing more to say: nothing is waited for any more."""
    async with Worker(sf) as worker:
        (reader,) = await until(lambda: sf.manager.table.readers)
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        await until(lambda: ny.end(SHIPS, "a") == 2)
        await until(lambda: not reader._unreported)  # noqa: SLF001 - the timers, which no face shows
        await sf.write(SHIPS, "a", b"3")
        await until(lambda: ny.end(SHIPS, "a") == 3)
        assert not reader._unreported  # noqa: SLF001 - the same
        assert worker.withdrawn == []
        assert len(worker.granted) == 1


async def test_nobody_else_speaks_of_a_run(sf: Site, ny: Site) -> None:
    """Nor of one that was never given."""
    async with Worker(sf) as worker, sf.control("sink") as other:
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"])
        await other.send(to_json(SinkHello("other")))
        grant = worker.granted[0]
        await other.send(to_json(Progress(grant.link, grant.run, 0, {0: 1}, 1, 1)))
        assert "not this sink's" in await ended_by(other)
    for shard in (1, -1):
        async with sf.control("sink") as other:
            await other.send(to_json(SinkHello("other")))
            await other.send(to_json(Progress(grant.link, grant.run, shard, {0: 1}, 1, 1)))
            assert "not this sink's" in await ended_by(other)
    async with sf.control("sink") as early:
        await early.send(to_json(SinkHello("early")))
        await early.send(to_json(Progress(grant.link, GrantRun(grant.run.epoch, 2**40), 0, {0: 1}, 1, 1)))
        assert "not this sink's" in await ended_by(early)


@pytest.mark.parametrize("slices", [{0: 4}, {16: 1}, {0: -1}])
async def test_a_destination_that_has_more_than_there_is_is_an_error(
    sf: Site, ny: Site, slices: dict[int, int]
) -> None:
    """It says what it likes; a position beyond the end would show "up to date" while nothing is sent."""
    async with sf.control("reader") as reader, sf.control("sink") as sink:
        await reader.send(to_json(ReaderHello("w", 64)))
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        grant = await heard(reader)
        await sink.send(to_json(SinkHello("w")))
        everything = dict.fromkeys(range(16), 3) | slices
        await sink.send(to_json(Progress(grant.link, grant.run, 0, everything, 1, 2)))
        await until(lambda: sf.manager.failures.count)
        row = sf.links.list(SHIPS)[0]
        assert (row["isUptodate"], row["putsPending"]) == (False, 2)


async def test_messages_for_one_who_does_not_read_are_bounded() -> None:
    """Then the connection ends, and what it held is given to others."""
    outbox = Outbox()
    for number in range(MESSAGES_MAX):
        outbox.put(number)
    assert len(await outbox.outgoing()) == MESSAGES_MAX
    for number in range(MESSAGES_MAX + 1):
        outbox.put(number)
    with pytest.raises(InvalidValue, match="none is read"):
        await outbox.until_lost()
