"""One source, as the reader of a worker sees it: how far partitions are behind, and their tails.

A partition that is far behind is named in ranges, up to where its log ended when it was asked last; nothing of it is
fetched here. Once everything up to its end is acknowledged, and little has come since, it is fetched here, and what
comes is handed on as it is, as long as it is little: then a lone record need not wait for another fetch. What comes
while too much is not acknowledged is named as a range too, so memory is bounded however slow the destination is.

Trouble is not judged here: the sink is asked to fetch where it was met, so it is reported behind all that came before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead.kafka.fetching.positions import reach_of
from fairlead.mirror.carrying.engine import Load
from fairlead.mirror.ports import LATEST, Answer, Cluster, Feed, Place
from fairlead.mirror.workers.opening import opened
from fairlead.mirror.workers.rows import Ahead, Close, Open, Row, Tail
from fairlead.model.errors import BadRequest, TryAgain

TAIL_RECORDS_MAX: Final = 1_000
"""A partition with more behind is named in ranges."""
TAIL_BYTES_MAX: Final = 256 * 1024
"""So is what was fetched of it at once and is larger."""
UNACKNOWLEDGED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of tails of one source; beyond it, they are named too."""
AHEAD_OFFSETS_MAX: Final = 1_000_000
"""Named and not acknowledged, of one partition. It bounds no memory: what the sink has fetched, it bounds itself."""
LOOK_SECONDS: Final = 0.1
"""Between two questions where partitions end that are behind."""
NEAR_SECONDS: Final = 1.0
"""Where the rest of what is named takes longer, nobody needs to know yet what lies beyond."""


class _Scouted:
    """A partition."""

    def __init__(self, number: int, load: Load) -> None:
        self.number = number
        self.load = load
        self.place = Place(load.part.topic, load.part.partition)
        self.next = load.begin.offset
        """Everything below was handed on."""
        self.acknowledged = load.begin.offset
        self.epoch = load.begin.epoch
        """Leader epoch of the record before `acknowledged`."""
        self.end = load.end
        self.named_from, self.named_at = self.next, 0.0
        """Where it stood, and the time, when a range was named last."""
        self.tailed = False
        self.unacknowledged: deque[tuple[int, int]] = deque()
        """Ends of tails that were handed on, and their bytes."""

    @property
    def room_until(self) -> int:
        return min(self.end, self.acknowledged + AHEAD_OFFSETS_MAX)

    def is_near(self, now: float) -> bool:
        """Whether what is named will soon be acknowledged, at its pace so far."""
        left, moved, seconds = self.next - self.acknowledged, self.acknowledged - self.named_from, now - self.named_at
        if left <= TAIL_RECORDS_MAX:
            return True
        return left * seconds <= moved * NEAR_SECONDS if moved else seconds <= NEAR_SECONDS


