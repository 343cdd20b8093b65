"""`-from now`: a replica that begins at what is written from now on, and never gets the past."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairlead.gateway.links.orders.transfer import TransferOptions
from fairlead.streamlog.reading import slices
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.values import PartitionState
from tests.cases.fleet import SHIPS, alike, ends_of_logs, fleet, held, link, path_at, up_to_date
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import a_quiet_while, until


async def follow(source: Site, replica: Site, **options: Any) -> None:
    """A link from now on, named on both sides."""
    if path_at(source) not in {each.path for each in replica.links.list_upstreams(SHIPS)}:
        await replica.links.add_upstream(SHIPS, path_at(source))
    await source.links.add_replica(SHIPS, path_at(replica), urls=replica.urls, from_now=True, **options)


def where(site: Site, topic: str, partition: int = 0) -> PartitionState:
    """Where a partition stands."""
    shard, found = site.cluster.stream(SHIPS).topic(topic)
    return shard.state.partition(found.number, partition)


def values(site: Site, topic: str) -> dict[int, bytes | None]:
    """Of partition 0, by offset."""
    return held(site)[topic, 0].values


async def in_step(source: Site, *replicas: Site) -> None:
    """Wait until all that is to come has come, and each partition ends as at its source."""
    every = (source, *replicas)
    await until(lambda: all(map(up_to_date, every)))
    ends = {key: each.end for key, each in held(source).items()}
    await until(lambda: all({key: each.end for key, each in held(site).items()} == ends for site in replicas))


async def test_a_replica_from_now_on_begins_where_its_source_stood(tmp_path: Path) -> None:
    """All partitions end as at the source, silent ones too; later records have their offsets; topics that are made
    later come whole. No gap is told, and then all is at rest."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await sf.cluster.stream(SHIPS).create_topic("two", 2)
        for partition in (0, 1):
            await sf.write(SHIPS, "two", b"old", b"older", partition=partition)
        await sf.write(SHIPS, "silent", b"old")
        await sf.cluster.stream(SHIPS).create_topic("empty", 1)
        await follow(sf, ny)
        await in_step(sf, ny)
        assert (sf.links.list(SHIPS)[0]["from"], sf.links.list(SHIPS)[0]["recordsCopied"]) == ("now", 0)
        await sf.write(SHIPS, "two", b"new")
        await sf.write(SHIPS, "empty", b"new")
        await sf.write(SHIPS, "later", b"1", b"2")
        await in_step(sf, ny)
        found = {key: each.values for key, each in held(ny).items()}
        assert found == {
            ("two", 0): {2: b"new"},
            ("two", 1): {},
            ("silent", 0): {},
            ("empty", 0): {0: b"new"},
            ("later", 0): {0: b"1", 1: b"2"},
        }
        assert where(ny, "two")[:2] == (2, 3)
        assert where(ny, "two").history == where(sf, "two").history
        assert (sf.links.list(SHIPS)[0]["gapsTotal"], sf.links.list(SHIPS)[0]["partitionsBehind"]) == (0, 0)
        before = ends_of_logs(sf, ny)
        await a_quiet_while()
        assert ends_of_logs(sf, ny) == before


async def test_from_now_repair_sends_no_past(tmp_path: Path) -> None:
    """Nor does a side copy, a copy beside the link or a second reading of the whole log: all begin where it does."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        for name in ("told", "renamed", "let-in"):
            await sf.write(SHIPS, name, b"old")
        await follow(sf, ny, topics="told.*")
        for name in ("told", "renamed", "let-in"):
            await sf.write(SHIPS, name, b"new")
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"told": 2})
        await sf.cluster.stream(SHIPS).rename_topic("renamed", "told-too")  # brought by a repair
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"told": 2, "told-too": 2})
        await sf.links.edit_replica(SHIPS, path_at(ny), topics=None)  # brought by a side copy
        await in_step(sf, ny)
        for rescan in (True, False):
            await sf.links.pause(SHIPS, path_at(ny))
            if rescan:
                await sf.links.resume(SHIPS, path_at(ny), rescan=True)
            else:
                await sf.copies.begin(SHIPS, path_at(ny), ny.urls)
                await until(lambda: sf.copies.status(SHIPS, path_at(ny))["state"] == "done")
                await sf.links.resume(SHIPS, path_at(ny))
            await sf.write(SHIPS, "told", b"newer")
            await in_step(sf, ny)
        for name, newer in (("told", {2: b"newer", 3: b"newer"}), ("told-too", {}), ("let-in", {})):
            assert values(ny, name) == {1: b"new"} | newer
        assert sf.links.list(SHIPS)[0]["gapsTotal"] == 0


async def test_a_past_of_many_reads_and_owners_is_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica hears of it step by step, each time that some commits were read, and of each epoch."""
    monkeypatch.setattr(slices, "COMMITS_AT_ONCE", 2)
    async with fleet(tmp_path, "sf", "ny", "rome") as (sf, ny, rome):
        await link(sf, rome)
        await link(rome, sf)
        for _ in range(5):
            await sf.write(SHIPS, "t", b"old")
        await in_step(sf, rome)
        for source, replica in ((sf, rome), (rome, sf)):
            assert await hand_over(source, replica, "t") == 1
            await until(lambda at=replica: at.cluster.stream(SHIPS).topic("t")[1].owner == at.cluster.stream(SHIPS).id)  # type: ignore[misc]
            for _ in range(5):
                await replica.write(SHIPS, "t", b"old")
            await in_step(replica, source)
        await follow(sf, ny)
        await sf.write(SHIPS, "t", b"new")
        await in_step(sf, ny)
        assert values(ny, "t") == {15: b"new"}
        assert where(ny, "t") == where(sf, "t")._replace(start=15)
        assert sf.links.list(SHIPS)[0]["gapsTotal"] == 0


