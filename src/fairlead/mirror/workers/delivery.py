"""One source, as the sink of a worker sees it: rows of the reader → what the mirror does in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from fairlead.mirror.books.origins import Origins
from fairlead.mirror.bytes.handled import Handler
from fairlead.mirror.carrying.copying import Copy
from fairlead.mirror.carrying.engine import Producers, Way
from fairlead.mirror.carrying.local import LocalCarrier
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.ports import Answer, Cluster, Feed, Place
from fairlead.mirror.report import Tally
from fairlead.mirror.workers.messages import PartProgress, Worry
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
        self._away: str | None = None
        self._paused = False
        self._moved = asyncio.Event()
        self._worries: set[asyncio.Task[None]] = set()

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
        carrier = LocalCarrier(way, 1, given.queue_records, given.handler)
        await carrier.open(1)
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
        elif isinstance(row, Open):
            standing = self._carrier.take(row.load)
            self._numbers[standing] = row.number
            self._standings[row.number] = standing
        elif isinstance(row, Close):
            standing = self._standings[row.number]
            self._carrier.remove(standing)
            self._closed.add(standing)
            self._heard(standing)
        else:
            part = self._standings[row.number].part
            self._feed.offer(Place(part.topic, part.partition), row)

    def pause(self, paused: bool) -> None:
        """Hand on nothing until it is told to go on."""
        self._paused = paused
        if self._carrier is not None:
            self._carrier.pause(paused)

    def progress(self) -> list[PartProgress]:
        """What has moved since this was asked last."""
        changed, self._changed = self._changed, set()
        return [
            PartProgress(
                self._numbers[each],
                each.position,
                each.end,
                each.records_under_way,
                each.bytes_under_way,
                each.stopped,
                each.refused,
                each in self._closed,
                tuple((s.source, s.destination, s.run, s.sent) for s in each.take_kept()),
            )
            for each in changed
        ]

    async def drain(self) -> None:
        """Wait until what is under way is acknowledged; `run` was cancelled."""
        if self._carrier is not None:
            await self._carrier.drain()

    async def close(self) -> None:
        """End."""
        for task in self._worries:
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
        self._changed.add(standing)
        self._moved.set()
        self._given.moved()

    async def _worry(self, standing: Standing, offset: int, answer: Answer) -> None:
        assert isinstance(standing, Copy)
        task = asyncio.create_task(self._tell(standing, offset, answer))
        self._worries.add(task)
        task.add_done_callback(self._worries.discard)

    async def _tell(self, copy: Copy, offset: int, answer: Answer) -> None:
        """Once nothing of the partition is under way: what is decided counts for the whole of it."""
        assert answer.trouble is not None
        while not copy.idle and copy.stopped is None:
            self._moved.clear()
            await self._moved.wait()
        if copy.stopped is None:
            number = self._numbers[copy]
            await self._given.worry(Worry(number, offset, answer.trouble.value, answer.detail, answer.diverged_at))


class _Fed:
    """The source of a carrier, whose one feed is that of the rows."""

    def __init__(self, id: str, feed: Feed) -> None:
        self.id = id
        self._feed = feed

    def feed(self) -> Feed:
        return self._feed
