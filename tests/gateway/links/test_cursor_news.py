"""What consumer groups have committed goes over links: together, at most so often, and comes to rest."""

from __future__ import annotations

from tests.gateway.rig import REPLICA, SHIPS, SOURCE, Site, Worker, set_up
from tests.streamlog.world import rows_of
from tests.support.waiting import a_quiet_while, until

from fairlead.cluster.stream import CommittedOffset
from fairlead.streamlog.rows import Kind

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
    await sf.write(SHIPS, "a", *(b"%d" % each for each in range(300)))
    async with Worker(sf):
        await set_up(sf, ny)
        for offset in range(1, 300):
            await commit(sf, offset)
        await until(lambda: place(ny) == 299)
    assert 1 <= len(told(sf)) < 60


async def test_links_both_ways_bring_cursors_and_come_to_rest(sf: Site, ny: Site) -> None:
    """Each site commits; both agree, and then neither writes anything more."""
    await sf.write(SHIPS, "a", *(b"%d" % each for each in range(9)))
    async with Worker(sf), Worker(ny):
        await set_up(sf, ny)
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=sf.urls)
        await commit(sf, 3)
        await until(lambda: place(ny) == 3)
        await commit(ny, 5)
        await until(lambda: place(sf) == 5)
        ends = [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)]
        rows = [told(sf), told(ny)]
        await a_quiet_while()
        assert [told(sf), told(ny)] == rows
        quiet = [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)]
        assert max(now - before for now, before in zip(quiet, ends, strict=True)) <= 16, "positions, and then nothing"
        await a_quiet_while()
        assert [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)] == quiet


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
