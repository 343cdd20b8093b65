"""Yesterday's directory restored under a live link to a partner; for one's own there is `stream recover`."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from fairlead.gateway.links.running.lifecycle import State
from tests.cases.fleet import SHIPS, alike, held, link, path_at
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import a_quiet_while, until


async def partners(source: Site, replica: Site) -> None:
    """Replicate to another company's cluster: what it has of ours is not brought back by `stream recover`."""
    await link(source, replica)
    for record in source.cluster.links.of(source.cluster.stream(SHIPS).id):
        await source.cluster.links.edit(record.id, peer="partner")


def state(site: Site) -> State:
    """Of the only link."""
    (running,) = site.manager.running
    return running.state


async def test_yesterdays_directory_under_a_live_link_is_noticed(tmp_path: Path) -> None:
    """The link stops and says so; after `resume -rescan` what is equal goes on and what differs is set aside."""
    async with Site("ny", tmp_path) as ny:
        await ny.stream(SHIPS)
        today = await today_and_yesterday(tmp_path, ny)
        async with Site("sf", tmp_path / "yesterday") as sf, task(sf):
            await until(lambda: state(sf) is State.STOPPED)
            (status,) = sf.links.list(SHIPS)
            assert status["replicaState"] == "REPLICA_STATE_UNEXPECTED"
            assert "rolled back" in status["errors"]["Msg"]
            assert f"fairlead stream replica resume -path {path_at(sf)}" in status["errors"]["Msg"]
            await sf.write(SHIPS, "rewritten", b"another")
            await sf.write(SHIPS, "untouched", b"1")
            await sf.write(SHIPS, "new", b"0")
            await a_quiet_while()
            assert held(ny) == today, "a stopped link sends nothing"
            await sf.links.resume(SHIPS, path_at(ny), rescan=True)
            await until(lambda: ny.end(SHIPS, "new") == 1 and ny.end(SHIPS, "untouched") == 2)
            await until(lambda: state(sf).ready)
            await check_conflict(sf, ny)
            for topic in ("rewritten", "lost"):
                assert held(ny)[topic, 0] == today[topic, 0]


async def test_a_topic_deleted_since_the_copy_is_a_conflict_until_it_is_taken_again(tmp_path: Path) -> None:
    """One was deleted, one deleted and made again: both live on at the restored source, and the replica must not say
    that all is well."""
    async with Site("ny", tmp_path) as ny:
        await ny.stream(SHIPS)
        async with Site("sf", tmp_path) as sf:
            async with task(sf):
                await sf.stream(SHIPS)
                await partners(sf, ny)
                for topic in ("gone", "again", "stays"):
                    await sf.write(SHIPS, topic, b"0", b"1")
                await alike(sf, ny)
            await asyncio.to_thread(shutil.copytree, tmp_path / "sf", tmp_path / "yesterday" / "sf")
            async with task(sf):
                for topic in ("gone", "again"):
                    await sf.cluster.stream(SHIPS).delete_topic(topic)
                await sf.write(SHIPS, "again", b"lost")
                await alike(sf, ny)
        async with Site("sf", tmp_path / "yesterday") as sf, task(sf):
            await until(lambda: state(sf) is State.STOPPED)
            await sf.links.resume(SHIPS, path_at(ny), rescan=True)
            await until(lambda: sf.links.list(SHIPS)[0].row()["conflicts"] == 2)
            row = sf.links.list(SHIPS)[0].row()
            assert (row["partitionsBehind"], row["isUptodate"]) == (2, False)
            shown = {each["topic"]: each["reason"] for each in row["behind"]}
            assert shown.keys() == {"gone", "again"}
            command = f"fairlead stream topic resolve -path {path_at(ny)} -topic gone -take source"
            assert shown["gone"] == f"conflict: deleted here; to take it again from its source run: {command}"
            for topic in ("gone", "again"):
                await ny.cluster.stream(SHIPS).take_topic_again(topic)
                await sf.write(SHIPS, topic, b"2")
            await until(lambda: ny.end(SHIPS, "gone") == ny.end(SHIPS, "again") == 3)
            await alike(sf, ny)


async def test_a_topic_deleted_once_more_at_a_restored_source_is_no_conflict(tmp_path: Path) -> None:
    """The other way out: the deletion comes again, and the note goes."""
    async with Site("ny", tmp_path) as ny:
        await ny.stream(SHIPS)
        async with Site("sf", tmp_path) as sf:
            async with task(sf):
                await sf.stream(SHIPS)
                await partners(sf, ny)
                await sf.write(SHIPS, "gone", b"0")
                await alike(sf, ny)
            await asyncio.to_thread(shutil.copytree, tmp_path / "sf", tmp_path / "yesterday" / "sf")
            async with task(sf):
                await sf.cluster.stream(SHIPS).delete_topic("gone")
                await alike(sf, ny)
        async with Site("sf", tmp_path / "yesterday") as sf, task(sf):
            await until(lambda: state(sf) is State.STOPPED)
            await sf.links.resume(SHIPS, path_at(ny), rescan=True)
            await until(lambda: sf.links.list(SHIPS)[0].row()["conflicts"] == 1)
            await sf.cluster.stream(SHIPS).delete_topic("gone")
            await until(lambda: sf.links.list(SHIPS)[0].row()["isUptodate"])
            assert sf.links.list(SHIPS)[0].row()["conflicts"] == 0
            assert held(ny) == {}


async def today_and_yesterday(folder: Path, ny: Site) -> object:
    """Replicate, copy the directory, go on, stop; what the replica has then."""
    async with Site("sf", folder) as sf:
        async with task(sf):
            await sf.stream(SHIPS)
            await partners(sf, ny)
            for topic in ("rewritten", "untouched"):
                await sf.write(SHIPS, topic, b"0")
            await alike(sf, ny)
        await asyncio.to_thread(shutil.copytree, folder / "sf", folder / "yesterday" / "sf")
        async with task(sf):
            await sf.write(SHIPS, "rewritten", b"1", b"2")
            await sf.write(SHIPS, "lost", b"0")
            await alike(sf, ny)
    return held(ny)


async def check_conflict(sf: Site, ny: Site) -> None:
    """The topic that both sides wrote differently is shown; new records of others still arrive."""
    await until(lambda: sf.links.list(SHIPS)[0]["behind"])
    (status,) = sf.links.list(SHIPS)
    (behind,) = status["behind"]
    assert behind["topic"] == "rewritten"
    assert behind["reason"].startswith("conflict: another record stands at offset 1")
    assert not status["isUptodate"]
    await sf.write(SHIPS, "untouched", b"2")
    await until(lambda: ny.end(SHIPS, "untouched") == 3)