async def test_what_a_replica_lacks_of_a_past_that_is_left_out_is_a_gap(tmp_path: Path) -> None:
    """It had a link that brought all; that was removed, and made again from now on: what was written between never
    comes, and is told so. What is here stays."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await link(sf, ny)
        await sf.write(SHIPS, "t", b"0", b"1")
        await alike(sf, ny)
        await sf.links.remove(SHIPS, path_at(ny))
        await sf.write(SHIPS, "t", b"2", b"3")
        await follow(sf, ny)
        await sf.write(SHIPS, "t", b"4")
        await in_step(sf, ny)
        assert values(ny, "t") == {0: b"0", 1: b"1", 4: b"4"}
        await sf.links.refresh(SHIPS)
        (gap,) = sf.links.list(SHIPS)[0]["gaps"]
        assert gap == {"topic": "t", "partition": 0, "start": 2, "end": 4, "reason": "from-now"}


async def test_what_follows_a_replica_from_now_on_begins_there_too(tmp_path: Path) -> None:
    """Chains, and the way back of a pair of masters: nobody gets a past by a detour, and nobody loses one."""
    async with fleet(tmp_path, "a", "b", "c") as (a, b, c):
        await a.write(SHIPS, "of-a", b"old")
        await b.write(SHIPS, "of-b", b"old")
        await link(b, c)
        await until(lambda: c.ends(SHIPS) == {"of-b": 1})
        for source, replica in ((a, b), (b, a)):
            await follow(source, replica)
        for site in (a, b):
            await site.write(SHIPS, f"of-{site.name}", b"new")
        await until(lambda: all(site.ends(SHIPS) == {"of-a": 2, "of-b": 2} for site in (a, b, c)))
        await until(lambda: up_to_date(a) and up_to_date(b))
        whole, rest = {0: b"old", 1: b"new"}, {1: b"new"}
        assert (values(a, "of-a"), values(b, "of-a"), values(c, "of-a")) == (whole, rest, rest)
        assert (values(a, "of-b"), values(b, "of-b"), values(c, "of-b")) == (rest, whole, whole)
        await b.links.refresh(SHIPS)
        assert [row["gapsTotal"] for row in b.links.list(SHIPS)] == [0, 0]


async def test_the_replica_begins_when_the_link_was_made_whatever_stops_meanwhile(tmp_path: Path) -> None:
    """Both sites stop before anything is read, and the link is paused meanwhile: what was written since comes. Nothing
    is pending at first, and all the same the replica is not up to date before it has heard where it begins."""
    async with Site("ny", tmp_path) as ny:
        async with Site("sf", tmp_path) as sf:
            for site in (sf, ny):
                await site.stream(SHIPS)
            await sf.write(SHIPS, "t", b"old")
            await follow(sf, ny)
            await until(lambda: sf.links.list(SHIPS)[0]["replicaState"] == "REPLICA_STATE_COPY_SCHEDULE")
            (row,) = sf.links.list(SHIPS)
            assert (row["putsPending"], row["bytesPending"], row["isUptodate"]) == (0, 0, False)
            await sf.links.pause(SHIPS, path_at(ny))
            await sf.write(SHIPS, "t", b"1")
        async with Site("sf", tmp_path) as sf:
            await sf.write(SHIPS, "t", b"2")
            await sf.links.resume(SHIPS, path_at(ny))
    async with Site("ny", tmp_path, port=ny.port) as ny, Site("sf", tmp_path) as sf, task(sf):
        await in_step(sf, ny)
        assert values(ny, "t") == {1: b"1", 2: b"2"}


async def hand_over(source: Site, replica: Site, topics: str, **options: bool) -> int:
    """How many topics were handed over."""
    job, names = await source.transfers.prepare(SHIPS, topics, replica.name, TransferOptions(**options))
    return (await source.transfers.do(job, names)).changed


async def test_a_topic_with_a_past_is_handed_over_to_a_replica_without_it_only_by_force(tmp_path: Path) -> None:
    """One that was made later goes like any. The past stays where it was, and both write the same history on."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await sf.write(SHIPS, "old", b"0")
        await follow(sf, ny)
        await link(ny, sf)
        await sf.write(SHIPS, "later", b"0")
        await in_step(sf, ny)
        await until(lambda: up_to_date(ny))
        job, names = await sf.transfers.prepare(SHIPS, "old\nlater", "ny", TransferOptions())
        outcome = await sf.transfers.do(job, names)
        assert outcome.changed == 1
        assert "of before it began (-from now)" in outcome.refused[0].reason
        assert outcome.refused[0].topic == "old"
        assert await hand_over(sf, ny, "old", force=True) == 1
        await until(lambda: ny.cluster.stream(SHIPS).topic("old")[1].owner == ny.cluster.stream(SHIPS).id)
        await ny.write(SHIPS, "old", b"1")
        await until(lambda: sf.end(SHIPS, "old") == 2)
        assert (values(sf, "old"), values(ny, "old")) == ({0: b"0", 1: b"1"}, {1: b"1"})


