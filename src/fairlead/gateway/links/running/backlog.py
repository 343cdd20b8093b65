"""What a link still has to bring, by the log's own counts."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.cluster.stream import Stream
from fairlead.gateway.links.running.running_link import RunningLink


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the destination has not recorded yet; times in milliseconds since 1970, 0 if there is none."""

    records: int
    size_bytes: int
    oldest_ms: int
    newest_ms: int
    slices: int


def backlog(link: RunningLink, stream: Stream) -> Backlog:
    """What is pending, by the log's own counts."""
    parts = [
        part
        for number, shard in enumerate(stream.shards)
        for part in shard.announced.pending(link.positions.effective_of(number)).values()
    ]
    full = [part for part in parts if part.records]
    return Backlog(
        records=sum(part.records for part in full),
        size_bytes=sum(part.bytes for part in full),
        oldest_ms=min((part.oldest_ms or 0 for part in full), default=0),
        newest_ms=max((part.newest_ms or 0 for part in full), default=0),
        slices=len(full),
    )
