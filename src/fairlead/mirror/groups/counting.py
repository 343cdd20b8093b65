"""How many records of a stretch of the source were mirrored: the headers of its batches are read, as they were when it
was mirrored. Batches of aborted transactions, markers, and what came from the destination, do not count.

Never too many: what compaction or retention has removed since is missing, and where reading ends early, so does the
count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from fairlead.mirror.books.origins import Origins
from fairlead.mirror.bytes.committed import committed
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.mirror.ports import EARLIEST, MOMENT_SECONDS, Answer, Cluster, Feed, Place, Trouble
from fairlead.model.errors import BadRequest, CorruptBatch, FairleadError
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
    """A stretch that is read."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        self.at = stretch.begin
        self.records = 0
        self.bytes = 0


class Counting:
    """Reads from one source. What takes longer than `WAIT_SECONDS` goes on with the next question."""

    def __init__(self, cluster: Cluster, origins: Origins) -> None:
        self._cluster = cluster
        self._origins = origins
        self._found: dict[Stretch, int] = {}
        """What was counted, of those that were asked for last."""
        self._begun: dict[Stretch, _Work] = {}
        """What was not read to its end then."""

    async def counts(self, stretches: Iterable[Stretch]) -> Mapping[Stretch, int]:
        """How many records of each were mirrored; those that take longer are missing.

        Raises:
            TryAgain: the source's registry of producers is not told.
            BadRequest: it cannot be read.
        """
        asked = sorted(set(stretches), reverse=True)
        self._found = {stretch: self._found[stretch] for stretch in asked if stretch in self._found}
        left: dict[Place, list[Stretch]] = {}
        for stretch in asked:
            if stretch not in self._found:
                left.setdefault(stretch.place, []).append(stretch)
        works = {place: self._work(its) for place, its in left.items()}
        if works:
            feed = self._cluster.feed()
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._all(feed, works, left)
            except TimeoutError:
                pass
            finally:
                await feed.close()
        self._begun = {work.stretch: work for work in works.values()}
        return self._found

    def _work(self, left: list[Stretch]) -> _Work:
        """The next of a partition's."""
        stretch = left.pop()
        return self._begun.get(stretch) or _Work(stretch)

    async def _all(self, feed: Feed, works: dict[Place, _Work], left: Mapping[Place, list[Stretch]]) -> None:
        for place, work in works.items():
            feed.assign(place, work.stretch.topic_id, work.at, -1)
        while works:
            for answer in await feed.next():
                of_place = works.get(answer.place)
                if of_place is not None and await self._take(feed, of_place, answer):
                    self._next(feed, of_place, works, left[answer.place])

    def _next(self, feed: Feed, work: _Work, works: dict[Place, _Work], left: list[Stretch]) -> None:
        """A stretch of a partition is done."""
        place = work.stretch.place
        self._found[work.stretch] = work.records
        feed.remove(place)
        if left:
            works[place] = work = self._work(left)
            feed.assign(place, work.stretch.topic_id, work.at, -1)
        else:
            del works[place]

    async def _take(self, feed: Feed, work: _Work, answer: Answer) -> bool:
        """Count what came; whether the stretch is done."""
        if answer.trouble is Trouble.OUT_OF_RANGE:
            start = (await self._cluster.told_offsets([answer.place], EARLIEST, MOMENT_SECONDS))[answer.place]
            if isinstance(start, FairleadError) or not work.at < start < work.stretch.end:
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
