"""One source, as the sink of a worker sees it: rows of the reader → what the mirror does in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, NamedTuple

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.origins import Origins
from fairlead.mirror.bytes.handled import Handler
from fairlead.mirror.carrying.copying import Copy
from fairlead.mirror.carrying.engine import Producers, Way
from fairlead.mirror.carrying.exact_copy import ExactCopy
from fairlead.mirror.carrying.local import LocalCarrier
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Answer, Cluster, Feed, Place
from fairlead.mirror.report import Tally
from fairlead.mirror.workers.messages import Dealt, PartProgress, Worry
from fairlead.mirror.workers.opening import opened
from fairlead.mirror.workers.row_feed import RowFeed
from fairlead.mirror.workers.rows import Close, Open, Row


class Given(NamedTuple):
    """What all sources of a sink share."""

    destination: Producers
    destination_id: str
    tally: Tally
    queue_records: int
    handler: Handler | None
    moved: Callable[[], None]
    """Something of it is to be reported."""
    worry: Callable[[Worry], Awaitable[None]]


class Delivery:
    """Of one source."""

    def __init__(self, label: str, open_source: Callable[[], Awaitable[Cluster]], given: Given) -> None:
        self._label = label
        self._open = open_source
        self._given = given
        self._early: list[Row] = []
        """Rows that came before the source was open."""
        self._carrier: LocalCarrier | None = None
        self._feed: RowFeed | None = None
        self._cluster: Cluster | None = None
        self._numbers: dict[Standing, int] = {}
        self._standings: dict[int, Standing] = {}
        self._changed: set[Standing] = set()
        self._closed: set[Standing] = set()
        self._back: set[Standing] = set()
        """To be given again, which is not told yet."""
        self._of_part: dict[Part, Standing] = {}
        """The newest of each."""
        self._by_key: set[Standing] = set()
        """Whose records the key deals."""
        self._held: dict[int, list[Row]] = {}
        """Rows of partitions whose lane is being opened."""
        self._void: dict[int, PartProgress] = {}
        """What was said of partitions that the coordinator has to give otherwise."""
        self._untold: list[PartProgress] = []
        self._away: str | None = None
        self._paused = False
        self._moved = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def down(self) -> str | None:
        """What it waits for, if anything of the source is away."""
        return self._away or (None if self._carrier is None else self._carrier.down)

    async def run(self) -> None:
        """Until it is cancelled. Raises: BadRequest: the registry of the source cannot be read."""
        self._cluster = cluster = await opened(self._open, self._note)
        given = self._given
        self._feed = RowFeed(cluster.feed())
        origins = Origins(cluster, given.destination_id)
        fed = _Fed(cluster.id, self._feed)
        way = Way(self._label, fed, origins, given.destination, given.tally, self._heard, self._worry)
        carrier = LocalCarrier(way, 1, given.queue_records, given.handler, self._go_back)
        await carrier.open()
        carrier.pause(self._paused)
        self._carrier = carrier
        early, self._early = self._early, []
        for row in early:
            self.take(row)
        await asyncio.gather(*carrier.work())

    def take(self, row: Row) -> None:
        """What the reader says, in order."""
        if self._carrier is None or self._feed is None:
            self._early.append(row)
        elif row.number in self._held:
            self._held[row.number].append(row)
        elif isinstance(row, Open):
            self._open_part(row)
        elif row.number in self._void:
            if isinstance(row, Close):
                self._say(replace(self._void.pop(row.number), back=False, closed=True))
        elif isinstance(row, Close):
            standing = self._standings[row.number]
            self._carrier.remove(standing)
            self._closed.add(standing)
            self._heard(standing)
        else:
            part = self._standings[row.number].part
            self._feed.offer(Place(part.topic, part.partition), row)

    def _open_part(self, row: Open) -> None:
        lanes = self._given.destination.lanes
        if lanes is None:
            self._carry(row)
        else:
            self._held[row.number] = []
            self._spawn(self._open_in_lane(row, lanes))

    def _carry(self, row: Open) -> Standing:
        assert self._carrier is not None
        standing = self._carrier.take(row.load)
        self._numbers[standing] = row.number
        self._standings[row.number] = self._of_part[row.load.part] = standing
        if row.load.route.by_key:
            self._by_key.add(standing)
        return standing

    async def _open_in_lane(self, row: Open, lanes: Lanes) -> None:
        """Carry a partition if the books say of it what the coordinator knows: a worker before may have committed more
        than it has told."""
        load = row.load
        lane = await lanes.opened(load.part)
        while (before := self._of_part.get(load.part)) is not None and not _idle(before):
            await self._next_move()
        found = lane.committed.get(load.part)
        if _offset(found) != load.recorded:
            # Else it is of another topic than is mirrored to.
            where = found if found is not None and found.to == load.to else load.begin
            parts = (row.number, where, load.end, 0, 0, None)
            void = PartProgress(*parts, refused=False, closed=False, recorded=_offset(found), back=True)
            self._void[row.number] = void
            self._say(void)
        else:
            standing = self._carry(row)
            if found is None or (found.offset, found.to) != (load.begin.offset, load.to):
                assert isinstance(standing, ExactCopy)
                standing.begin()
        for each in self._held.pop(row.number):
            self.take(each)

    def pause(self, paused: bool) -> None:
        """Hand on nothing until it is told to go on."""
        self._paused = paused
        if self._carrier is not None:
            self._carrier.pause(paused)

    def progress(self) -> list[PartProgress]:
        """What has moved since this was asked last."""
        changed, self._changed = self._changed, set()
        untold, self._untold = self._untold, []
        back, self._back = self._back, set()
        found = [*untold, *(self._progress(each, back=each in back) for each in changed)]
        for each in changed:
            if each in self._closed and _idle(each):
                self._forget(each)
        return found

    def _progress(self, standing: Standing, *, back: bool) -> PartProgress:
        lanes, part = self._given.destination.lanes, standing.part
        return PartProgress(
            self._numbers[standing],
            standing.position,
            standing.end,
            standing.records_under_way,
            standing.bytes_under_way,
            standing.stopped,
            standing.refused,
            standing in self._closed,
            tuple((s.source, s.destination, s.run, s.sent) for s in standing.take_kept()),
            None if lanes is None else _offset(lanes.of(part).committed.get(part)),
            back,
        )

    def _forget(self, standing: Standing) -> None:
        del self._standings[self._numbers.pop(standing)]
        self._closed.discard(standing)
        self._by_key.discard(standing)
        if self._of_part[standing.part] is standing:
            del self._of_part[standing.part]

    def dealt(self) -> tuple[Dealt, ...]:
        """How far partitions are whose records the key deals."""
        return tuple(
            Dealt(self._numbers[each], each.frontier, dict(each.ends))
            for each in self._by_key
            if each.frontier is not None
        )

    async def drain(self) -> None:
        """Wait until what is under way is acknowledged; `run` was cancelled."""
        if self._carrier is not None:
            await self._carrier.drain()

    async def close(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        if self._carrier is not None:
            await self._carrier.close()
        elif self._feed is not None:
            await self._feed.close()
        if self._cluster is not None:
            await self._cluster.close()

    def _note(self, why: str | None) -> None:
        self._away = why

    def _heard(self, standing: Standing) -> None:
        if standing in self._numbers:
            self._changed.add(standing)
            self._moved.set()
            self._given.moved()

    def _say(self, progress: PartProgress) -> None:
        self._untold.append(progress)
        self._given.moved()

    def _go_back(self, copy: Copy) -> None:
        """Something of it has failed: nothing that is on its way counts; the reader begins again."""
        assert self._carrier is not None
        self._carrier.remove(copy)
        self._back.add(copy)
        self._heard(copy)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _next_move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def _worry(self, standing: Standing, offset: int, answer: Answer) -> None:
        assert isinstance(standing, Copy)
        self._spawn(self._tell(standing, offset, answer, standing.went_back))

    async def _tell(self, copy: Copy, offset: int, answer: Answer, went_back: int) -> None:
        """Once nothing of the partition is under way: what is decided counts for the whole of it. Not of one that went
        back meanwhile: it is given again from before."""
        assert answer.trouble is not None
        while not copy.idle and copy.stopped is None:
            await self._next_move()
        if copy.stopped is None and copy in self._numbers and copy.went_back == went_back:
            number = self._numbers[copy]
            await self._given.worry(Worry(number, offset, answer.trouble.value, answer.detail, answer.diverged_at))


def _idle(standing: Standing) -> bool:
    assert isinstance(standing, Copy)
    return standing.idle


def _offset(position: Position | None) -> int:
    return -1 if position is None else position.offset


class _Fed:
    """The source of a carrier, whose one feed is that of the rows."""

    def __init__(self, id: str, feed: Feed) -> None:
        self.id = id
        self._feed = feed

    def feed(self) -> Feed:
        return self._feed
