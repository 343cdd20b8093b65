"""Groups over a cut: where a partition's log was cut, what its consumers have read from there on is not in it.

Consumers that know epochs (Java, librdkafka) find that out by themselves. Others would read on at offsets at which
other records stand by then, and skip those below. So the groups that subscribe to the topic are made to rebalance:
their members ask for the cursors anew, which end where the histories part (`Cursor.served`). What a member of a
generation from before the cut still commits counts up to the cut (`requests/cursors.py`).

A group's record says which cuts its generation knows, so a cut that a server made just before it was killed is found
when the next one starts.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

from fairlead.broker.group_logs.subscriptions import CONSUMER, subscribed_topics
from fairlead.broker.groups.coordinator import Coordinator
from fairlead.broker.groups.group import Group
from fairlead.broker.groups.records import Cuts
from fairlead.broker.groups.values import GroupKey
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.topics import Found, ListenerView
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import of_shard_at
from fairlead.model.errors import InvalidName, NotFound
from fairlead.protocol.wire import Malformed
from fairlead.streamlog.writing.sealed import Announcement
from fairlead.streamlog.writing.shard import Shard


class _Told(NamedTuple):
    """A group that was made to rebalance in a generation."""

    key: GroupKey
    generation: int


class CutWatch:
    """Looks for cuts in the logs of a cluster, and after the groups that read there."""

    def __init__(self, cluster: Cluster, groups: Coordinator) -> None:
        self._cluster = cluster
        self._groups = groups
        self._watched: set[Shard] = set()
        self._looking: asyncio.Task[None] | None = None
        self._again = False
        self._closed = False
        self._told: set[_Told] = set()
        cluster.listen(self._attach)
        self._attach()

    def look(self) -> None:
        """Find the groups that read what was cut, soon; once the groups of before the start are known, and after a cut.
        Many cuts that come together, as of a takeover of thousands of topics, are one look."""
        self._again = True
        if self._looking is None and not self._closed:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    @property
    def idle(self) -> bool:
        """All groups were looked at since the last cut."""
        return self._looking is None

    def makes_wait(self, found: Found, partition: int, offset: int) -> bool:
        """Whether a consumer at an offset of before a cut of the partition is to wait: groups are still to be told, so
        it may belong to one, and would go by its `auto.offset.reset` if it were told that the offset is out of range.
        """
        if not any(cut.offset < offset for cut in found.shard.state.cuts_of(found.topic.number, partition)):
            return False
        return not self.idle or any(self._groups.is_in(*told) for told in self._told)

    def close(self) -> None:
        """Look no more."""
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()

    def _attach(self) -> None:
        shards = {shard for stream in self._cluster.streams() for shard in stream.shards}
        for shard in shards - self._watched:
            shard.add_listener(partial(self._announced, shard))
        self._watched = shards

    def _announced(self, shard: Shard, announcement: Announcement) -> None:
        if shard.state.cuts_end > announcement.first:
            self.look()

    async def _look(self) -> None:
        pace = Pace()
        try:
            while self._again:
                self._again = False
                self._told = {told for told in self._told if self._groups.is_in(*told)}
                for group in self._groups.behind_cuts():
                    await self._look_at(group, pace)
        finally:
            self._looking = None

    async def _look_at(self, group: Group, pace: Pace) -> None:
        known, now = group.known_cuts, self._groups.cuts_now()
        is_cut = await self._reads_what_was_cut(group, known, pace)
        if group.known_cuts is not known:
            return  # a generation has begun that knows more
        if is_cut:
            self._told.add(_Told(group.key, group.generation))
            group.rejoin()
        else:
            group.known_cuts = now

    async def _reads_what_was_cut(self, group: Group, known: Cuts, pace: Pace) -> bool:
        listener = ListenerView(self._cluster, group.key.namespace or None)
        for member in group.members:
            try:
                topics = subscribed_topics(group.protocol_type, member.subscription(group.protocol))
            except Malformed:
                if group.protocol_type == CONSUMER:
                    return True  # it may read anything
                continue
            for topic in topics:
                if _is_cut(listener, topic, known):
                    return True
                await pace.turn()
        return False


def _is_cut(listener: ListenerView, name: str, known: Cuts) -> bool:
    try:
        found = listener.find(name)
    except (NotFound, InvalidName):
        return False
    state, number = found.shard.state, found.topic.number
    first = of_shard_at(known.get(found.stream.id.hex(), ()), found.stream.shards.index(found.shard))
    if state.cuts_end <= first:
        return False
    cuts = (cut for partition in range(found.topic.partitions) for cut in state.cuts_of(number, partition))
    return any(cut.commit >= first for cut in cuts)
