"""Topics that come into a link while it runs: their past comes by a side copy, once, whatever happens on the way."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairlead.cluster import side_copies
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.contacting import widening
from fairlead.model.errors import AlreadyExists, StorageUnavailable
from fairlead.storage.interface import Storage
from fairlead.storage.local import ReadOnlyLocalStorage
from fairlead.streamlog.writing.draft import Draft
from tests.cases.fleet import SHIPS, alike, ends_of_logs, fleet, held, path_at, up_to_date
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import a_quiet_while, until


async def feed(source: Site, replica: Site, topics: str) -> None:
    """A link that brings these topics, named on both sides."""
    await replica.links.add_upstream(SHIPS, path_at(source))
    await source.links.add_replica(SHIPS, path_at(replica), urls=replica.urls, topics=topics)


def records(site: Site) -> list[LinkRecord]:
    """Of all links, side copies too; the link that was made first comes first."""
    return sorted(site.cluster.links.all(), key=lambda each: each.side_copy is not None)


@asynccontextmanager
async def prepared(folder: Path) -> AsyncIterator[Site]:
    """ny, which has had the topic `fed` of sf's from sf for long, and not `silent`; sf is down."""
    async with Site("ny", folder) as ny:
        async with Site("sf", folder) as sf, task(sf):
            for site in (sf, ny):
                await site.stream(SHIPS)
            for name in ("fed", "silent"):
                await sf.write(SHIPS, name, b"1", b"2")
            await feed(sf, ny, "fed")
            await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"fed": 2})
        yield ny


@pytest.mark.parametrize("step", ["begun", "closed", "told"])
async def test_crash_at_every_step_of_the_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Whoever finds the records goes on with the next step, also after the replica was told and nothing written down.
    Nobody waits for what does not come, and nothing is missing or double."""
    async with prepared(tmp_path) as ny:
        async with Site("sf", tmp_path) as sf:
            await sf.links.edit_replica(SHIPS, path_at(ny), topics="fed|silent")
            main, side = records(sf)
            assert main.filter_next is not None
            assert main.filter_next.side == side.id
            if step != "begun":  # both are known not to be far apart
                await until(lambda: bool(records(sf)[0].until))
                assert records(sf)[0].until == records(sf)[1].until
            assert ny.ends(SHIPS) == {"fed": 2}
        if step == "told":
            told: list[bytes] = []

            def die(draft: Draft, *, link: bytes, side: bytes, until: tuple[int, ...]) -> None:
                told.append(side)
                raise StorageUnavailable("the process has died")

            with monkeypatch.context() as patch:
                patch.setattr(side_copies, "end", die)
                async with Site("sf", tmp_path) as sf, task(sf):
                    await until(lambda: bool(told))
        async with Site("sf", tmp_path) as sf, task(sf):
            await alike(sf, ny)
            (link,) = records(sf)
            assert (link.topics, link.filter_next) == ("fed|silent", None)
            for name in ("fed", "silent"):
                await sf.write(SHIPS, name, b"3")
            await alike(sf, ny)
            before = ends_of_logs(sf, ny)
            await a_quiet_while()
            assert ends_of_logs(sf, ny) == before


async def test_what_is_written_meanwhile_comes_too(tmp_path: Path) -> None:
    """To topics that the link brings, to those that come in, and to new ones, through all steps."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        for number in range(20):
            await sf.write(SHIPS, f"t{number}", b"0")
        await feed(sf, ny, "t1.*")
        await until(lambda: up_to_date(sf) and len(ny.ends(SHIPS)) == 11)
        for step in range(4):
            for number in range(20 + step):
                await sf.write(SHIPS, f"t{number}", b"%d" % step)
            await sf.links.edit_replica(SHIPS, path_at(ny), topics=["t1.*|t2.*", "t.*", "t1.*", None][step])
            for number in range(20 + step):
                await sf.write(SHIPS, f"t{number}", b"meanwhile")
        await alike(sf, ny)


async def test_a_replica_that_was_restored_gets_what_came_in_again(tmp_path: Path) -> None:
    """From a copy of before: it does not know the link by the id that it has had since, so all is read again."""
    async with Site("sf", tmp_path) as sf:
        await sf.stream(SHIPS)
        async with Site("ny", tmp_path) as ny:
            await ny.stream(SHIPS)
            async with task(sf):
                for name in ("fed", "silent"):
                    await sf.write(SHIPS, name, b"1")
                await feed(sf, ny, "fed")
                await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"fed": 1})
            await asyncio.to_thread(shutil.copytree, tmp_path / "ny", tmp_path / "yesterday" / "ny")
            async with task(sf):
                await sf.links.edit_replica(SHIPS, path_at(ny), topics=None)
                await alike(sf, ny)
            port = ny.port
        async with Site("ny", tmp_path / "yesterday", port=port) as ny, task(sf):
            await sf.write(SHIPS, "fed", b"2")
            await alike(sf, ny)


