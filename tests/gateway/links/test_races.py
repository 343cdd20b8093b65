"""What happens while something else is under way: a contact in flight, a copy that begins or ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import NoReturn, cast

import httpx
import pytest
from tests.gateway.links.destination import ANOTHER, ANSWER, REPLICA, SHIPS, URLS, Destination, source
from tests.gateway.rig import STILL
from tests.support.waiting import until

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.manager import LinkManager
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import AlreadyExists, Damaged, NotAllowed, StorageUnavailable, UnknownStream
from fairlead.model.names import StreamPath
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.wire.control import ReaderHello


async def test_a_resume_is_heard_though_the_contact_in_flight_stops_the_link() -> None:
    """It was said after the destination had answered what stops the link: the link asks once more."""
    destination = Destination([ANSWER, ANOTHER, ANSWER])
    async with source(destination) as sf:
        await sf.links.add_replica(SHIPS, REPLICA, urls=URLS)
        await until(lambda: destination.contacts == 1)
        destination.open.clear()
        await sf.links.pause(SHIPS, REPLICA)
        await sf.links.resume(SHIPS, REPLICA)
        await until(lambda: destination.contacts == 2)
        await sf.links.resume(SHIPS, REPLICA)
        destination.open.set()
        await until(lambda: destination.contacts == 3)
        await until(lambda: not sf.error())


@pytest.mark.parametrize("pause", [True, False])
async def test_a_link_that_is_paused_while_its_answer_is_heard_is_given_to_nobody(
    monkeypatch: pytest.MonkeyPatch, *, pause: bool
) -> None:
    """What the destination says of owners is written down first, which takes a commit."""
    destination = Destination()
    async with source(destination) as sf:
        stream = sf.cluster.stream(SHIPS)
        await stream.create_topic("a", 1)
        _, topic = stream.topic("a")
        destination.answers = [replace(ANSWER, superseded=(replace(payload_of(topic), ext={}),))]
        submit, asked, go_on = stream.shards[0].submit, asyncio.Event(), asyncio.Event()

        async def later(request: DraftRequest[None], size_bytes: int = 0) -> None:
            asked.set()
            await go_on.wait()
            await submit(request, size_bytes)

        monkeypatch.setattr(stream.shards[0], "submit", later)
        sf.manager.tasks.reader_joined(sf.manager.tasks.new_reader(ReaderHello("w", 1)))
        link = await sf.links.add_replica(SHIPS, REPLICA, urls=URLS)
        await until(asked.is_set)
        if pause:
            await sf.links.pause(SHIPS, REPLICA)
        go_on.set()
        running = sf.manager.running.get(link.id)
        assert running is not None
        await until(lambda: running.heard)
        assert bool(sf.manager.table.of(link.id)) is not pause


async def test_a_failed_copy_ends_also_when_its_end_cannot_be_written_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for it is told, once the disk takes it."""
    destination = Destination([NotAllowed("not here")])
    async with source(destination) as sf:
        remove, failures = sf.cluster.links.remove, [StorageUnavailable("the disk is away")]

        async def remove_later(link: bytes) -> None:
            if failures:
                raise failures.pop()
            await remove(link)

        monkeypatch.setattr(sf.cluster.links, "remove", remove_later)
        await sf.copies.begin(SHIPS, REPLICA, URLS)
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "failed")
        assert sf.copies.status(SHIPS, REPLICA)["error"] == "not here"
        assert sf.cluster.links.all() == []


async def test_two_calls_for_the_same_copy_at_once_begin_one() -> None:
    """Two copies to one replica would stand aside for each other for ever."""
    destination = Destination()
    async with source(destination) as sf:
        destination.open.clear()
        calls = [asyncio.ensure_future(sf.copies.begin(SHIPS, REPLICA, URLS)) for _ in range(2)]
        await until(lambda: "/gateway/copy" in destination.asked)
        destination.open.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [LinkRecord, AlreadyExists]
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")
        assert destination.asked.count("/gateway/copy") == 1


async def test_a_copy_that_could_not_begin_can_begin_later() -> None:
    """What failed on the way leaves nothing that refuses the next call."""
    destination = Destination()
    async with source(destination) as sf:
        with pytest.raises(NotAllowed, match="copied into itself"):
            await sf.copies.begin(SHIPS, StreamPath(SHIPS))
        await sf.copies.begin(SHIPS, REPLICA, URLS)
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")
        await sf.copies.begin(SHIPS, REPLICA, URLS)
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")


async def test_a_copy_whose_link_cannot_be_recorded_leaves_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """The destination would keep it for ever."""
    destination = Destination()
    async with source(destination) as sf:
        add, failures = sf.cluster.links.add, [StorageUnavailable("the disk is away")]

        async def add_later(link: LinkRecord) -> LinkRecord:
            if failures:
                raise failures.pop()
            return await add(link)

        monkeypatch.setattr(sf.cluster.links, "add", add_later)
        with pytest.raises(StorageUnavailable, match="the disk is away"):
            await sf.copies.begin(SHIPS, REPLICA, URLS)
        assert destination.asked == ["/gateway/copy", "/gateway/copy/end"]
        await sf.copies.begin(SHIPS, REPLICA, URLS)
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")


class Records:
    """A cluster of which only the records of links are there; the source's stream is gone, so every link rests."""

    def __init__(self) -> None:
        self.links = self
        self.name, self.urls = "sf", ()
        self.clock = SystemClock()
        self.damaged: dict[str, Damaged] = {}
        self.meta = SimpleNamespace(epoch=SimpleNamespace(number=1))
        self.looks = 0
        self._records: list[LinkRecord] = []
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def change(self, *records: LinkRecord) -> None:
        """These are the records now, and whoever listens is told."""
        self._records = list(records)
        for listener in self._listeners:
            listener()

    def all(self) -> list[LinkRecord]:
        return self._records

    def streams(self) -> list[object]:
        return []

    def stream_by_id(self, stream: bytes) -> None:
        self.looks += 1

    def stream_of(self, stream: bytes, path: str) -> NoReturn:
        self.looks += 1
        raise UnknownStream(path)

    def urls_at(self, path: StreamPath, noted: tuple[str, ...]) -> tuple[str, ...]:
        return noted


@pytest.mark.parametrize("turns", range(6))
async def test_a_link_that_is_removed_while_it_is_roused_ends(turns: int) -> None:
    """However many turns of the event loop lie between the two."""
    records = Records()
    links = LinkManager(
        cast(Cluster, records), cast(httpx.AsyncClient, None), SystemClock(), SystemRandomness(), timing=STILL
    )
    links.start()
    one = LinkRecord(b"l" * 16, b"s" * 16, SHIPS, REPLICA, URLS, paused=False, created_at=1)
    records.change(one)
    await until(lambda: records.looks)
    records.change(LinkRecord(one.id, one.source, SHIPS, REPLICA, ("http://other",), paused=False, created_at=1))
    for _ in range(turns):
        await asyncio.sleep(0)
    records.change()
    looks = records.looks
    await asyncio.sleep(STILL.backoff_max_s * 2)
    assert records.looks == looks
    await links.close()
