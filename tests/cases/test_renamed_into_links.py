"""A topic gets a name that a link brings, and its past comes; or one that it leaves out, and it is fed no more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster import side_copies
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.grants.granting import Granting
from fairlead.streamlog.writing.draft import Draft
from tests.cases.fleet import SHIPS, alike, ends_of_logs, fleet, held, path_at, up_to_date
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import a_quiet_while, until


async def feed(source: Site, replica: Site, topics: str | None = None) -> None:
    """A link that brings these topics, named on both sides."""
    await replica.links.add_upstream(SHIPS, path_at(source))
    await source.links.add_replica(SHIPS, path_at(replica), urls=replica.urls, topics=topics)


def stream(site: Site) -> Stream:
    return site.cluster.stream(SHIPS)


async def has(site: Site, topics: Mapping[str, Sequence[bytes]]) -> None:
    """Wait until a site holds these records and no other."""
    wanted = {name: list(values) for name, values in topics.items()}
    await until(lambda: {name: list(each.values.values()) for (name, _), each in held(site).items()} == wanted)


async def test_a_silent_topic_that_gets_a_name_of_the_link_comes_whole(tmp_path: Path) -> None:
    """Its last record was passed long ago, and no other comes. Then all is at rest."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await feed(sf, ny, "told.*")
        for name in ("told", "secret"):
            await sf.write(SHIPS, name, b"1", b"2")
        await has(ny, {"told": [b"1", b"2"]})
        await until(lambda: up_to_date(sf))
        await stream(sf).rename_topic("secret", "told-now")
        await has(ny, {"told": [b"1", b"2"], "told-now": [b"1", b"2"]})
        await sf.write(SHIPS, "told-now", b"3")
        await alike(sf, ny)
        before = ends_of_logs(sf, ny)
        await a_quiet_while()
        assert ends_of_logs(sf, ny) == before


async def test_a_topic_that_loses_its_name_of_the_link_is_left_as_it_is_and_may_come_back(tmp_path: Path) -> None:
    """As where a filter is narrowed: the link is neither behind nor pending, and what was written meanwhile comes when
    the topic has such a name again, silent or not."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await feed(sf, ny, "told.*")
        await sf.write(SHIPS, "told", b"1")
        await has(ny, {"told": [b"1"]})
        await stream(sf).rename_topic("told", "secret")
        await sf.write(SHIPS, "secret", b"2")
        await sf.write(SHIPS, "told-too", b"1")
        await has(ny, {"told": [b"1"], "told-too": [b"1"]})
        await until(lambda: up_to_date(sf))
        assert sf.links.list(SHIPS)[0]["partitionsBehind"] == 0
        await stream(sf).rename_topic("secret", "told-again")
        await has(ny, {"told-again": [b"1", b"2"], "told-too": [b"1"]})
        await alike(sf, ny)


@pytest.mark.parametrize("dies", ["before the link reads it", "before it is brought"])
async def test_a_rename_into_a_link_is_not_forgotten_by_a_restart(tmp_path: Path, dies: str) -> None:
    """The row with the name says all that is needed; and what the replica took of it is its note."""
    async with Site("ny", tmp_path) as ny:
        async with Site("sf", tmp_path) as sf, task(sf):
            for site in (sf, ny):
                await site.stream(SHIPS)
            for name in ("told", "secret"):
                await sf.write(SHIPS, name, b"1", b"2")
            await feed(sf, ny, "told.*")
            await has(ny, {"told": [b"1", b"2"]})
            await until(lambda: up_to_date(sf))
        async with Site("sf", tmp_path) as sf:
            await stream(sf).rename_topic("secret", "told-now")
            if dies == "before it is brought":
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(Granting, "repair", lambda *_, **__: False)
                    async with task(sf):
                        await until(lambda: ny.ends(SHIPS) == {"told": 2, "told-now": 0})
        assert ny.ends(SHIPS) == {"told": 2} | ({} if "reads" in dies else {"told-now": 0})
    async with Site("ny", tmp_path, port=ny.port) as ny, Site("sf", tmp_path) as sf, task(sf):
        await alike(sf, ny)


async def test_a_rename_reaches_all_links_and_what_lies_behind_them(tmp_path: Path) -> None:
    """a feeds b with everything and c with some; b feeds d with some; d, which is a master of its own, feeds a."""
    async with fleet(tmp_path, "a", "b", "c", "d") as (a, b, c, d):
        await feed(a, b)
        await feed(a, c, "x.*")
        await feed(b, d, "x.*|y.*")
        await feed(d, a, "x.*")
        await a.write(SHIPS, "t", b"1")
        await d.write(SHIPS, "u", b"1")
        await has(b, {"t": [b"1"]})
        await until(lambda: all(map(up_to_date, (a, b, d))))
        await stream(a).rename_topic("t", "x-t")
        await stream(d).rename_topic("u", "x-u")
        every = {"x-t": [b"1"], "x-u": [b"1"]}
        for site in (a, b, c, d):
            await has(site, every)
        await stream(a).rename_topic("x-t", "y-t")
        await a.write(SHIPS, "y-t", b"2")
        await has(b, {"y-t": [b"1", b"2"], "x-u": [b"1"]})
        await has(d, {"y-t": [b"1", b"2"], "x-u": [b"1"]})
        await has(c, every)


@pytest.mark.parametrize(("before", "after"), [("none", "both"), ("next", "both"), ("both", "next"), ("none", "next")])
@pytest.mark.parametrize("at", ["begun", "closed"])
async def test_a_rename_while_topics_come_into_a_link_loses_nothing(
    tmp_path: Path, before: str, after: str, at: str
) -> None:
    """The link has the one filter, its side copy the next; the topic goes from hand to hand, and is silent."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await feed(sf, ny, "both.*")
        await sf.write(SHIPS, before, b"1", b"2")
        await sf.write(SHIPS, "both-other", b"1")
        await until(lambda: up_to_date(sf) and "both-other" in ny.ends(SHIPS))
        with pytest.MonkeyPatch.context() as patch:
            if at == "closed":
                close = side_copies.close

                def closing(draft: Draft, **given: Any) -> None:
                    close(draft, **given)
                    closed.set()

                closed = asyncio.Event()
                patch.setattr(side_copies, "close", closing)
            await sf.links.edit_replica(SHIPS, path_at(ny), topics="both.*|next.*")
            if at == "closed":
                await closed.wait()
            await stream(sf).rename_topic(before, f"{after}-now")
            await has(ny, {f"{after}-now": [b"1", b"2"], "both-other": [b"1"]})
        await sf.write(SHIPS, f"{after}-now", b"3")
        await alike(sf, ny)
