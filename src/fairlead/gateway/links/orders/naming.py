"""Streams and links as people name them: a path without a cluster is one of this cluster.

Out: global paths, records of links that are found or to be made. It never writes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import Begin, LinkRecord
from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import UnknownCluster
from fairlead.model.names import StreamPath
from fairlead.streamlog.writing.shard import Shard


class Naming:
    """In one cluster."""

    def __init__(self, cluster: Cluster, clock: Clock, randomness: Randomness) -> None:
        self._cluster = cluster
        self._clock = clock
        self._randomness = randomness

    def global_path(self, path: StreamPath) -> StreamPath:
        """The path with its cluster."""
        return self._cluster.global_path(path.path) if path.cluster is None else path

    def is_here(self, path: StreamPath) -> bool:
        """A global path is one of this cluster."""
        return path.cluster == self._cluster.name

    def find(self, path: str, replica: StreamPath) -> LinkRecord:
        """The standing link of a stream to a replica.

        Raises:
            UnknownStream, NotFound.
        """
        return self._cluster.links.find(self._cluster.stream(path).id, self.global_path(replica))

    def new_link(
        self,
        stream: Stream,
        target: StreamPath,
        urls: Sequence[str],
        *,
        paused: bool = False,
        once: tuple[int, ...] | None = None,
        from_now: bool = False,
        **options: Any,
    ) -> LinkRecord:
        """The record of a link that is to be made, beginning now; `options` are further fields of it. `from_now`: what
        is there already does not go over it.

        Raises:
            InvalidValue: an option cannot be.
            UnknownCluster: the replica is in another cluster and there is no address of it.
        """
        if not urls and not self.is_here(target):
            raise UnknownCluster(f"{target}: the addresses of cluster {target.cluster} are not known")
        return LinkRecord(
            id=self._randomness.id16(),
            source=stream.id,
            source_path=stream.path,
            replica_path=target,
            replica_urls=tuple(urls),
            paused=paused,
            created_at=self._clock.wall_ms(),
            once=once,
            created=stream.ends,
            begin=tuple(map(_now, stream.shards)) if from_now else (),
            **options,
        )


def _now(shard: Shard) -> Begin:
    return Begin(shard.announced.end, tuple(shard.state.next_counter))
