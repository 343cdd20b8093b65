"""What the server says to one reader task: grants, and the objects that the log of each granted shard consists of.

Messages wait here until the socket takes them; while it is busy, new commits of a shard gather into one announcement.
A shard is followed only as long as the reader holds a grant of it.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.topic_filter import LinkTopics
from fairlead.gateway.links.grants.outbox import Outbox
from fairlead.gateway.links.passing import passing_numbers
from fairlead.model.errors import InvalidValue
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.control import (
    Announce,
    Credit,
    Grant,
    KafkaGrant,
    ListObjects,
    Locate,
    Located,
    Passing,
    PassingWanted,
    ReaderHello,
    RepairGrant,
    TopicName,
    Topics,
    TopicsWanted,
    Withdraw,
)

OBJECTS_PER_MESSAGE_MAX = 2000
SLOTS_MAX = 4096
"""Grants that one worker may ask for at a time."""
REPORT_SECONDS = 10.0
"""A reader says how far it is when it is given a grant, and then at each change. One that does not is stuck or gone:
with its grants a link would stand still, and nobody would say why."""
ANNOUNCE_INTERVAL_SECONDS = 0.008
"""Between two announcements of a busy log, so that commits gather; a lone commit after a pause is announced at once."""

ShardKey = tuple[bytes, int]
"""(id of the source stream, shard)."""


@dataclass(frozen=True, slots=True)
class _Name:
    """Name the objects from a commit on; built only when it is sent, so that it is fresh."""

    key: ShardKey
    first: int


class ConnectedReader:
    """One connected reader task."""

    def __init__(
        self,
        cluster: Cluster,
        hello: ReaderHello,
        announce_interval_seconds: float = ANNOUNCE_INTERVAL_SECONDS,
        report_seconds: float = REPORT_SECONDS,
    ) -> None:
        if not 0 < hello.slots <= SLOTS_MAX:
            raise InvalidValue(f"{hello.slots:,} slots; a worker has 1 to {SLOTS_MAX:,}")
        self.worker = hello.worker
        self.slots = hello.slots
        self._cluster = cluster
        self._outbox = Outbox()
        self._filters: dict[int, LinkTopics] = {}
        """By grant, which topics it brings; a grant that is missing brings all."""
        self._unreported: dict[int, asyncio.TimerHandle] = {}
        self._report_seconds = report_seconds
        self._moved: set[ShardKey] = set()
        self._named: dict[ShardKey, int] = {}
        self._users: Counter[ShardKey] = Counter()
        self._interval = announce_interval_seconds
        self._announced_at = -math.inf
        self._due: asyncio.TimerHandle | None = None

    def grant(self, message: Grant, passing: LinkTopics | None = None) -> None:
        """Give a grant, then the objects from where it is read. `passing`: which topics it brings, if it is
        `filtered`."""
        key = (message.source.stream, message.shard)
        if passing is not None:
            self._filters[message.grant] = passing
        self._users[key] += 1
        self._put(message)
        self._put(_Name(key, min(message.starts.values())))
        self._expect_report(message.grant)

    def kafka(self, message: KafkaGrant) -> None:
        """Give partitions of a Kafka cluster."""
        self._put(message)
        self._expect_report(message.grant)

    def repair(self, message: RepairGrant) -> None:
        """Give a repair; its reader asks for objects with Locate."""
        self._put(message)
        self._expect_report(message.grant)

    def _expect_report(self, grant: int) -> None:
        loop = asyncio.get_running_loop()
        why = f"{self.worker} has said nothing of a grant for {self._report_seconds:g} s"
        self._unreported[grant] = loop.call_later(self._report_seconds, self._outbox.lose, why)

    def heard(self, grant: int | None = None) -> None:
        """It has said something of a grant; or, with None, something that tells that it lives."""
        for each in list(self._unreported) if grant is None else [grant]:
            timer = self._unreported.pop(each, None)
            if timer is not None:
                timer.cancel()

    async def until_lost(self) -> None:
        """Wait until this reader was given up: it says nothing, or does not read what is said. What it held is then
        given to others.

        Raises:
            InvalidValue: the reason.
        """
        await self._outbox.until_lost()

    def withdraw(self, grant: int, key: ShardKey | None, reason: str) -> None:
        """Take a grant back."""
        self.heard(grant)
        self.release(key)
        self._filters.pop(grant, None)
        self._put(Withdraw(grant, reason))

    def credit(self, grant: int, frames: int, size_bytes: int) -> None:
        """Say how much of a grant its destination has answered."""
        self._put(Credit(grant, frames, size_bytes))

    def release(self, key: ShardKey | None) -> None:
        """A grant of this shard has ended; with the last one the shard is followed no more."""
        if key is None or key not in self._users:
            return
        self._users[key] -= 1
        if self._users[key] <= 0:
            del self._users[key]
            self._named.pop(key, None)
            self._moved.discard(key)

    def moved(self, key: ShardKey) -> None:
        """A shard has a new end; said as soon as the socket is free, and the last time was long enough ago."""
        if key not in self._users:
            return
        self._moved.add(key)
        loop = asyncio.get_running_loop()
        wait_seconds = self._announced_at + self._interval - loop.time()
        if wait_seconds <= 0:
            self._outbox.wake()
        elif self._due is None:
            self._due = loop.call_later(wait_seconds, self._announce_due)

    def _announce_due(self) -> None:
        self._due = None
        self._outbox.wake()

    def list_again(self, asked: ListObjects) -> None:
        """Answer a reader that met a missing object."""
        self._put(_Name((asked.source, asked.shard), asked.from_commit))

    def name_topics(self, asked: TopicsWanted) -> None:
        """Answer what topic numbers mean; numbers of deleted topics are left out."""
        shard = self._shard((asked.source, asked.shard))
        found = [shard.state.topic(number) for number in asked.numbers] if shard else []
        names = tuple(TopicName(topic.number, topic.incarnation, topic.name) for topic in found if topic)
        self._put(Topics(asked.source, asked.shard, names))

    def name_passing(self, asked: PassingWanted) -> None:
        """Answer which topics a grant brings; none, if it does not stand any more."""
        shard, passing = self._shard((asked.source, asked.shard)), self._filters.get(asked.grant)
        found = () if shard is None or passing is None else passing_numbers(shard.state, passing, asked.numbers)
        self._put(Passing(asked.source, asked.shard, tuple(found)))

    async def locate(self, asked: Locate) -> None:
        """Answer where the rows of a partition lie from an offset on."""
        shard = self._shard((asked.source, asked.shard))
        if shard is None:
            return
        end = shard.announced.end
        objects = await asyncio.to_thread(shard.announced.locate, {slice_of_number(asked.number)})
        # They may hold what was announced, and merged, meanwhile: a repair reads it too, and says so.
        end = max([end, *(each.end for each in objects)])
        cuts = shard.state.dead_in(asked.number, asked.partition)
        self._put(
            Located(
                asked.source,
                asked.shard,
                asked.number,
                asked.partition,
                asked.offset,
                objects=tuple(objects),
                end=end,
                cuts=tuple(cuts),
            )
        )

    async def outgoing(self) -> list[object]:
        """Wait until there is something to say, and return all of it."""
        messages: list[object] = []
        for message in await self._outbox.outgoing():
            messages.extend(self._announce(message.key, message.first) if isinstance(message, _Name) else [message])
        moved, self._moved = self._moved, set()
        if moved:
            self._announced_at = asyncio.get_running_loop().time()
        for key in moved:
            messages.extend(self._announce(key, None))
        return messages

    def _put(self, message: object) -> None:
        self._outbox.put(message)

    def _announce(self, key: ShardKey, first: int | None) -> Iterator[Announce]:
        """Objects from `first` on, as a new list; or, with None, those that were not named yet."""
        shard = self._shard(key)
        if shard is None or key not in self._users:
            return
        start = self._named.get(key, 0) if first is None else first
        end = shard.announced.end
        objects = shard.announced.objects(start, end) if start < end else []
        self._named[key] = end
        for index in range(0, max(len(objects), 1), OBJECTS_PER_MESSAGE_MAX):
            part = tuple(objects[index : index + OBJECTS_PER_MESSAGE_MAX])
            # Several objects may stand for one run of commits: it may be read when the last of them is named.
            following = objects[index + len(part) : index + len(part) + 1]
            part_end = min(part[-1].end, following[0].first) if following else end
            cuts = tuple(shard.state.dead_from(start)) if index == 0 else ()
            yield Announce(*key, end=part_end, objects=part, reset=first is not None and index == 0, cuts=cuts)

    def _shard(self, key: ShardKey) -> Shard | None:
        stream = self._cluster.stream_by_id(key[0])
        return stream.shards[key[1]] if stream is not None and key[1] < len(stream.shards) else None
