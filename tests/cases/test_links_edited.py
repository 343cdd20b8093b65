"""Options of a link changed while it runs: readers are told at once, and nothing is missing or double after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from fairlead.gateway.links.errors import StreamChanged
from fairlead.model.errors import AlreadyExists, NotAgreed, UnknownCluster
from fairlead.model.names import StreamPath
from fairlead.streamlog.requests.ownership import take_over
from tests.cases.fleet import SHIPS, alike, fleet, held, link, path_at, up_to_date
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import until


async def test_what_a_link_passed_over_comes_once_it_sends_all_on(tmp_path: Path) -> None:
    """A to B to C, where B sent on its own records only; a topic of A that nobody writes any more comes too. Then it is
    turned back: what A writes from then on stays at B."""
    async with fleet(tmp_path, "a", "b", "c") as (a, b, c):
        await link(a, b)
        await c.links.add_upstream(SHIPS, path_at(b))
        await b.links.add_replica(SHIPS, path_at(c), urls=c.urls, forward="own")
        await a.write(SHIPS, "silent", b"1")
        await b.write(SHIPS, "own", b"1")
        await until(lambda: up_to_date(a) and up_to_date(b) and ("own", 0) in held(c))
        assert ("silent", 0) not in held(c)
        await b.links.edit_replica(SHIPS, path_at(c), forward="all")
        await alike(b, c)
        await b.links.edit_replica(SHIPS, path_at(c), forward="own")
        await a.write(SHIPS, "silent", b"2")
        await until(lambda: held(b)["silent", 0].end == 2)
        await b.write(SHIPS, "own", b"2")
        await until(lambda: held(c)["own", 0].end == 2)
        assert held(c)["silent", 0].end == 1


async def test_a_replica_that_moved_to_another_address_is_found_there(tmp_path: Path) -> None:
    """The link goes on where it stood. An address at which another stream is, another cluster, or none that agreed is
    refused, and the link stays as it is."""
    async with fleet(tmp_path, "a", "b") as (a, b):
        moving = Site("moving", tmp_path)
        async with moving:
            await moving.stream(SHIPS)
            await link(a, moving)
            await a.write(SHIPS, "t", b"before")
            await alike(a, moving)
        await a.write(SHIPS, "t", b"meanwhile")
        async with Site("moving", tmp_path) as moved, task(moved):
            there = path_at(moved)
            await moved.stream("/other")
            with pytest.raises(NotAgreed):
                await a.links.move_replica(SHIPS, there, StreamPath("/other", "moving"), moved.urls)
            await moved.links.add_upstream("/other", path_at(a))
            with pytest.raises(StreamChanged, match="another stream than the one that this link feeds"):
                await a.links.move_replica(SHIPS, there, StreamPath("/other", "moving"), moved.urls)
            await b.links.add_upstream(SHIPS, path_at(a))
            with pytest.raises(UnknownCluster, match="is of cluster b"):
                await a.links.move_replica(SHIPS, there, there, b.urls)
            await a.links.add_replica(SHIPS, path_at(b), urls=b.urls, paused=True)
            with pytest.raises(AlreadyExists):
                await a.links.move_replica(SHIPS, there, path_at(b), b.urls)
            await a.links.remove(SHIPS, path_at(b))
            await a.links.move_replica(SHIPS, there, there, moved.urls)
            await alike(a, moved)
            assert a.links.list(SHIPS)[0]["duplicates"] == 0


async def test_a_copy_beside_a_link_brings_what_the_link_does(tmp_path: Path) -> None:
    """It moves the link's positions, so it has the link's options: here only what was first written at the source."""
    async with fleet(tmp_path, "a", "b", "c") as (a, b, c):
        await link(a, b)
        await a.write(SHIPS, "relayed", b"1")
        await b.write(SHIPS, "own", b"1")
        await until(lambda: ("relayed", 0) in held(b))
        await c.links.add_upstream(SHIPS, path_at(b))
        await b.links.add_replica(SHIPS, path_at(c), urls=c.urls, paused=True, forward="own")
        await b.copies.begin(SHIPS, path_at(c), c.urls)
        await until(lambda: b.copies.status(SHIPS, path_at(c))["state"] == "done")
        assert {name for name, _ in held(c)} == {"own"}
        await b.links.resume(SHIPS, path_at(c))
        await b.write(SHIPS, "own", b"2")
        await until(lambda: held(c)["own", 0].end == 2)
        assert b.links.list(SHIPS)[0]["duplicates"] == 0


async def test_a_replica_s_word_for_owners_counts_as_long_as_the_link_says_so(tmp_path: Path) -> None:
    """Of a link in one direction. What the replica took over stays the source's own there while its word does not
    count, though it was told; it is the replica's as soon as it counts, though nobody writes any more."""
    async with fleet(tmp_path, "a", "b") as (a, b):
        await link(a, b)
        await a.write(SHIPS, "t", b"1")
        await alike(a, b)
        await a.links.edit_replica(SHIPS, path_at(b), ownership=False)
        await taken_over(b, "t")
        with capture_logs() as logs:
            await a.write(SHIPS, "t", b"late")
            await until(lambda: any("ownership-claim refused" in line["event"] for line in logs))
        assert owner(a, "t") == str(path_at(a))
        await a.links.edit_replica(SHIPS, path_at(b), ownership=True)
        await until(lambda: owner(a, "t") == str(path_at(b)))
        assert a.end(SHIPS, "t") == 1


def owner(site: Site, topic: str) -> str:
    """Path of the stream that owns a topic, by what this site knows."""
    stream = site.cluster.stream(SHIPS)
    return stream.owner_path(stream.topic(topic)[1])


async def taken_over(site: Site, topic: str) -> None:
    """The topic belongs to this site from here on, whoever had it."""
    stream = site.cluster.stream(SHIPS)
    shard = stream.shard_for(topic)
    await shard.submit(
        lambda draft: take_over(draft, topic, owner_at=stream.global_path, writer_epoch_id=shard.epoch.id)
    )
