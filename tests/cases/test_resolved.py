"""Conflicts of names that were ended at a replica: sources hear of it in a moment, though nobody writes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from fairlead.model.errors import InvalidValue
from fairlead.model.names import StreamPath, names_like
from tests.cases.fleet import SHIPS, fleet, held, link, path_at, up_to_date
from tests.gateway.rig import FAST, STILL, Site
from tests.support.waiting import until


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """No link looks by itself again whether what it brings is set aside still."""
    for module in ("contacting.contacts", "task_reports"):
        monkeypatch.setattr(f"fairlead.gateway.links.{module}.REPAIR_DELAY_MAX_S", 3600)


def names(site: Site, path: str = SHIPS) -> dict[str, list[bytes | None]]:
    return {topic: [*found.values.values()] for (topic, _), found in held(site, path).items()}


def in_conflict(site: Site) -> bool:
    return bool(site.links.list(SHIPS)[0]["conflicts"])


@pytest.mark.usefixtures("never")
async def test_a_topic_that_gets_its_name_at_a_replica_comes_in_a_moment(tmp_path: Path) -> None:
    """Down a chain in which each site had made a topic of that name; nobody writes any of them any more."""
    async with fleet(tmp_path, "a", "b", "c", timing=replace(FAST, pulse_s=0.05)) as sites:
        for site in sites:
            await site.write(SHIPS, "t", site.name.encode())
        for source, replica in pairwise(sites):
            await link(source, replica)
        a, b, c = sites
        await until(lambda: in_conflict(a) and in_conflict(b))
        await c.cluster.stream(SHIPS).take_topic_as("t", "b-s")
        await until(lambda: names(c) == {"t": [b"c"], "b-s": [b"b"]})
        await b.cluster.stream(SHIPS).take_topic_as("t", "a-s")
        await until(lambda: names(c) == {"t": [b"c"], "b-s": [b"b"], "a-s": [b"a"]})
        await until(lambda: up_to_date(a) and up_to_date(b))


@pytest.mark.usefixtures("never")
async def test_a_conflict_ends_where_another_link_has_given_the_topic_a_name(tmp_path: Path) -> None:
    """Nobody decides anything at c, and nobody writes the topic any more: its owner's link has nothing set aside."""
    async with fleet(tmp_path, "a", "b", "c", timing=replace(FAST, pulse_s=0.05)) as (a, b, c):
        await c.write(SHIPS, "t", b"c")
        await a.write(SHIPS, "t", b"a")
        await link(a, c)
        await until(lambda: in_conflict(a))
        await link(a, b)
        await c.links.add_upstream(SHIPS, path_at(b))
        await b.links.add_replica(SHIPS, path_at(c), urls=c.urls, prefix="b.")
        await until(lambda: names(c) == {"t": [b"c"], "b.t": [b"a"]})
        await until(lambda: up_to_date(a) and up_to_date(b))


@pytest.mark.usefixtures("never")
async def test_a_copy_in_the_same_cluster_is_resolved_in_a_moment_too(tmp_path: Path) -> None:
    """No call goes to where it is."""
    async with fleet(tmp_path, "a", timing=replace(STILL, pulse_s=0.05)) as (a,):
        await a.stream("/copy")
        for path in (SHIPS, "/copy"):
            await a.write(path, "t", path.encode())
        await a.links.add_upstream("/copy", path_at(a))
        await a.links.add_replica(SHIPS, StreamPath("/copy"))
        await until(lambda: in_conflict(a))
        await a.cluster.stream("/copy").take_topic_as("t", "theirs")
        await until(lambda: names(a, "/copy") == {"t": [b"/copy"], "theirs": [b"/ships"]})


async def test_a_topic_whose_new_name_is_one_of_another_shard_gets_a_name_at_the_replica(tmp_path: Path) -> None:
    """Its owner ends the conflict, but the replica has more shards, and the topic waits in that of the old name. The
    source shows the command, which knows the topic by its new one."""
    async with fleet(tmp_path, "a", timing=replace(FAST, pulse_s=0.05)) as (a,):
        stream = await a.stream("/copy", shards=4)
        for path in (SHIPS, "/copy"):
            await a.write(path, "t", path.encode())
        await a.links.add_upstream("/copy", path_at(a))
        await a.links.add_replica(SHIPS, StreamPath("/copy"))
        await until(lambda: in_conflict(a))
        home = stream.shard_for("t")
        away = next(name for name in names_like("u") if stream.shard_for(name) is not home)
        await a.cluster.stream(SHIPS).rename_topic("t", away)
        shown = (
            f"not a possible name here: {away}; to have it there under another name run: fairlead stream topic resolve"
        )
        command = f"{shown} -path /mapr/a/copy -topic {away} -as NAME"
        await until(lambda: command in str(a.links.list(SHIPS)[0].row()["behind"]))
        with pytest.raises(InvalidValue, match="would do"):
            await stream.take_topic_as(away, away)
        near = next(name for name in names_like("u") if stream.shard_for(name) is home)
        await stream.take_topic_as(away, near)
        await until(lambda: names(a, "/copy") == {"t": [b"/copy"], near: [b"/ships"]})
        await until(lambda: up_to_date(a))
