"""Lines of the log about topics that wait for long since their owner has changed: one when they do, one when it is
over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tests.gateway.rig import REPLICA, SHIPS, SOURCE, STILL, Site, Worker, set_up
from tests.support import http_calls
from tests.support.waiting import until

from fairlead.cluster.jobs import JobRecord
from fairlead.gateway.links.orders.transfer import TransferOptions
from fairlead.gateway.links.owner_watch import OwnerWatch, Waiting
from fairlead.model.names import SLICES
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.requests.topics import put_topic
from fairlead.streamlog.writing.shard import Shard

FORCED = TransferOptions(force=True, oneway=True)
UNCONFIRMED, CONFIRMED = "topics are handed over and not confirmed", "topics handed over are confirmed"
UNWRITABLE, WRITABLE = "topics owned here cannot be written yet", "topics owned here can be written now"


@pytest.fixture
async def ny_and_carrier(sf: Site, ny: Site) -> AsyncIterator[Site]:
    """ny, to which sf's topics go."""
    async with Worker(sf):
        await set_up(sf, ny)
        await sf.write(SHIPS, "box", b"1")
        await until(lambda: ny.end(SHIPS, "box") == 1)
        yield ny


async def handed_over(site: Site, topics: str) -> JobRecord:
    """The job, once it has ended."""
    job, names = await site.transfers.prepare(SHIPS, topics, "ny", FORCED)
    await site.jobs.add(job, names)
    await until(lambda: not site.cluster.jobs.get(job.id).running)
    return site.cluster.jobs.get(job.id)


async def lines_of_looks(site: Site, looks: int = 1) -> list[Mapping[str, Any]]:
    with capture_logs() as logs:
        for _ in range(looks):
            await site.manager.owner_watch.look()
    return [line for line in logs if line["event"] in {UNCONFIRMED, CONFIRMED, UNWRITABLE, WRITABLE}]


async def taken_over(shard: Shard, number: int, at: str) -> None:
    await shard.submit(partial(take_over, topic=number, owner_at=at, writer_epoch_id=shard.epoch.id))


async def asked(site: Site, path: str, **params: str) -> httpx.Response:
    async with http_calls.client() as http:
        return await http.get(f"{site.url}/{path}", params={"path": SHIPS, **params})


async def metric(site: Site, name: str) -> float:
    """Of the stream, or of its only link."""
    lines = (await asked(site, "metrics")).text.splitlines()
    of_stream = (line for line in lines if line.startswith(f"fairlead_{name}{{") and f'"{SHIPS}"' in line)
    (value,) = (float(line.rpartition(" ")[2]) for line in of_stream)
    return value


async def info(site: Site, topic: str, column: str) -> list[Any]:
    """By partition, what `stream topic info` says."""
    return [row[column] for row in (await asked(site, "rest/stream/topic/info", topic=topic)).json()["data"]]


def test_a_topic_is_told_once_when_it_has_waited_from_one_look_to_the_next() -> None:
    """What comes and goes between two looks has not waited. What waits once more is told once more."""
    waiting, none = Waiting(), frozenset[tuple[int, int]]()
    one, two = frozenset([(0, 1)]), frozenset([(0, 1), (0, 2)])
    assert waiting.look(one) == (none, none)
    assert waiting.look(two) == (one, none)
    assert waiting.look(two) == (two - one, none)
    assert waiting.look(one) == (none, two - one)
    assert waiting.look(none) == (none, one)
    assert [waiting.look(each) for each in (one, none, one)] == [(none, none)] * 3
    assert waiting.look(one) == (one, none)


async def test_what_is_handed_over_and_not_confirmed_is_told_once_and_so_is_its_end(
    sf: Site, ny_and_carrier: Site
) -> None:
    """In a line for all topics that wait, with what ails the link; `topic info`, `replica list` and metrics say the
    same."""
    await sf.links.pause(SHIPS, REPLICA)
    names = [f"crate-{each}" for each in range(7)]
    for name in names:
        await sf.write(SHIPS, name, b"1")
    assert (await handed_over(sf, "crate-[0-9]")).changed == 7
    assert await lines_of_looks(sf) == []
    (line,) = await lines_of_looks(sf, looks=3)
    assert (line["event"], line["log_level"], line["stream"], line["owner"]) == (
        *(UNCONFIRMED, "warning", SHIPS),
        str(REPLICA),
    )
    assert (len(line["topics"]), line["total"], line["why"]) == (5, 7, "the link is paused")
    assert {*line["topics"]} < {*names}
    assert (await metric(sf, "link_unconfirmed_topics"), await metric(sf, "owned_topics")) == (7, 1)
    assert await info(sf, "crate-0", "handover") == ["not confirmed"]
    await sf.links.resume(SHIPS, REPLICA)
    await until(lambda: sf.links.list(SHIPS)[0]["unconfirmedOwner"] == 0)
    assert await metric(sf, "link_unconfirmed_topics") == 0
    assert await info(sf, "crate-0", "handover") == ["confirmed"]
    (line,) = await lines_of_looks(sf, looks=3)
    assert (line["event"], line["total"], line["owner"]) == (CONFIRMED, 7, str(REPLICA))


