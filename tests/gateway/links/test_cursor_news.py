"""What consumer groups have committed goes over links: together, at most so often, and comes to rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.gateway.rig import FAST, REPLICA, SHIPS, SOURCE, Site, Worker, set_up
from tests.streamlog.world import rows_of
from tests.support import http_calls
from tests.support.waiting import a_quiet_while, until

from fairlead.cluster.stream import CommittedOffset
from fairlead.gateway.links import cursor_news
from fairlead.gateway.links.cursor_news import CursorNews
from fairlead.gateway.links.running.timing import Timing
from fairlead.streamlog.payloads import CursorPayload
from fairlead.streamlog.rows import LOCAL_KINDS, Kind
from fairlead.streamlog.writing.draft import Draft

GROUP = "dashboard"


async def commit(site: Site, offset: int) -> None:
    """The group has read so far."""
    outcomes = await site.cluster.stream(SHIPS).commit_cursors(GROUP, [CommittedOffset("a", 0, offset)])
    assert outcomes == [None]


def place(site: Site) -> int | None:
    """Where the group goes on."""
    return next((cursor.offset for _, _, _, cursor in site.cluster.stream(SHIPS).cursors(GROUP)), None)


def told(site: Site) -> list[int]:
    """Commits with rows that tell of cursors that were committed here."""
    shard = site.cluster.stream(SHIPS).shards[0]
    return [row.commit for row in rows_of(shard) if row.kind == Kind.CURSOR and row.via is None]


async def test_a_cursor_arrives_and_many_commits_of_it_are_few_rows(sf: Site, ny: Site) -> None:
    """One when the link is told all there are, and then one each so many seconds."""
    await sf.write(SHIPS, "a", *(b"%d" % each for each in range(300)))
    loop = asyncio.get_running_loop()
    async with Worker(sf):
        began = loop.time()
        await set_up(sf, ny)
        for offset in range(1, 300):
            await commit(sf, offset)
        await until(lambda: place(ny) == 299)
        took_s = loop.time() - began
    assert 1 <= len(told(sf)) <= 2 + took_s / FAST.cursors_s


async def test_links_both_ways_bring_cursors_and_come_to_rest(sf: Site, ny: Site) -> None:
    """Each site commits; both agree, and once all has come across, neither writes anything more."""
    await sf.write(SHIPS, "a", *(b"%d" % each for each in range(9)))
    async with Worker(sf), Worker(ny):
        await set_up(sf, ny)
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=sf.urls)
        await commit(sf, 3)
        await until(lambda: place(ny) == 3)
        await commit(ny, 5)
        await until(lambda: place(sf) == 5)
        rows = [told(sf), told(ny)]
        await until(lambda: has_told_all(sf, "ny") and has_told_all(ny, "sf"))
        ends = [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)]
        await a_quiet_while()
        assert [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)] == ends
        assert [told(sf), told(ny)] == rows


def has_told_all(site: Site, replica: str) -> bool:
    """All that leaves the site is at that cluster, and nothing is left that it is to be told."""
    stream = site.cluster.stream(SHIPS)
    (shard,) = stream.shards
    last = max(row.commit for row in rows_of(shard) if row.kind not in LOCAL_KINDS)
    is_noted = shard.state.entry(cursor_news.ENTRY) is not None
    return is_noted and not site.links.cursor_news.untold(stream) and passed(site, replica) > last


async def test_without_a_link_nothing_is_told_and_a_new_one_is_told_all(sf: Site, ny: Site) -> None:
    await sf.write(SHIPS, "a", b"1", b"2")
    await commit(sf, 1)
    await a_quiet_while()
    assert told(sf) == []
    async with Worker(sf):
        await set_up(sf, ny)
        await until(lambda: place(ny) == 1)


async def test_a_link_that_takes_more_groups_than_before_is_told_all_once(sf: Site, ny: Site) -> None:
    """What it passed over stands in the log before."""
    await sf.write(SHIPS, "a", b"1", b"2")
    async with Worker(sf):
        await set_up(sf, ny)
        await commit(sf, 1)
        await until(lambda: place(ny) == 1)
        before = len(told(sf))
        (record,) = sf.cluster.links.all()
        await sf.links.edit_replica(SHIPS, record.replica_path, cursors="d.*")
        await until(lambda: len(told(sf)) == before + 1)
        await a_quiet_while()
        assert len(told(sf)) == before + 1


async def test_a_link_that_becomes_one_to_our_own_brings_cursors(sf: Site, ny: Site) -> None:
    """A partner is told none, so a running grant leaves them out."""
    await sf.write(SHIPS, "a", b"1", b"2")
    async with Worker(sf) as worker:
        await set_up(sf, ny)
        (record,) = sf.cluster.links.all()
        for peer, groups in (("partner", "none"), ("own", "all")):
            await sf.links.edit_replica(SHIPS, record.replica_path, peer=peer)
            await until(partial(brings, worker, groups))
        await commit(sf, 1)
        await until(lambda: place(ny) == 1)


def brings(worker: Worker, groups: str) -> bool:
    """The worker has grants, and they bring the cursors of these groups."""
    return {each.grant.cursors for each in worker.grants.values()} == {groups}


async def test_commits_that_go_on_do_not_put_off_when_links_are_told(sf: Site, ny: Site) -> None:
    """A second after the first that waits: a group that moves reads again no more than that."""
    assert Timing().cursors_s == 1
    await sf.write(SHIPS, "a", b"1", b"2")
    await set_up(sf, ny)
    news = CursorNews(sf.cluster, sf.manager.running, replace(FAST, cursors_s=3600))
    news.start()
    await commit(sf, 1)
    (first,) = news._timers.values()  # noqa: SLF001 - nobody waits for it
    await commit(sf, 2)
    assert [*news._timers.values()] == [first]  # noqa: SLF001
    assert not first.cancelled()
    await news.close()


async def test_a_replica_that_is_away_does_not_keep_cursors_from_another(
    sf: Site, ny: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has much before it, and would have them told every ten seconds only."""
    monkeypatch.setattr(cursor_news, "BEHIND_COMMITS", 3)
    seldom = replace(FAST, cursors_behind_s=3600)
    async with Site("la", tmp_path) as la, Site("far", tmp_path, seldom) as source, Worker(source):
        await source.stream(SHIPS)
        for replica in (ny, la):
            await set_up(source, replica)
        away = next(each for each in source.cluster.links.all() if each.replica_path.cluster == "la")
        await source.links.pause(SHIPS, away.replica_path)
        for number in range(9):
            await source.write(SHIPS, "a", b"%d" % number)
        await until(lambda: in_step(source, "ny"))
        await commit(source, 5)
        await until(lambda: place(ny) == 5)


