"""Chains, rings, meshes, copies inside one cluster, destinations that come and go: all hold the same at the end."""

from __future__ import annotations

import asyncio
from itertools import permutations
from pathlib import Path

from fairlead.model.names import StreamPath
from tests.cases.fleet import SHIPS, alike, ends_of_logs, fleet, held, link, path_at
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import a_quiet_while, until


async def change_everything(site: Site) -> None:
    """Topics made, written, given partitions, deleted, made again and written."""
    stream = site.cluster.stream(SHIPS)
    for name in ("a", "b", "c"):
        for number in range(5):
            await site.write(SHIPS, f"{site.name}-{name}", b"%d" % number, b"more")
    await stream.set_partitions(f"{site.name}-a", 3)
    await site.write(SHIPS, f"{site.name}-a", b"in a new partition", partition=2)
    await stream.delete_topic(f"{site.name}-b")
    await stream.create_topic(f"{site.name}-b", 2)
    await site.write(SHIPS, f"{site.name}-b", b"a new life", partition=1)
    await stream.delete_topic(f"{site.name}-c")


async def test_a_chain_passes_on_all_that_happens(tmp_path: Path) -> None:
    """A to B to C, while topics come, grow, go and come again."""
    async with fleet(tmp_path, "a", "b", "c") as (a, b, c):
        await change_everything(a)
        await link(a, b)
        await link(b, c)
        for number in range(10):
            await a.write(SHIPS, "steady", b"%d" % number)
        await a.cluster.stream(SHIPS).delete_topic("a-a")
        await a.write(SHIPS, "a-a", b"third life")
        await alike(a, b, c)
        assert held(c)["a-a", 0].values == {0: b"third life"}
        assert ("a-c", 0) not in held(c)


async def test_a_ring_brings_all_to_all_and_comes_to_rest(tmp_path: Path) -> None:
    """A to B to C to A, each with topics of its own: nothing goes round for ever, not even a commit."""
    async with fleet(tmp_path, "a", "b", "c") as (a, b, c):
        for source, replica in ((a, b), (b, c), (c, a)):
            await link(source, replica)
        await asyncio.gather(*map(change_everything, (a, b, c)))
        await alike(a, b, c)
        assert {name for name, _ in held(a)} == {f"{site}-{name}" for site in "abc" for name in "ab"}
        rest = ends_of_logs(a, b, c)
        await a_quiet_while()
        assert ends_of_logs(a, b, c) == rest


async def test_a_mesh_that_merges_all_the_time_comes_to_be_up_to_date(tmp_path: Path) -> None:
    """Positions alone follow the last record, and are merged with it: nothing stays pending for that."""
    async with fleet(tmp_path, "a", "b", "c", merge_commits_min=1, merge_interval_seconds=0.05) as (a, b, c):
        for source, replica in permutations((a, b, c), 2):
            await link(source, replica)
        await asyncio.gather(*map(change_everything, (a, b, c)))
        await alike(a, b, c)
        logs = [site.cluster.stream(SHIPS).shards[0].announced for site in (a, b, c)]
        await until(lambda: all(log.manifest.merged_end == log.end for log in logs))
        await alike(a, b, c)


async def test_two_paths_to_one_place_bring_each_record_once(tmp_path: Path) -> None:
    """A to B to D and A to C to D; then one of the two is cut, and the other goes on alone."""
    async with fleet(tmp_path, "a", "b", "c", "d") as (a, b, c, d):
        for source, replica in ((a, b), (a, c), (b, d), (c, d)):
            await link(source, replica)
        await change_everything(a)
        await alike(a, b, c, d)
        await b.links.pause(SHIPS, path_at(d))
        for number in range(10):
            await a.write(SHIPS, "later", b"%d" % number)
        await alike(a, c, d)
        await b.links.resume(SHIPS, path_at(d))
        await alike(a, b, c, d)


async def test_one_cluster_replicates_into_itself(tmp_path: Path) -> None:
    """Two copies of a stream in its own cluster, one of them a copy of the copy."""
    async with fleet(tmp_path, "a") as (a,):
        await change_everything(a)
        await a.links.autosetup(SHIPS, StreamPath("/copy"))
        await a.links.autosetup("/copy", StreamPath("/copy-of-the-copy"))
        await a.write(SHIPS, "later", b"1")
        await until(lambda: a.ends("/copy-of-the-copy") == a.ends("/copy") == a.ends(SHIPS))
        await until(lambda: a.links.list(SHIPS)[0]["isUptodate"] and a.links.list("/copy")[0]["isUptodate"])
        assert held(a) == held(a, "/copy") == held(a, "/copy-of-the-copy")


async def test_a_destination_that_was_away_gets_all_and_keeps_no_other_waiting(tmp_path: Path) -> None:
    """It stops, the source goes on for two others, it comes back at its address; nothing is missing or double."""
    async with fleet(tmp_path, "a", "b", "c") as (a, b, c):
        away = Site("away", tmp_path)
        async with away:
            await away.stream(SHIPS)
            for replica in (b, c, away):
                await link(a, replica)
            await a.write(SHIPS, "t", b"before")
            await alike(a, b, c, away)
        await change_everything(a)
        await until(lambda: held(a) == held(b) == held(c))
        async with Site("away", tmp_path, port=away.port) as back, task(back):
            await alike(a, b, c, back)


async def test_topics_change_while_the_destination_is_away(tmp_path: Path) -> None:
    """Deleted and made again meanwhile: the old life goes, the new one comes, offsets begin at 0."""
    async with fleet(tmp_path, "a") as (a,):
        away = Site("away", tmp_path)
        async with away:
            await away.stream(SHIPS)
            await link(a, away)
            await a.write(SHIPS, "t", b"old", b"old")
            await a.write(SHIPS, "gone", b"x")
            await alike(a, away)
        stream = a.cluster.stream(SHIPS)
        for name in ("t", "gone"):
            await stream.delete_topic(name)
        await stream.create_topic("t", 2)
        await a.write(SHIPS, "t", b"new", partition=1)
        async with Site("away", tmp_path, port=away.port) as back:
            await alike(a, back)
            assert {key: found.values for key, found in held(back).items()} == {("t", 0): {}, ("t", 1): {0: b"new"}}