async def test_what_is_taken_back_is_no_more_handed_over(sf: Site, ny_and_carrier: Site) -> None:
    """Neither counted nor said to be confirmed."""
    await sf.links.pause(SHIPS, REPLICA)
    assert (await handed_over(sf, "box")).changed == 1
    assert [each["event"] for each in await lines_of_looks(sf, looks=2)] == [UNCONFIRMED]
    shard, topic = sf.cluster.stream(SHIPS).topic("box")
    await taken_over(shard, topic.number, str(SOURCE))
    assert sf.links.list(SHIPS)[0]["unconfirmedOwner"] == 0
    assert await lines_of_looks(sf, looks=2) == []


async def test_after_a_restart_what_has_come_back_from_the_new_owner_is_confirmed(tmp_path: Path, ny: Site) -> None:
    """The server does not remember who has heard, until the link has passed its log. A record of the new owner's shows
    it; of the other topics nobody can tell while the replica is away."""
    async with Site("sf", tmp_path, STILL) as sf, Worker(sf), Worker(ny):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=sf.urls)
        for name in ("box", "crate"):
            await sf.write(SHIPS, name, b"1")
        await until(lambda: ny.ends(SHIPS) == {"box": 1, "crate": 1})
        assert (await handed_over(sf, "box\ncrate")).changed == 2
        await until(lambda: sf.links.list(SHIPS)[0]["unconfirmedOwner"] == 0)
        await ny.write(SHIPS, "box", b"2")
        await until(lambda: sf.end(SHIPS, "box") == 2)
        await sf.links.pause(SHIPS, REPLICA)
    async with Site("sf", tmp_path, STILL) as sf:
        assert sf.links.list(SHIPS)[0]["unconfirmedOwner"] == 1
        (line,) = await lines_of_looks(sf, looks=2)
        assert (line["event"], line["topics"]) == (UNCONFIRMED, ["crate"])


async def test_an_owner_that_cannot_write_yet_is_told_once_and_so_is_its_end(ny: Site) -> None:
    """With how many records of the owner before it lacks, as `topic info` says of each partition."""
    stream = await ny.stream(SHIPS)
    topic = await stream.create_topic("box", 2)
    shard = stream.shard_for("box")
    given = topic._replace(epoch=7, version=1, since=((3, ((0, 0),)), (2, ((0, 0),))))
    await shard.submit(partial(put_topic, topic=given, origin=b"o" * 16, via=None))
    assert await lines_of_looks(ny) == []
    (line,) = await lines_of_looks(ny, looks=3)
    expected = (UNWRITABLE, "warning", SHIPS, ["box"], 1, 5)
    assert tuple(line[each] for each in ("event", "log_level", "stream", "topics", "total", "records")) == expected
    assert (await metric(ny, "pending_topics"), await info(ny, "box", "pendingrecords")) == (1, [3, 2])
    await taken_over(shard, topic.number, str(REPLICA))
    assert (await metric(ny, "pending_topics"), await info(ny, "box", "pendingrecords")) == (0, [0, 0])
    (line,) = await lines_of_looks(ny, looks=3)
    assert (line["event"], line["topics"], line["total"]) == (WRITABLE, ["box"], 1)


async def test_a_topic_that_comes_as_ones_own_and_lacks_records_is_told_too(ny: Site) -> None:
    """Nothing was here of it before, so no owner has changed here."""
    stream = await ny.stream(SHIPS)
    await ny.manager.owner_watch.look()
    shard, other = stream.shards[0], await stream.create_topic("other")
    number = other.number + SLICES
    given = other._replace(
        number=number, name="box", home="box", incarnation=b"i" * 16, epoch=7, since=((3, ((0, 0),)),)
    )
    await shard.submit(partial(put_topic, topic=given, origin=b"o" * 16, via=None))
    assert [(each["event"], each["topics"]) for each in await lines_of_looks(ny, looks=2)] == [(UNWRITABLE, ["box"])]


async def test_where_no_owner_has_changed_no_topic_is_looked_at(
    sf: Site, ny_and_carrier: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be a million."""
    await sf.manager.owner_watch.look()
    monkeypatch.setattr(OwnerWatch, "_apart", None)
    await sf.manager.owner_watch.look()


async def test_the_watch_runs_from_the_start_of_a_server_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without anybody's asking."""
    looks = asyncio.Queue[None]()

    async def look(_: OwnerWatch) -> None:
        looks.put_nowait(None)

    monkeypatch.setattr(OwnerWatch, "look", look)
    async with Site("sf", tmp_path, replace(STILL, owners_s=0.01)):
        await looks.get()
        await looks.get()
    assert not [each for each in asyncio.all_tasks() if "OwnerWatch" in str(each.get_coro())]
