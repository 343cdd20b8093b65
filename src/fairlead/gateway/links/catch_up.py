"""What a replicator that ends by itself (`--once`) is to carry, and what of that is left.

In: when it begins, nothing; when it has carried, what it was told then. Out: where each link's logs end, and how much
is lacking below that. Owns nothing: the replicator keeps the ends, so that this server may start again meanwhile.
Always true: what groups had committed when it began is in the logs below the ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.cluster.cluster import Cluster
from fairlead.gateway.links.cursor_news import CursorNews
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.model.errors import InvalidValue
from fairlead.wire.control import LeftWanted, LinkEnds, LinksLeft


class CatchUp:
    """Of all links of a cluster that are not paused."""

    def __init__(self, cluster: Cluster, links: RunningLinks, news: CursorNews) -> None:
        self._cluster = cluster
        self._links = links
        self._news = news

    async def left(self, asked: LeftWanted) -> LinksLeft:
        """What links lack of what was there when the replicator began; it begins now if it names no ends.

        Raises:
            InvalidValue: links cannot be told what groups have committed, so not all can be carried.
        """
        ends = asked.since
        if ends is None:
            if not await self._news.tell_now():
                raise InvalidValue("committed offsets could not be told to links; the server's log says why")
            ends = tuple(self._ends())
        lacks = [self._lack(each) for each in ends]
        commits, partitions = (sum(counts) for counts in zip((0, 0), *lacks, strict=True))
        return LinksLeft(ends, sum(any(lack) for lack in lacks), commits, partitions)

    def _ends(self) -> Iterator[LinkEnds]:
        for link in self._links:
            stream = self._cluster.stream_by_id(link.record.source)
            if link.record.paused or stream is None:
                continue
            ends = [shard.announced.end for shard in stream.shards]
            yield LinkEnds(link.record.id, tuple(map(min, ends, link.record.until or ends)))

    def _lack(self, at: LinkEnds) -> tuple[int, int]:
        """Commits, and partitions that are behind; of a link that was removed or paused meanwhile, none."""
        link = self._links.get(at.link)
        if link is None or link.record.paused:
            return 0, 0
        passed = link.positions.passed(len(at.ends))
        return sum(max(end - done, 0) for end, done in zip(at.ends, passed, strict=True)), max(link.behind, 0)
