"""Clusters of one process with a reader and a sink beside each, linked in any shape, and what they hold compared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.model.names import StreamPath
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.streamlog.world import values_at
from tests.support.waiting import until

SHIPS = "/ships"
WAIT_SECONDS = 60


class Held(NamedTuple):
    """What a cluster has of one partition."""

    end: int
    values: dict[int, bytes | None]


def path_at(site: Site, path: str = SHIPS) -> StreamPath:
    """The path as other clusters name it."""
    return site.cluster.global_path(path)


@asynccontextmanager
async def fleet(folder: Path, *names: str, **options: Any) -> AsyncIterator[list[Site]]:
    """Clusters with an empty stream each and a running replicator's task each."""
    async with AsyncExitStack() as started:
        sites = [await started.enter_async_context(Site(name, folder, **options)) for name in names]
        for site in sites:
            await site.stream(SHIPS)
            await started.enter_async_context(task(site))
        yield sites


async def link(source: Site, replica: Site) -> None:
    """A link between their streams, named on both sides."""
    await replica.links.add_upstream(SHIPS, path_at(source))
    await source.links.add_replica(SHIPS, path_at(replica), urls=replica.urls)


def held(site: Site, path: str = SHIPS) -> dict[tuple[str, int], Held]:
    """All records of a stream by topic, partition and offset."""
    stream = site.cluster.stream(path)
    found = {}
    for topic in stream.topics():
        shard = stream.shard_for(topic.name)
        for partition in range(topic.partitions):
            end = shard.state.partition(topic.number, partition).end
            found[topic.name, partition] = Held(end, values_at(shard, topic.number, partition))
    return found


def up_to_date(site: Site) -> bool:
    """Each of the stream's links says that nothing is pending and nothing behind."""
    return all(status["isUptodate"] and not status["conflicts"] for status in site.links.list(SHIPS))


async def alike(*sites: Site) -> None:
    """Wait until all links have carried all, and check that all clusters hold the same."""
    await until(lambda: all(map(up_to_date, sites)) and _same_ends(sites))
    wanted = held(sites[0])
    for site in sites[1:]:
        assert held(site) == wanted


def _same_ends(sites: tuple[Site, ...]) -> bool:
    first = _ends(sites[0])
    return all(_ends(site) == first for site in sites[1:])


def _ends(site: Site) -> dict[tuple[bytes, int], int]:
    stream = site.cluster.stream(SHIPS)
    return {
        (topic.incarnation, partition): stream.shard_for(topic.name).state.partition(topic.number, partition).end
        for topic in stream.topics()
        for partition in range(topic.partitions)
    }


def ends_of_logs(*sites: Site) -> list[int]:
    """Where the logs of the streams end: a commit more, and it is another number."""
    return [shard.announced.end for site in sites for shard in site.cluster.stream(SHIPS).shards]
