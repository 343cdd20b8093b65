"""What a replicator with `--once` is told: where the logs end when it begins, and what links lack below that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.rig import FAST, REPLICA, SHIPS, Site, Worker, set_up
from tests.streamlog.world import rows_of
from tests.support.waiting import until
from websockets.exceptions import ConnectionClosed

from fairlead.cluster.stream import CommittedOffset
from fairlead.gateway.links import cursor_news
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.model.conversation import from_json
from fairlead.model.errors import StorageFull
from fairlead.streamlog.rows import Kind
from fairlead.wire.control import LeftWanted, LinkEnds, LinksActive, LinksLeft
from fairlead.wire.messages import REPLICATOR_HEARS, to_json


@pytest.fixture
async def source(tmp_path: Path, ny: Site) -> AsyncIterator[Site]:
    """A cluster with a link to ny that tells cursors once an hour."""
    async with Site("far", tmp_path, replace(FAST, cursors_s=3600, cursors_behind_s=3600)) as site:
        await site.stream(SHIPS)
        await set_up(site, ny)
        yield site


async def left(site: Site, ends: tuple[LinkEnds, ...] | None = None) -> LinksLeft:
    """The answer, as the replicator gets it."""
    async with site.control("replicator") as socket:
        await socket.send(to_json(LeftWanted(ends)))
        while isinstance(answer := from_json(await socket.recv(), REPLICATOR_HEARS), LinksActive):
            pass  # at once, and when links came or went
        assert isinstance(answer, LinksLeft)
        return answer


def only_link(site: Site) -> RunningLink:
    (link,) = site.manager.running
    return link


async def test_what_is_written_after_it_began_does_not_count(source: Site) -> None:
    """Producers go on, and it would never have carried all."""
    await source.write(SHIPS, "a", b"1")
    async with Worker(source):
        begun = await left(source)
        await until(lambda: only_link(source).positions.reached(begun.ends[0].ends))
    await source.write(SHIPS, "a", b"2")
    assert (await left(source, begun.ends)) == LinksLeft(begun.ends, 0, 0, 0)
    now = await left(source)
    assert (now.links, now.partitions) == (1, 0)
    assert now.commits > 0


async def test_what_groups_have_committed_is_told_before_it_begins(source: Site, ny: Site) -> None:
    """It came with the next second, or ten seconds later, when nobody carried any more."""
    await source.write(SHIPS, "a", b"1", b"2")
    stream, news = source.cluster.stream(SHIPS), source.links.cursor_news
    assert await stream.commit_cursors("dashboard", [CommittedOffset("a", 0, 1)]) == [None]
    link = only_link(source)
    await until(lambda: news.lacking_ms(link, stream) > 0)
    assert news.told(stream) == 0, "also what is not told yet is lacking at the replica"
    begun = await left(source)
    told = [row.commit for row in rows_of(stream.shards[0]) if row.kind == Kind.CURSOR and row.via is None]
    assert 0 < max(told) < begun.ends[0].ends[0]
    async with Worker(source):
        await until(lambda: link.positions.reached(begun.ends[0].ends))
    assert [cursor.offset for _, _, _, cursor in ny.cluster.stream(SHIPS).cursors("dashboard")] == [1]
    assert news.lacking_ms(link, stream) == 0


async def test_it_does_not_begin_where_links_cannot_be_told(source: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would end well without what groups have committed; the reason comes instead of an answer."""
    await source.write(SHIPS, "a", b"1")
    assert await source.cluster.stream(SHIPS).commit_cursors("dashboard", [CommittedOffset("a", 0, 1)]) == [None]

    def full(*_: object) -> None:
        raise StorageFull("data", 0, 1)

    for request in ("tell_cursors", "publish_cursors"):
        monkeypatch.setattr(cursor_news, request, full)
    with pytest.raises(ConnectionClosed, match="committed offsets could not be told to links"):
        await left(source)
    monkeypatch.undo()
    assert len((await left(source)).ends) == 1


async def test_partitions_behind_are_left_and_what_a_paused_link_lacks_is_not(
    source: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repairs bring the first; a person has chosen the other."""
    await source.write(SHIPS, "a", b"1")
    async with Worker(source):
        begun = await left(source)
        await until(lambda: only_link(source).positions.reached(begun.ends[0].ends))
    with monkeypatch.context() as patching:
        patching.setattr(RunningLink, "behind", property(lambda _: 2))
        assert (await left(source, begun.ends)) == LinksLeft(begun.ends, 1, 0, 2)
    await source.write(SHIPS, "a", b"2")
    later = await left(source)
    assert later.links == 1
    await source.links.pause(SHIPS, REPLICA)
    assert (await left(source, later.ends)).links == 0
    assert (await left(source)).ends == ()
