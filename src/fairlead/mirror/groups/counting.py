"""How many records of a stretch of the source were mirrored: the headers of its batches are read, as they were when it
was mirrored. Batches of aborted transactions, markers, and what came from the destination, do not count.

Never too many: what compaction or retention has removed since is missing, and where reading ends early, so does the
count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from fairlead.mirror.books.origins import Origins
from fairlead.mirror.bytes.committed import committed
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.mirror.ports import EARLIEST, Answer, Cluster, Feed, Place, Trouble
from fairlead.model.errors import BadRequest, CorruptBatch, TryAgain
from fairlead.protocol.batch import records_of

BYTES_MAX: Final = 64 * 1024 * 1024
"""So much of one stretch is read at most: sixteen times what lies between two places that are remembered of a partition
of less than 8 GB."""
WAIT_SECONDS: Final = 30.0


class Stretch(NamedTuple):
    """Offsets of a partition, from `begin` until before `end`."""

    place: Place
    topic_id: bytes
    begin: int
    end: int


class _Work:
    """The stretches of one partition, one after the other."""

    def __init__(self, stretches: list[Stretch]) -> None:
        self.left = stretches
        self.begin()

    def begin(self) -> None:
        self.at = self.left[-1].begin
        self.records = 0
        self.bytes = 0

    @property
    def stretch(self) -> Stretch:
        return self.left[-1]


class Counting:
    """Reads from one source."""

    def __init__(self, cluster: Cluster, origins: Origins) -> None:
        self._cluster = cluster
        self._origins = origins

    async def counts(self, stretches: Sequence[Stretch]) -> Mapping[Stretch, int]:
        """How many records of each were mirrored.

        Raises:
            TryAgain: the source does not answer.
            BadRequest: its registry of producers cannot be read.
        """
        found: dict[Stretch, int] = {}
        works: dict[Place, _Work] = {}
        for stretch in sorted(set(stretches), reverse=True):
            if stretch.place in works:
                works[stretch.place].left.append(stretch)
                works[stretch.place].begin()
            else:
                works[stretch.place] = _Work([stretch])
        if not works:
            return found
        feed = self._cluster.feed()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._all(feed, works, found)
        except TimeoutError:
            raise TryAgain(feed.down or "the source has not sent what a group's offset needs in time") from None
        finally:
            await feed.close()
        return found

    async def _all(self, feed: Feed, works: dict[Place, _Work], found: dict[Stretch, int]) -> None:
        for place, work in works.items():
            feed.assign(place, work.stretch.topic_id, work.at, -1)
        while works:
            for answer in await feed.next():
                of_place = works.get(answer.place)
                if of_place is not None and await self._take(feed, of_place, answer):
                    self._next(feed, answer.place, works, found)

    def _next(self, feed: Feed, place: Place, works: dict[Place, _Work], found: dict[Stretch, int]) -> None:
        """The first stretch of a partition is done."""
        work = works[place]
        found[work.left.pop()] = work.records
        feed.remove(place)
        if work.left:
            work.begin()
            feed.assign(place, work.stretch.topic_id, work.at, -1)
        else:
            del works[place]

    async def _take(self, feed: Feed, work: _Work, answer: Answer) -> bool:
        """Count what came; whether the first stretch of a partition is done."""
        if answer.trouble is Trouble.OUT_OF_RANGE:
            start = (await self._cluster.offsets([answer.place], EARLIEST))[answer.place]
            if not work.at < start < work.stretch.end:
                return True
            work.at = start
            feed.assign(answer.place, work.stretch.topic_id, start, -1)
            return False
        if answer.trouble is not None:
            return True
        found = committed(answer.records, answer.aborted, work.at, "")
        await self._origins.learn(batch.header.producer_id for batch in found.batches)
        for batch in found.batches:
            if self._origins.of(batch.header.producer_id) is not None:
                work.records += _below(batch, work.stretch.end)
        work.at = found.next_offset
        work.bytes += len(answer.records)
        return work.at >= work.stretch.end or found.damage is not None or work.bytes >= BYTES_MAX


def _below(batch: SourceBatch, end: int) -> int:
    """How many of the records that count lie before an offset."""
    header = batch.header
    if header.record_count == header.last_offset - header.base_offset + 1:
        return max(min(end, header.last_offset + 1) - batch.low, 0)
    if batch.low == header.base_offset and header.last_offset < end:
        return header.record_count
    with suppress(CorruptBatch, BadRequest):
        return sum(batch.low <= record.offset < end for record in records_of(batch.data, header))
    return 0
