"""What links and the logs of their sources tell each other: readers hear of new ends, merging hears how far links are.

Owns which logs are followed. Always true: a deletion is remembered until every link has passed it, also one that is
paused or unheard of yet.
"""

from __future__ import annotations

from functools import partial

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.grants.connected_reader import ShardKey
from fairlead.gateway.links.grants.grant_table import GrantTable
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.streamlog.writing.writer import Announcement


class SourceLogs:
    """The logs of all source streams of a cluster."""

    def __init__(self, cluster: Cluster, links: RunningLinks, table: GrantTable) -> None:
        self._cluster = cluster
        self._links = links
        self._table = table
        self._followed: set[ShardKey] = set()

    def follow(self, stream: Stream) -> None:
        """From now on tell readers of new commits."""
        for number, shard in enumerate(stream.shards):
            key = (stream.id, number)
            if key not in self._followed:
                self._followed.add(key)
                shard.add_listener(partial(self._announced, key))

    def _announced(self, key: ShardKey, announcement: Announcement) -> None:
        if announcement.non_local:
            for reader in self._table.readers:
                reader.moved(key)

    def note_passed(self, link: RunningLink) -> None:
        """A link may have come further."""
        stream = self._cluster.stream_by_id(link.record.source)
        if stream is not None and link.note_passed(len(stream.shards)):
            self.tell_upkeep(stream)

    def tell_all_upkeep(self) -> None:
        """Links have come or gone."""
        for stream in self._cluster.streams():
            self.tell_upkeep(stream)

    def tell_upkeep(self, stream: Stream) -> None:
        """How far the slowest link of a stream is; nothing if it has none."""
        links = self._links.of_source(stream.id)
        for number, shard in enumerate(stream.shards):
            passed = [link.passed[number] if link.passed else 0 for link in links]
            shard.links_passed = min(passed, default=None)
