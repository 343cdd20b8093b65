"""One fetching stream of a source: what comes is filtered, made into sends and handed to producers.

Memory is bounded. A partition with `--queue.size` records (or 8 MB) under way is given a moment to be acknowledged, and
is then left out of the fetches until it was; with 64 MB under way the stream fetches nothing at all. While a
destination is away, all partitions come to rest so, with nothing recorded and nothing dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from fairlead.mirror.books.origins import Origins
from fairlead.mirror.bytes.buffers import Buffers
from fairlead.mirror.bytes.committed import Committed, committed
from fairlead.mirror.carrying.copying import Copy
from fairlead.mirror.carrying.engine import Producers
from fairlead.mirror.carrying.making import Maker
from fairlead.mirror.patience import insisting
from fairlead.mirror.ports import Answer, Feed, Place
from fairlead.mirror.report import Tally

T = TypeVar("T")

BYTES_UNDER_WAY_MAX: Final = 64 * 1024 * 1024
"""Of one stream."""
PATIENCE_SECONDS: Final = 0.2
"""For acknowledgements, before a full partition is left out of the fetches; leaving it out and taking it in again costs
it a round of the others, which may be waiting for records."""
THREAD_BYTES_MIN: Final = 64 * 1024
"""From here on answers are worked on in a thread, so that acknowledgements are heard meanwhile."""


@dataclass(eq=False, slots=True)
class Carried:
    """A partition of this stream."""

    copy: Copy
    maker: Maker
    topic_id: bytes
    offset: int
    """Where the next answer begins."""
    paused: bool = False
    turn: int = 0
    """How often it went to another offset: what was fetched before is not for the copy as it is now."""


Turn = tuple[Carried, int]
"""Whom fetched records are for: a topic that is made again has the same places, and its turns begin anew."""
Worry = Callable[[Carried, Answer], Awaitable[None]]
"""What is done with a partition that cannot be fetched from where it stands."""


class Stream:
    """Fetches and hands on, until it is cancelled."""

    def __init__(
        self,
        feed: Feed,
        origins: Origins,
        producers: Producers,
        tally: Tally,
        queue_records: int,
        worry: Worry,
    ) -> None:
        self.buffers = Buffers()
        """Of the makers of its partitions."""
        self._feed = feed
        self._origins = origins
        self._producers = producers
        self._tally = tally
        self._queue_records = queue_records
        self._worry = worry
        self._carried: dict[Place, Carried] = {}
        self._busy: set[Copy] = set()
        self._moved = asyncio.Event()
        self._going = asyncio.Event()
        self._going.set()

    @property
    def down(self) -> str | None:
        """What it waits for, if anything of the source is away."""
        return self._feed.down

    def add(self, carried: Carried) -> None:
        """Carry one more partition, or one again that was removed."""
        self._carried[self._place(carried.copy)] = carried
        position = carried.copy.position
        self._fetch(carried, carried.offset, position.epoch if carried.offset == position.offset else -1)

    def again(self, carried: Carried, offset: int) -> None:
        """Go on with a partition at another offset."""
        self._fetch(carried, offset, -1)

    def back(self, carried: Carried) -> None:
        """Go on with a partition at its position; one that was removed, once it is carried again."""
        position = carried.copy.position
        carried.offset = position.offset
        if self._carried.get(self._place(carried.copy)) is carried:
            self._fetch(carried, position.offset, position.epoch)

    def _fetch(self, carried: Carried, offset: int, epoch: int) -> None:
        carried.offset = offset
        carried.turn += 1
        carried.paused = False
        self._feed.assign(self._place(carried.copy), carried.topic_id, offset, epoch)

    def remove(self, copy: Copy) -> None:
        """Fetch it no more; what is under way goes on."""
        place = self._place(copy)
        found = self._carried.get(place)
        if found is not None and found.copy is copy:
            del self._carried[place]
            self._feed.remove(place)

    def pause(self, paused: bool) -> None:
        """Take nothing more of what is fetched, or go on."""
        if paused:
            self._going.clear()
        else:
            self._going.set()

    def heard(self, copy: Copy) -> None:
        """Something of it was acknowledged, or it was stopped."""
        if copy.bytes_under_way == 0:
            self._busy.discard(copy)
        if copy.stopped is not None:
            self.remove(copy)
        found = self._carried.get(self._place(copy))
        if found is not None and found.paused and not copy.is_full(self._queue_records):
            found.paused = False
            self._feed.resume(self._place(copy))
        self._moved.set()

    async def run(self) -> None:
        """Until it is cancelled. Raises: BadRequest: the registry of the source cannot be read."""
        while True:
            answers = await self._feed.next()
            turns = {answer.place: self._turn(answer.place) for answer in answers}
            await self._going.wait()
            await self._take(answers, turns)
            await self._room()

    async def close(self) -> None:
        """Fetch no more."""
        await self._feed.close()

    # ------------------------------------------------------------ what came

    def _turn(self, place: Place) -> Turn | None:
        found = self._carried.get(place)
        return None if found is None else (found, found.turn)

    async def _take(self, answers: Sequence[Answer], turns: Mapping[Place, Turn | None]) -> None:
        """Hand on what came; `turns` are those of the partitions when it came."""
        good: list[tuple[Carried, Answer]] = []
        for answer in answers:
            carried = self._carried.get(answer.place)
            if carried is None or self._turn(answer.place) != turns[answer.place]:
                continue
            if answer.trouble is not None:
                await self._worry(carried, answer)
                continue
            carried.copy.end = max(carried.copy.end, answer.end)
            if len(answer.records):
                good.append((carried, answer))
        size = sum(len(answer.records) for _, answer in good)
        found = await _apart(size, lambda: [_committed(carried, answer) for carried, answer in good])
        seen = {batch.header.producer_id for each in found for batch in each.batches}
        await insisting(lambda: self._origins.learn(seen))
        pairs = [(carried, each) for (carried, _), each in zip(good, found, strict=True)]
        made = await _apart(size, lambda: [carried.maker.make(each, self._origins.of) for carried, each in pairs])
        for (carried, each), (what, looped) in zip(pairs, made, strict=True):
            for origin in {origin for origin, _, _ in what.sends}:
                await insisting(partial(self._producers.open_sender, origin))
            place = self._place(carried.copy)
            if self._turn(place) != turns[place]:
                continue
            self._tally.aborted_records += each.aborted_records
            self._tally.looped_records += looped
            carried.offset = each.next_offset
            if what.sends:
                self._busy.add(carried.copy)
            carried.copy.take(what._replace(looped=looped))

    # ------------------------------------------------------------ room for more

    async def _room(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while self._full() or self._bytes() >= BYTES_UNDER_WAY_MAX:
                    await self._next_move()
        for carried in self._full():
            carried.paused = True
            self._feed.pause(self._place(carried.copy))
        while self._bytes() >= BYTES_UNDER_WAY_MAX:
            await self._next_move()

    def _full(self) -> list[Carried]:
        """Partitions that are fetched and have as much under way as they may."""
        full = (self._carried.get(self._place(copy)) for copy in self._busy if copy.is_full(self._queue_records))
        return [carried for carried in full if carried is not None and not carried.paused]

    def _bytes(self) -> int:
        return sum(copy.bytes_under_way for copy in self._busy)

    async def _next_move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    @staticmethod
    def _place(copy: Copy) -> Place:
        return Place(copy.part.topic, copy.part.partition)


def _committed(carried: Carried, answer: Answer) -> Committed:
    return committed(answer.records, answer.aborted, carried.offset, str(carried.copy.part))


async def _apart(size: int, work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work) if size >= THREAD_BYTES_MIN else work()
