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


def _sent_from(link: RunningLink, shard: int) -> dict[int, int]:
    """By slice, the commit from which on batches are still to be sent."""
    begin = link.record.begins_at(shard)
    return {each: max(at, begin) for each, at in link.positions.effective_of(shard).items()}


def backlog(link: RunningLink, stream: Stream) -> Backlog:
    """What is pending, by the log's own counts."""
    parts = [
        part
        for number, shard in enumerate(stream.shards)
        for part in shard.announced.pending(_sent_from(link, number)).values()
    ]
    full = [part for part in parts if part.records]
    return Backlog(
        records=sum(part.records for part in full),
        size_bytes=sum(part.bytes for part in full),
        oldest_ms=min((part.oldest_ms or 0 for part in full), default=0),
        newest_ms=max((part.newest_ms or 0 for part in full), default=0),
        slices=len(full),
    )


def has_begun(link: RunningLink, stream: Stream) -> bool:
    """The destination has heard where the past ends that it does not get; of a link that brings all, always."""
    return all(
        at >= min(link.record.begins_at(number), shard.announced.news_end)
        for number, shard in enumerate(stream.shards)
        for at in link.positions.effective_of(number).values()
    )
