"""Tells the log of topics that wait for long since their owner has changed: handed over to a replica that has not heard
of it, or owned here and not to be written, since records of the owner before are missing.

In: how links and topics stand, looked at once a minute; where no owner has changed, nothing is looked at. Out: a line
for all that have waited from one look to the next, and one for those of them that wait no more. Each topic is told
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.owner_changes import TopicPlace, owned_ones, pending_of
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.health.ailments import Ailments
from fairlead.gateway.links.regularly import Regularly
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.links.running.timing import Timing

T = TypeVar("T")
C = TypeVar("C")


@dataclass(slots=True)
class Waiting:
    """What was found at the looks so far."""

    now: frozenset[TopicPlace] = frozenset()
    told: frozenset[TopicPlace] = frozenset()

    def look(self, found: frozenset[TopicPlace]) -> tuple[frozenset[TopicPlace], frozenset[TopicPlace]]:
        """Which wait since the look before and were not told yet, and which were told and wait no more."""
        overdue, over = (found & self.now) - self.told, self.told - found
        self.now, self.told = found, (self.told - over) | overdue
        return overdue, over


@dataclass(slots=True)
class _Pending:
    """Of a stream."""

    changes: int = -1
    """How many changes of owners there were when it was looked at; -1: it was not."""
    waiting: Waiting = field(default_factory=Waiting)


class OwnerWatch:
    """Of all streams and links of a cluster; `start` and `close` enclose its life."""

    def __init__(self, cluster: Cluster, links: RunningLinks, ailments: Ailments, timing: Timing) -> None:
        self._cluster = cluster
        self._links = links
        self._ailments = ailments
        self._pending: Mapping[bytes, _Pending] = {}
        self._unconfirmed: Mapping[bytes, Waiting] = {}
        self._looks = Regularly(timing.owners_s, self.look)

    def start(self) -> None:
        """Begin to look."""
        self._looks.start()

    async def close(self) -> None:
        """End, and wait for that."""
        await self._looks.close()

    async def look(self) -> None:
        """At all of them once."""
        streams = list(self._cluster.streams())
        self._pending = {each.id: self._pending.get(each.id) or _Pending() for each in streams}
        for stream in streams:
            await self._look_at_stream(stream, self._pending[stream.id])
        links = list(self._links)
        self._unconfirmed = {each.record.id: self._unconfirmed.get(each.record.id) or Waiting() for each in links}
        for link in links:
            await self._look_at_link(link, self._unconfirmed[link.record.id])

    async def _look_at_stream(self, stream: Stream, known: _Pending) -> None:
        changes = sum(shard.state.topic_table.owner_changes for shard in stream.shards)
        if known.changes == changes and not known.waiting.now:
            return
        lacking = await self._apart(dict[TopicPlace, int], pending_of(stream))
        known.changes = changes
        overdue, over = known.waiting.look(frozenset(lacking))
        if overdue:
            stream.owner_log.unwritable(_names(stream, overdue), sum(lacking[each] for each in overdue))
        can_be_written = list(owned_ones(stream, stream.id, over))
        if can_be_written:
            stream.owner_log.writable(_names(stream, can_be_written))

    async def _look_at_link(self, link: RunningLink, waiting: Waiting) -> None:
        stream, owner = self._cluster.stream_by_id(link.record.source), link.record.replica_stream
        if stream is None or owner is None or link.record.side_copy is not None:
            return
        if not any(shard.state.topic_table.since for shard in stream.shards):
            return
        found = await self._apart(frozenset[TopicPlace], link.unconfirmed(stream))
        overdue, over = waiting.look(found)
        if overdue:
            stream.owner_log.unconfirmed(str(link.record.replica_path), _names(stream, overdue), self._why(link))
        confirmed = list(owned_ones(stream, owner, over))
        if confirmed:
            stream.owner_log.confirmed(str(link.record.replica_path), _names(stream, confirmed))

    def _why(self, link: RunningLink) -> str:
        if link.record.paused:
            return "the link is paused"
        ailment = self._ailments.of(link)
        return "" if ailment is None else str(ailment.error)

    async def _apart(self, of: Callable[[Iterable[T]], C], found: Iterable[T]) -> C:
        """All that is found, looked for on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._cluster.lookups, of, found)


def _names(stream: Stream, places: Iterable[TopicPlace]) -> list[str]:
    names = (stream.shards[shard].state.topic_table.names[number] for shard, number in sorted(places))
    return [name for name in names if name is not None]
