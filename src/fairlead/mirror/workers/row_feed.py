"""A feed of the sink: what it answers comes in rows of the reader, or is fetched where a row names a range.

Rows of a partition are taken in order, whatever each of them is: a tail that follows a range is held until all of the
range is fetched. What was fetched beyond the end of a range is not handed out; the next row brings it. Tails that have
gathered are handed out together: the reader fetches on while the sink works, so a sink that is behind would else stay
so, with more and smaller answers to work on than if it had fetched by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from fairlead.kafka.fetching.positions import reach_of
from fairlead.mirror.ports import Answer, Feed, Place
from fairlead.mirror.workers.rows import Ahead, Tail
from fairlead.model.errors import Closed
from fairlead.protocol.batch import EXTENT_BYTES, LENGTH_END, MAGIC, extent_at

JOINED_BYTES_MAX: Final = 1_048_576
"""Of tails that are handed out together: a batch of a producer, which they may become."""


class _Partition:
    """One that is carried."""

    def __init__(self, topic_id: bytes, offset: int, epoch: int) -> None:
        self.topic_id = topic_id
        self.offset = offset
        """Where the next answer begins."""
        self.epoch = epoch
        self.rows: deque[Ahead | Tail] = deque()
        self.until = offset
        """Up to where it is fetched; at `offset`, it is not."""
        self.paused = False
        self.dead = False
        """It cannot be fetched from where it stands; until it is assigned again it is quiet."""

    @property
    def fetched(self) -> bool:
        """Whether a range of it is being fetched."""
        return self.until > self.offset


class RowFeed:
    """A `Feed` of the mirror's ports; `offer` takes rows."""

    def __init__(self, inner: Feed) -> None:
        self._inner = inner
        self._partitions: dict[Place, _Partition] = {}
        self._ready: deque[Place] = deque()
        """Partitions whose next row may be a tail that can be taken."""
        self._news = asyncio.Event()
        self._fetch: asyncio.Task[list[tuple[_Partition | None, Answer]]] | None = None

    @property
    def down(self) -> str | None:
        return self._inner.down

    def offer(self, place: Place, row: Ahead | Tail) -> None:
        """A row of a partition; nothing, if it is not carried any more."""
        partition = self._partitions.get(place)
        if partition is not None and not partition.dead:
            partition.rows.append(row)
            self._go_on(place, partition)

    def assign(self, place: Place, topic_id: bytes, offset: int, epoch: int) -> None:
        self.remove(place)
        self._partitions[place] = _Partition(topic_id, offset, epoch)

    def pause(self, place: Place) -> None:
        partition = self._partitions[place]
        partition.paused = True
        if partition.fetched:
            self._inner.pause(place)

    def resume(self, place: Place) -> None:
        partition = self._partitions[place]
        partition.paused = False
        if partition.fetched:
            self._inner.resume(place)
        self._go_on(place, partition)

    def remove(self, place: Place) -> None:
        partition = self._partitions.pop(place, None)
        if partition is not None and partition.fetched:
            self._inner.remove(place)

    async def next(self) -> Sequence[Answer]:
        while True:
            self._news.clear()
            if found := self._tails():
                return found
            if self._fetch is None:
                self._fetch = asyncio.create_task(self._fetched())
            news = asyncio.create_task(self._news.wait())
            try:
                await asyncio.wait((self._fetch, news), return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
            if self._fetch.done():
                fetch, self._fetch = self._fetch, None
                taken = (self._taken(partition, answer) for partition, answer in fetch.result())
                if found := [answer for answer in taken if answer is not None]:
                    return found

    async def close(self) -> None:
        if self._fetch is not None:
            self._fetch.cancel()
            with suppress(asyncio.CancelledError):
                await self._fetch
        await self._inner.close()

    # ------------------------------------------------------------ rows

    def _go_on(self, place: Place, partition: _Partition) -> None:
        """Look at the next rows: ranges join the one that is fetched, a tail waits for its end."""
        rows = partition.rows
        if partition.dead:
            rows.clear()
        while rows and isinstance(rows[0], Ahead):
            self._reach(place, partition, rows.popleft().until)
        if rows and not partition.fetched and not partition.paused:
            self._ready.append(place)
            self._news.set()

    def _reach(self, place: Place, partition: _Partition, until: int) -> None:
        fetched = partition.fetched
        partition.until = max(until, partition.until)
        if partition.fetched and not fetched:
            self._inner.assign(place, partition.topic_id, partition.offset, partition.epoch)
            if partition.paused:
                self._inner.pause(place)
            self._news.set()

    def _tails(self) -> list[Answer]:
        found: list[Answer] = []
        taken: set[Place] = set()
        for _ in range(len(self._ready)):
            place = self._ready.popleft()
            partition = self._partitions.get(place)
            if partition is None or place in taken:
                continue
            answer = self._tail(place, partition)
            if answer is not None:
                taken.add(place)
                found.append(answer)
            self._go_on(place, partition)
        return found

    def _tail(self, place: Place, partition: _Partition) -> Answer | None:
        """The next tail, if it can be taken and has something new."""
        if partition.paused or partition.fetched or not partition.rows:
            return None
        row = partition.rows.popleft()
        assert isinstance(row, Tail)
        if row.start > partition.offset:
            raise Closed(
                f"a row of topic {place.topic}, partition {place.partition} begins at {row.start}, and the one "
                f"before ended at {partition.offset}"
            )
        if row.until <= partition.offset:
            return None
        row = _joined(row, partition.rows)
        partition.epoch = reach_of(row.records, row.start).epoch
        partition.offset = partition.until = row.until
        return Answer(place, row.records, row.aborted, row.end)

    # ------------------------------------------------------------ ranges

    async def _fetched(self) -> list[tuple[_Partition | None, Answer]]:
        """What came, each with the partition that it was fetched for: until it is taken, that may be assigned again."""
        return [(self._partitions.get(answer.place), answer) for answer in await self._inner.next()]

    def _taken(self, partition: _Partition | None, answer: Answer) -> Answer | None:
        """What counts of an answer."""
        place = answer.place
        if partition is None or self._partitions.get(place) is not partition or not partition.fetched:
            return None
        if answer.trouble is not None:
            partition.dead = True
            self._end_range(place, partition)
            return answer
        records = up_to(answer.records, partition.until)
        reach = reach_of(records, partition.offset)
        if reach.next_offset > partition.offset:
            partition.epoch = reach.epoch
        partition.offset = reach.next_offset
        if not partition.fetched:
            self._end_range(place, partition)
        return answer._replace(records=records)

    def _end_range(self, place: Place, partition: _Partition) -> None:
        self._inner.remove(place)
        partition.until = partition.offset
        self._go_on(place, partition)


def _joined(first: Tail, rows: deque[Ahead | Tail]) -> Tail:
    """The first tail with those of the rows that follow it at once, which are taken away."""
    tails, size = [first], len(first.records)
    while rows and isinstance(after := rows[0], Tail) and _follows(tails[-1], after):
        size += len(after.records)
        if size > JOINED_BYTES_MAX:
            break
        rows.popleft()
        tails.append(after)
    if len(tails) == 1:
        return first
    records = memoryview(b"".join(up_to(tail.records, tail.until) for tail in tails))
    # A transaction that was open from one to the next is named by both.
    aborted = list(dict.fromkeys(each for tail in tails for each in tail.aborted))
    return replace(first, until=tails[-1].until, end=tails[-1].end, aborted=aborted, records=records)


def _follows(tail: Tail, after: Tail) -> bool:
    """Whether its batches are those behind the tail's."""
    return after.start == tail.until and extent_at(after.records, 0)[0] >= after.start


def up_to(records: memoryview, until: int) -> memoryview:
    """The batches up to the one by which everything below `until` is there: behind a hole, one that lies beyond."""
    at, size = 0, len(records)
    while size - at >= EXTENT_BYTES:
        base_offset, length, _, magic, _, _, delta = extent_at(records, at)
        end = at + LENGTH_END + length
        if length < 0 or end > size:
            break
        at = end
        if base_offset + (delta if magic == MAGIC else 0) + 1 >= until:
            return records[:at]
    return records