class Scout:
    """Of one source. `hand_on` queues a row for the sink."""

    def __init__(
        self, source: int, open_source: Callable[[], Awaitable[Cluster]], hand_on: Callable[[Row], Awaitable[None]]
    ) -> None:
        self._source = source
        self._open = open_source
        self._hand_on = hand_on
        self._feed: Feed | None = None
        self._by_number: dict[int, _Scouted] = {}
        self._by_place: dict[Place, _Scouted] = {}
        self._to_do: deque[Row | _Scouted] = deque()
        """In order: rows to hand on, and partitions to look at."""
        self._wake = asyncio.Event()
        self._behind: set[_Scouted] = set()
        """Whose end is to be asked for."""
        self._away: str | None = None
        self._unacknowledged = 0
        self._loop = asyncio.get_running_loop()

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        return self._away or (None if self._feed is None else self._feed.down)

    def take(self, number: int, load: Load) -> None:
        """Carry a partition."""
        scouted = _Scouted(number, load)
        self._by_number[number] = scouted
        self._by_place[scouted.place] = scouted
        self._later(Open(number, self._source, load))
        self._later(scouted)

    def remove(self, number: int) -> None:
        """Carry it no more."""
        scouted = self._by_number.pop(number, None)
        if scouted is None:
            return
        if self._by_place.get(scouted.place) is scouted:
            del self._by_place[scouted.place]
        self._stop_tail(scouted)
        self._unacknowledged -= sum(size for _, size in scouted.unacknowledged)
        self._behind.discard(scouted)
        self._later(Close(number))

    def credit(self, number: int, offset: int, epoch: int) -> None:
        """Everything of it below `offset` is acknowledged."""
        scouted = self._by_number.get(number)
        if scouted is None:
            return
        scouted.acknowledged, scouted.epoch = offset, epoch
        while scouted.unacknowledged and scouted.unacknowledged[0][0] <= offset:
            self._unacknowledged -= scouted.unacknowledged.popleft()[1]
        if not scouted.tailed:
            self._later(scouted)

    async def run(self) -> None:
        """Until it is cancelled."""
        cluster = await opened(self._open, self._note)
        feed = self._feed = cluster.feed()
        try:
            await asyncio.gather(self._work(feed), self._fetch(feed), self._look(cluster))
        finally:
            await feed.close()
            await cluster.close()

    def _note(self, why: str | None) -> None:
        self._away = why

    # ------------------------------------------------------------ what is to be done

    def _later(self, what: Row | _Scouted) -> None:
        self._to_do.append(what)
        self._wake.set()

    async def _work(self, feed: Feed) -> None:
        while True:
            while self._to_do:
                what = self._to_do.popleft()
                if not isinstance(what, _Scouted):
                    await self._hand_on(what)
                elif self._by_number.get(what.number) is what and not what.tailed:
                    await self._advance(feed, what)
            self._wake.clear()
            await self._wake.wait()

    async def _advance(self, feed: Feed, scouted: _Scouted) -> None:
        """Name what may be named; once all is acknowledged, ask or fetch what comes."""
        if scouted.next < scouted.room_until:
            scouted.next = scouted.room_until
            scouted.named_from, scouted.named_at = scouted.acknowledged, self._loop.time()
            await self._hand_on(Ahead(scouted.number, scouted.next))
        elif scouted.next >= scouted.end:
            self._behind.add(scouted)

    # ------------------------------------------------------------ ends

    async def _look(self, cluster: Cluster) -> None:
        """Ask where partitions end that have come to their end; those with little left are fetched here from now on."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = self._loop.time()
            asked = [scouted for scouted in self._behind if scouted.is_near(now)]
            if not asked:
                continue
            try:
                ends = await cluster.offsets([scouted.place for scouted in asked], LATEST)
            except (BadRequest, TryAgain):
                ends = {}  # one of them is gone or has no leader, or all are away: fetching says which and waits
            for scouted in asked:
                self._found_end(scouted, ends.get(scouted.place, scouted.end))

    def _found_end(self, scouted: _Scouted, end: int) -> None:
        if self._by_number.get(scouted.number) is not scouted:
            return
        scouted.end = max(end, scouted.end)
        if scouted.end - scouted.next > TAIL_RECORDS_MAX:
            self._behind.discard(scouted)
            self._later(scouted)
        elif scouted.acknowledged >= scouted.next:
            self._behind.discard(scouted)
            self._start_tail(scouted)

    def _start_tail(self, scouted: _Scouted) -> None:
        assert self._feed is not None
        scouted.tailed = True
        scouted.next = scouted.acknowledged
        self._feed.assign(scouted.place, scouted.load.part.topic_id, scouted.next, scouted.epoch)

    def _stop_tail(self, scouted: _Scouted) -> None:
        if scouted.tailed and self._feed is not None:
            scouted.tailed = False
            self._feed.remove(scouted.place)

    # ------------------------------------------------------------ tails

    async def _fetch(self, feed: Feed) -> None:
        while True:
            # a topic may be made again, with the same places, while what came is handed on
            came = [(self._by_place.get(answer.place), answer) for answer in await feed.next()]
            for scouted, answer in came:
                if scouted is not None and scouted.tailed and self._by_place.get(answer.place) is scouted:
                    await self._take(scouted, answer)

    async def _take(self, scouted: _Scouted, answer: Answer) -> None:
        if answer.trouble is not None:
            await self._name(scouted, scouted.next + 1)
            return
        size = len(answer.records)
        until = reach_of(answer.records, scouted.next).next_offset
        if not size:
            return
        if until <= scouted.next:  # damaged: the sink says so
            await self._name(scouted, scouted.next + 1)
        elif size > TAIL_BYTES_MAX or self._unacknowledged + size > UNACKNOWLEDGED_BYTES_MAX:
            await self._name(scouted, max(until, answer.end))
        else:
            start, scouted.next = scouted.next, until
            scouted.unacknowledged.append((until, size))
            self._unacknowledged += size
            await self._hand_on(Tail(scouted.number, start, until, answer.end, answer.aborted, answer.records))
            if answer.end - until > TAIL_RECORDS_MAX:
                await self._name(scouted, answer.end)

    async def _name(self, scouted: _Scouted, end: int) -> None:
        """Fetch it here no more, and name what comes up to there."""
        if scouted.tailed:
            self._stop_tail(scouted)
            scouted.end = max(end, scouted.end)
            self._later(scouted)