@asynccontextmanager
async def uncarried(ny: Site, folder: Path) -> AsyncIterator[Site]:
    """A source with ten commits that a link to ny has before it, as nobody carries, the last of them a group's."""
    async with Site("far", folder, replace(FAST, cursors_behind_s=3600)) as source:
        await source.stream(SHIPS)
        for number in range(9):
            await source.write(SHIPS, "a", b"%d" % number)
        await set_up(source, ny)
        await commit(source, 5)
        yield source


async def test_while_every_link_has_much_before_it_cursors_are_told_seldom(
    ny: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is of use only once those before it have arrived, and the next one takes its place."""
    monkeypatch.setattr(cursor_news, "BEHIND_COMMITS", 3)
    async with uncarried(ny, tmp_path) as source:
        await a_quiet_while()
        assert told(source) == []


async def test_where_a_link_has_little_before_it_cursors_are_told_soon(ny: Site, tmp_path: Path) -> None:
    async with uncarried(ny, tmp_path) as source:
        await until(lambda: told(source))


def in_step(site: Site, replica: str) -> bool:
    """All that the site has is at that cluster."""
    (shard,) = site.cluster.stream(SHIPS).shards
    return passed(site, replica) == shard.announced.end


def passed(site: Site, replica: str) -> int:
    """The commit below which that cluster has all."""
    link = next(each for each in site.manager.running if each.record.replica_path.cluster == replica)
    return link.positions.passed(1)[0]


async def metrics(site: Site) -> dict[str, float]:
    """The page of this moment, but for memory."""
    async with http_calls.client() as http:
        lines = (await http.get(f"{site.url}/metrics")).text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


async def test_metrics_say_what_was_told_what_came_and_what_has_not_come(sf: Site, ny: Site) -> None:
    """Rows that told, not commits of groups; how long the oldest has not come to the replica, also while the link is
    paused; and it ends although rows that no link brings stand after it."""
    link = 'fairlead_link_cursors_pending_seconds{replica="/mapr/ny/ships",stream="/ships"}'
    await sf.write(SHIPS, "a", *(b"%d" % each for each in range(300)))
    await commit(sf, 1)
    found = await metrics(sf)
    assert found['fairlead_untold_cursors{stream="/ships"}'] == 0, "there is nobody to be told"
    async with Worker(sf):
        await set_up(sf, ny)
        for offset in range(2, 100):
            await commit(sf, offset)
        await until(lambda: place(ny) == 99)
        news, stream = sf.links.cursor_news, sf.cluster.stream(SHIPS)
        (running,) = sf.manager.running
        await until(lambda: news.lacking_ms(running, stream) == 0)
        found = await metrics(sf)
        assert found['fairlead_told_cursors_total{stream="/ships"}'] == len(told(sf))
        assert (found['fairlead_untold_cursors{stream="/ships"}'], found[link]) == (0, 0)
        assert found['fairlead_untold_cursors_seconds{stream="/ships"}'] == 0
        came = (await metrics(ny))["fairlead_applied_cursors_total"]
        assert 1 <= came <= len(told(sf))

        await sf.links.edit_replica(SHIPS, running.record.replica_path, paused=True)
        await commit(sf, 200)
        await until(lambda: news.told(stream) == len(told(sf)) > came)
        await until(lambda: news.lacking_ms(running, stream) > 0)
        (row,) = sf.links.list(SHIPS)
        assert row["cursorsPendingSeconds"] == news.lacking_ms(running, stream) // 1000
        await sf.links.edit_replica(SHIPS, running.record.replica_path, paused=False)
        await until(lambda: place(ny) == 200)
        await until(lambda: news.lacking_ms(running, stream) == 0)


async def test_of_a_stream_that_is_not_watched_yet_nothing_is_old(sf: Site, ny: Site) -> None:
    """It may be asked for before."""
    await sf.write(SHIPS, "a", b"1")
    await set_up(sf, ny)
    await commit(sf, 1)
    news, stream = CursorNews(sf.cluster, sf.manager.running, FAST), sf.cluster.stream(SHIPS)
    (running,) = sf.manager.running
    assert (news.told(stream), news.untold_ms(stream), news.lacking_ms(running, stream)) == (0, 0, 0)


async def test_a_group_apart_is_counted_once_for_all_its_partitions(sf: Site) -> None:
    """Until it follows again."""
    await sf.write(SHIPS, "a", b"1")
    await sf.write(SHIPS, "b", b"1")
    shard = sf.cluster.stream(SHIPS).shards[0]
    numbers = [topic.number for topic in sf.cluster.stream(SHIPS).topics()]

    def say(draft: Draft, apart: bool) -> None:
        for number in numbers:
            draft.add_control(
                Kind.COMMITTED, CursorPayload(GROUP, 1, 0, "", 0, 1, apart=apart), number=number, partition=0
            )

    for apart, count in ((True, 1), (False, 0)):
        await shard.submit(partial(say, apart=apart))
        assert (await metrics(sf))['fairlead_apart_groups{stream="/ships"}'] == count
