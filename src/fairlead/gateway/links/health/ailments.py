"""What is wrong with links, and since when: the error of the link itself, a replicator that is down, or a standstill.

Asked for when somebody looks; no timer runs for it. Owns nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.errors import LinkStalled
from fairlead.gateway.links.replicator_life import Ailment, ReplicatorLife
from fairlead.gateway.links.running.backlog import backlog
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.links.running.timing import Timing


class Ailments:
    """Of all links of a cluster."""

    def __init__(self, cluster: Cluster, links: RunningLinks, replicator: ReplicatorLife, timing: Timing) -> None:
        self._cluster = cluster
        self._links = links
        self._replicator = replicator
        self._stalled_ms = int(timing.stalled_s * 1000)

    def all(self) -> Iterator[tuple[RunningLink, Ailment]]:
        """Every link that has one, copies included; that of a side copy is its link's."""
        for link in self._links:
            if link.record.side_copy is not None:
                continue
            found = self.of(link)
            if found is not None:
                yield link, found

    def of(self, link: RunningLink) -> Ailment | None:
        """What is wrong with a link; its own error says most. The age is that of the oldest fault."""
        if link.record.paused:
            return None
        stream = self._cluster.stream_by_id(link.record.source)
        ours = [link, *filter(None, [self._links.side_copy_of(link)])]
        own = [Ailment(each.error, each.failing_since_ms) for each in ours if each.error is not None]
        found = [*own, self._replicator.ailment(), None if stream is None else self._standstill(link, stream)]
        faults = [each for each in found if each is not None]
        return Ailment(faults[0].error, min(each.since_ms for each in faults)) if faults else None

    def _standstill(self, link: RunningLink, stream: Stream) -> Ailment | None:
        """Records wait, and for a minute none has arrived and none of them is younger."""
        clock = self._cluster.clock
        still_ms = clock.monotonic_ms() - link.moved_ms
        if link.state.still or still_ms < self._stalled_ms:
            return None
        left = backlog(link, stream)
        still_ms = min(still_ms, clock.wall_ms() - left.oldest_ms)
        if not left.records or still_ms < self._stalled_ms:
            return None
        why = f"; the last error was: {link.last_error}" if link.last_error else ""
        return Ailment(LinkStalled(f"records wait, and none arrives{why}"), clock.wall_ms() - still_ms)
