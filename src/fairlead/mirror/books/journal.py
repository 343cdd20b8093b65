"""Small compacted topics, read from their start to their end: positions, and the registry of producers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final

from fairlead.mirror.bytes.committed import committed
from fairlead.mirror.ports import EARLIEST, LATEST, LOG_END, Answer, Cluster, Feed, Place, Topic
from fairlead.model.errors import BadRequest, TryAgain
from fairlead.protocol.batch import records_of

_LOOKS: Final = 50
"""At a topic that was made and is not shown, before that is told."""
_LOOK_SECONDS: Final = 0.1
KeyAndValue = tuple[bytes | None, bytes | None]


class Journal:
    """Reads on from where it was each time it is asked."""

    def __init__(
        self, cluster: Cluster, topic: str, only: int | None = None, *, committed: bool = True, made: bool = False
    ) -> None:
        """`committed`: to the first open transaction, without those that were aborted. `made`: see there."""
        self.topic = topic
        self.made = made
        """The topic is there for sure. A broker that says otherwise has not heard of it yet, or not for a long time; a
        book that was taken for empty so would have all that it tells of done again."""
        self._committed = committed
        self._only = only
        """The one partition that is read; None: all."""
        self._cluster = cluster
        self._next: dict[Place, int] = {}

    async def news(self) -> Sequence[KeyAndValue]:
        """What has come since the last time, in the order of each partition; nothing, where there is no such topic.

        Raises:
            BadRequest: what it holds is damaged, or the topic went away while it was read.
            TryAgain: also where a topic that was made is not shown.
        """
        found = await self._shown()
        if found is None:
            return []
        places = [Place(self.topic, number) for number in range(found.partitions) if self._only in (None, number)]
        starts = await self._cluster.offsets(places, EARLIEST)
        ends = await self._cluster.offsets(places, LATEST if self._committed else LOG_END)
        begin = {place: max(self._next.get(place, 0), starts[place]) for place in places}
        return await self._read(found.topic_id, begin, {p: ends[p] for p in places if begin[p] < ends[p]})

    async def _shown(self) -> Topic | None:
        """What the cluster says of the topic; None: there is none."""
        for _ in range(_LOOKS):
            found = (await self._cluster.topics([self.topic])).get(self.topic)
            if found is not None or not self.made:
                return found
            await asyncio.sleep(_LOOK_SECONDS)
        raise TryAgain(
            f"topic {self.topic}, which was made before, is not there: if it was deleted, start the mirror anew"
        )

    async def _read(
        self, topic_id: bytes, begin: Mapping[Place, int], ends: Mapping[Place, int]
    ) -> Sequence[KeyAndValue]:
        records: list[KeyAndValue] = []
        if not ends:
            return records
        left = dict(ends)
        async with aclosing(_Closing(self._cluster.feed(committed=self._committed))) as feed:
            for place in ends:
                feed.of.assign(place, topic_id, begin[place], -1)
            while left:
                for answer in await feed.of.next():
                    at = self._take(answer, self._next.get(answer.place, begin[answer.place]), records)
                    self._next[answer.place] = at
                    if at >= left.get(answer.place, at):
                        left.pop(answer.place, None)
                        feed.of.remove(answer.place)
        return records

    def _take(self, answer: Answer, position: int, records: list[KeyAndValue]) -> int:
        place = f"topic {self.topic}, partition {answer.place.partition}"
        if answer.trouble is not None:
            raise BadRequest(f"{place} cannot be read: {answer.trouble}{answer.detail and ', '}{answer.detail}")
        found = committed(answer.records, answer.aborted, position, place)
        if found.damage is not None:
            raise found.damage
        for batch in found.batches:
            records += [
                (record.key, record.value)
                for record in records_of(batch.data, batch.header)
                if record.offset >= batch.low
            ]
        return found.next_offset


class _Closing:
    def __init__(self, feed: Feed) -> None:
        self.of = feed

    async def aclose(self) -> None:
        await self.of.close()