async def test_what_is_set_aside_on_the_way_is_shown_afterwards(tmp_path: Path) -> None:
    """The replica has another topic of the name. The others come."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        for name in ("fed", "both", "silent"):
            await sf.write(SHIPS, name, b"1")
        await ny.write(SHIPS, "both", b"mine")
        await feed(sf, ny, "fed")
        await until(lambda: up_to_date(sf) and ("fed", 0) in held(ny))
        await sf.links.edit_replica(SHIPS, path_at(ny), topics=None)
        await until(lambda: len(records(sf)) == 1 and ("silent", 0) in held(ny))
        await until(lambda: sf.links.list(SHIPS)[0]["conflicts"] == 1)
        assert held(ny)["both", 0].values == {0: b"mine"}


async def test_a_topic_that_comes_in_has_the_prefix_that_the_link_has_by_then(tmp_path: Path) -> None:
    """Though it was told to come in before that."""
    async with prepared(tmp_path) as ny, Site("sf", tmp_path) as sf:
        await sf.links.edit_replica(SHIPS, path_at(ny), topics="fed|silent")
        await sf.links.edit_replica(SHIPS, path_at(ny), prefix="sf.")
        async with task(sf):
            await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"fed": 2, "sf.silent": 2})


async def test_what_is_done_to_a_link_holds_of_what_comes_into_it(tmp_path: Path) -> None:
    """It is shown how far that is; it stands still while the link does; another filter begins anew, one that leaves
    out more ends it; it goes with the link."""
    async with prepared(tmp_path) as ny, Site("sf", tmp_path) as sf:
        there = path_at(ny)
        await sf.links.edit_replica(SHIPS, there, topics="fed|silent")
        (row,) = sf.links.list(SHIPS)
        assert row["comingIn"]["topics"] == "fed|silent"
        assert (row["topics"], row["isUptodate"]) == ("fed", False)
        with pytest.raises(AlreadyExists, match="just coming into the link"):
            await sf.copies.begin(SHIPS, there, ny.urls)
        await sf.links.pause(SHIPS, there)
        assert [each.paused for each in records(sf)] == [True, True]
        first = records(sf)[1].id
        await sf.links.edit_replica(SHIPS, there, topics="fed|silent")
        assert records(sf)[1].id == first
        await sf.links.edit_replica(SHIPS, there, topics="fed|s.*")
        assert records(sf)[1].id != first
        await sf.links.edit_replica(SHIPS, there, topics="fed", exclude_topics="x")
        assert [(each.exclude_topics, each.filter_next) for each in records(sf)] == [("x", None)]
        await sf.links.edit_replica(SHIPS, there, topics=None)
        assert len(records(sf)) == 2
        await sf.links.remove(SHIPS, there)
        assert records(sf) == []


async def test_the_past_of_many_topics_is_one_pass_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one for each topic: each byte of the log is read once, or little more. What is read when the side copy is
    near may be read again; here that is nothing."""
    monkeypatch.setattr(widening, "NEAR_COMMITS", 0)
    read: list[int] = []

    class Counting(ReadOnlyLocalStorage):
        def get(self, name: str) -> bytes:
            return counted(super().get(name))

        def get_unchecked(self, name: str) -> bytes:
            return counted(super().get_unchecked(name))

        def get_range(self, name: str, start: int, length: int) -> bytes:
            return counted(super().get_range(name, start, length))

        def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
            return [counted(each) for each in super().get_ranges(name, ranges)]

    def counted(data: bytes) -> bytes:
        read.append(len(data))
        return data

    def opened(root: str) -> Storage:
        return Counting(Path(root))

    async with Site("sf", tmp_path) as sf, Site("ny", tmp_path) as ny:
        for site in (sf, ny):
            await site.stream(SHIPS)
        stream = sf.cluster.stream(SHIPS)
        for number in range(200):
            await stream.create_topic(f"t{number}")
            await sf.write(SHIPS, f"t{number}", bytes(10_000))
        async with task(sf, open_objects=opened):
            await feed(sf, ny, "t0")
            await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"t0": 1})
            read.clear()
            await sf.links.edit_replica(SHIPS, path_at(ny), topics=None)
            await alike(sf, ny)
        assert 200 * 10_000 < sum(read) < 1.2 * 200 * 10_000
