"""A stream with as many replicas as there may be, and a replica with as many upstreams."""

from __future__ import annotations

from pathlib import Path

from fairlead.model.limits import REPLICAS_PER_STREAM_MAX, UPSTREAMS_PER_STREAM_MAX
from tests.cases.fleet import held, path_at
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import until

SHARDS = 4
FROM = "/from"
REPLICAS = [f"/to{number:02}" for number in range(REPLICAS_PER_STREAM_MAX)]


TO = "/to"
SOURCES = [f"/from{number:02}" for number in range(UPSTREAMS_PER_STREAM_MAX)]


def up_to_date(site: Site, path: str) -> bool:
    """Every link of the stream says so."""
    return all(status["isUptodate"] for status in site.links.list(path))


async def test_64_replicas_of_4_shards_all_move(tmp_path: Path) -> None:
    """Each shard of each replica is a grant of its own: 256 of them are read by one task, and none waits for another
    to end, which links never do."""
    async with Site("a", tmp_path) as a, Site("b", tmp_path) as b, task(a):
        await a.stream(FROM, SHARDS)
        for number in range(2 * SHARDS):
            await a.write(FROM, f"t{number}", b"before")
        for replica in REPLICAS:
            await b.stream(replica, SHARDS)
            await b.links.add_upstream(replica, path_at(a, FROM))
            await a.links.add_replica(FROM, path_at(b, replica), urls=b.urls)
        await until(lambda: up_to_date(a, FROM))
        for number in range(2 * SHARDS):
            await a.write(FROM, f"t{number}", b"after")
        await until(lambda: up_to_date(a, FROM))
        wanted = held(a, FROM)
        assert all(found.end == 2 for found in wanted.values())
        for replica in REPLICAS:
            assert held(b, replica) == wanted


async def test_64_upstreams_of_one_replica_all_move(tmp_path: Path) -> None:
    """Others stop to receive after some streams, or lose what is there when one more is added."""
    async with Site("a", tmp_path) as a, Site("b", tmp_path) as b, task(a):
        await b.stream(TO)
        for number, source in enumerate(SOURCES):
            await a.stream(source)
            await a.write(source, f"t{number}", b"before")
            await b.links.add_upstream(TO, path_at(a, source))
            await a.links.add_replica(source, path_at(b, TO), urls=b.urls)
        await until(lambda: all(up_to_date(a, source) for source in SOURCES))
        for number, source in enumerate(SOURCES):
            await a.write(source, f"t{number}", b"after")
        await until(lambda: all(up_to_date(a, source) for source in SOURCES))
        assert {topic: found.end for (topic, _), found in held(b, TO).items()} == {
            f"t{number}": 2 for number in range(len(SOURCES))
        }
