"""Links whose destination is not where the source thinks it is, and repairs that race with the traffic."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.gateway.rig import FAST, Site
from tests.gateway.tasks import task
from tests.support.waiting import a_quiet_while, until

from fairlead.gateway.links.running.lifecycle import State
from fairlead.replication.sink.task import SinkTask
from fairlead.spark.packets import Packet
from fairlead.streamlog.frames.codec import decode_frame

SHIPS = "/ships"


async def link(source: Site, replica: Site) -> None:
    """A link between their streams, named on both sides."""
    await replica.links.add_upstream(SHIPS, source.cluster.global_path(SHIPS))
    await source.links.add_replica(SHIPS, replica.cluster.global_path(SHIPS), urls=replica.urls)


async def test_a_replica_restored_from_an_older_copy_gets_what_it_lost(tmp_path: Path) -> None:
    """The source remembers higher positions than the replica now has; what the replica says is what counts."""
    async with Site("sf", tmp_path) as sf:
        await sf.stream(SHIPS)
        async with Site("ny", tmp_path) as ny:
            await ny.stream(SHIPS)
            async with task(sf):
                await link(sf, ny)
                await sf.write(SHIPS, "a", b"0")
                await until(lambda: ny.end(SHIPS, "a") == 1)
            await asyncio.to_thread(shutil.copytree, tmp_path / "ny", tmp_path / "yesterday" / "ny")
            async with task(sf):
                await sf.write(SHIPS, "a", b"1")
                await sf.write(SHIPS, "b", b"0")
                await until(lambda: (ny.end(SHIPS, "a"), ny.end(SHIPS, "b")) == (2, 1))
            port = ny.port
        async with Site("ny", tmp_path / "yesterday", port=port) as ny:
            async with task(sf, "a round that began by what the source remembers"):
                await sf.write(SHIPS, "c", b"0")
                await until(lambda: ny.end(SHIPS, "c") == 1)
            async with task(sf, "the next round"):
                await until(lambda: ny.ends(SHIPS) == {"a": 2, "b": 1, "c": 1})
                await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"])


async def test_an_idle_link_notices_a_destination_that_was_restored(tmp_path: Path) -> None:
    """Nothing is written and no task runs, so nothing else could tell: the source knows anew what the replica lacks."""
    timing = replace(FAST, pulse_s=0.05)
    async with Site("sf", tmp_path, timing) as sf:
        await sf.stream(SHIPS)
        async with Site("ny", tmp_path) as ny:
            await ny.stream(SHIPS)
            async with task(sf):
                await link(sf, ny)
                await sf.write(SHIPS, "a", b"0")
                await until(lambda: ny.end(SHIPS, "a") == 1)
            await asyncio.to_thread(shutil.copytree, tmp_path / "ny", tmp_path / "yesterday" / "ny")
            async with task(sf):
                await sf.write(SHIPS, "a", b"1", b"2")
                await until(lambda: ny.end(SHIPS, "a") == 3)
                await until(lambda: sf.links.list(SHIPS)[0].row()["putsPending"] == 0)
            port = ny.port
        async with Site("ny", tmp_path / "yesterday", port=port) as ny:
            await until(lambda: sf.links.list(SHIPS)[0].row()["putsPending"] == 2)
            # The link itself may have asked, as nobody answered it, before the pulse finds the new start.
            await until(lambda: has_found(sf, ny))
            asked = sf.manager.contacts.count
            await a_quiet_while()
            assert sf.manager.contacts.count == asked, "it asks once for each start"
            async with task(sf):
                await until(lambda: ny.end(SHIPS, "a") == 3)


def has_found(source: Site, replica: Site) -> bool:
    """The pulse has heard of the replica's present start, and the only link has asked since where it stands."""
    (running,) = source.manager.running
    heard = source.manager.pulse._starts.values()  # noqa: SLF001 - whether it has beaten, no face shows
    return replica.cluster.meta.epoch.id in {each.start for each in heard} and running.state is State.READY


@asynccontextmanager
async def traffic(site: Site, topic: str, every_seconds: float) -> AsyncIterator[None]:
    """A record every so often."""

    async def go_on() -> None:
        while True:
            await site.write(SHIPS, topic, b"x")
            await asyncio.sleep(every_seconds)

    writing = asyncio.ensure_future(go_on())
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


@asynccontextmanager
async def slow_to_connect(site: Site, delay_seconds: float) -> AsyncIterator[None]:
    """A task whose repairs, each on a connection of its own, come later than what was already flowing."""
    loop = asyncio.get_running_loop()
    delayed: list[asyncio.TimerHandle] = []

    def keep(frame: Packet) -> bool:
        if decode_frame(frame.data).repair is None:
            return True
        delayed.append(loop.call_later(delay_seconds, sinks[0].offer, frame))
        return False

    sinks: list[SinkTask] = []
    async with task(site, keep=keep, sinks=sinks):
        yield
    for timer in delayed:
        timer.cancel()


async def test_a_repair_ends_though_records_keep_coming(tmp_path: Path) -> None:
    """The name that the source's topic waited for becomes free; from then on the replica must catch up, also where a
    new connection takes longer than the time between two records, as over any satellite."""
    async with Site("sf", tmp_path) as sf, Site("ny", tmp_path) as ny, slow_to_connect(sf, 0.3):
        await sf.stream(SHIPS)
        await ny.stream(SHIPS)
        await ny.write(SHIPS, "busy", b"of another")
        await link(sf, ny)
        async with traffic(sf, "busy", 0.02):
            notes = ny.cluster.stream(SHIPS).shards[0].state.all_notes
            await until(notes)
            await ny.cluster.stream(SHIPS).delete_topic("busy")
            await until(lambda: not notes())
            end = sf.end(SHIPS, "busy")
            await until(lambda: ny.end(SHIPS, "busy") >= end)