async def test_a_replica_without_the_past_takes_over_and_the_tail_is_kept(tmp_path: Path) -> None:
    """sf comes back with a record that ny never got, and with the past that ny never had."""
    async with fleet(tmp_path, "sf", "ny", merge_interval_seconds=0.1) as (sf, ny):
        await sf.write(SHIPS, "t", b"0", b"1")
        await follow(sf, ny)
        await link(ny, sf)
        await sf.write(SHIPS, "t", b"2")
        await in_step(sf, ny)
        await sf.links.pause(SHIPS, path_at(ny))
        await sf.write(SHIPS, "t", b"tail")
        await ny.links.pause(SHIPS, path_at(sf))
        shard, topic = ny.cluster.stream(SHIPS).topic("t")
        epoch, at_ny = shard.epoch.id, str(path_at(ny))
        await shard.submit(partial(take_over, topic=topic.number, owner_at=at_ny, writer_epoch_id=epoch))
        await ny.write(SHIPS, "t", b"3")
        for source, replica in ((sf, ny), (ny, sf)):
            await source.links.resume(SHIPS, path_at(replica))
        await until(lambda: "t.diverged.sf.0" in ny.ends(SHIPS) and ny.ends(SHIPS) == sf.ends(SHIPS))
        await until(lambda: up_to_date(sf) and up_to_date(ny))
        assert values(sf, "t") == {0: b"0", 1: b"1", 2: b"2", 3: b"3"}
        assert values(ny, "t") == {2: b"2", 3: b"3"}
        assert values(sf, "t.diverged.sf.0") == values(ny, "t.diverged.sf.0") == {3: b"tail"}


async def test_a_source_that_was_restored_leaves_out_nothing_that_it_writes_then(tmp_path: Path) -> None:
    """Its log ends before the commit at which the replica was to begin: what gets that number now is no past, also if
    nobody asks the replica for long."""
    async with Site("ny", tmp_path) as ny:
        async with Site("sf", tmp_path) as sf:
            for site in (sf, ny):
                await site.stream(SHIPS)
            await sf.write(SHIPS, "t", b"old")
            await follow(sf, ny, paused=True)
            (record,) = sf.cluster.links.all()
            later = tuple(replace(each, commit=each.commit + 3) for each in record.begin)
            await sf.cluster.links.edit(record.id, begin=later)
        async with Site("sf", tmp_path) as sf, task(sf):
            for value in (b"1", b"2", b"3", b"4"):
                await sf.write(SHIPS, "t", value)
            await sf.links.resume(SHIPS, path_at(ny))
            await in_step(sf, ny)
            assert values(ny, "t") == {1: b"1", 2: b"2", 3: b"3", 4: b"4"}
