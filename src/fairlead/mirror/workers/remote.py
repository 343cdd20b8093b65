"""Partitions that workers carry, as sources know them: what workers say of each becomes its standing here."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from fairlead.mirror.books.points import Segment
from fairlead.mirror.carrying.engine import Load, Way
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.ports import Answer, Place, Trouble
from fairlead.mirror.workers.messages import PartProgress, Progress, Worry


class Gives(Protocol):
    """The coordinator, as a carrier knows it."""

    def give(self, standing: RemoteStanding) -> None:
        """To the worker of its lane, now or once there is one."""
        ...

    def take_back(self, standing: RemoteStanding) -> None:
        """Nothing more of it is to be fetched."""
        ...

    async def look(self, source: int) -> bool:
        """Have workers say how far partitions are whose records the key deals; whether all have."""
        ...

    def pause(self, source: int, paused: bool) -> None:
        """Have nothing of it handed on until it is to go on."""
        ...

    def waits(self, source: int) -> str | None:
        """What workers wait for, if anything of that source or the destination is away."""
        ...

    async def drain(self) -> None: ...


class RemoteStanding(Standing):
    """A partition in the hands of a worker, or of none."""

    def __init__(self, carrier: RemoteCarrier, load: Load, way: Way) -> None:
        super().__init__(load.part, load.to, load.begin, way.tally, way.moved, load.end)
        self.carrier = carrier
        self.number: int | None = None
        """Under which a worker has it."""
        self.carried = True
        """Whether it is to be carried at all."""
        self.troubled = False
        """It cannot be fetched from where it stands, and what becomes of it is being decided."""
        self._load = load
        self._free = asyncio.Event()
        """No worker fetches it."""
        self._free.set()
        self._kept: list[Segment] = []
        self._recorded_at = load.recorded

    def take_kept(self) -> Sequence[Segment]:
        kept, self._kept = self._kept, []
        return kept

    @property
    def load(self) -> Load:
        """What a worker has to know of it now."""
        return self._load._replace(begin=self.position, end=self.end, recorded=self._recorded_at)

    def go_on_at(self, offset: int) -> None:
        """Nobody knows the epoch of the record before."""
        since = offset if self.position.at >= 0 else -1
        self._begin = replace(self.position, offset=offset, epoch=-1, since=since)

    def told(self, progress: PartProgress) -> None:
        """A worker says how far it is."""
        self._begin = progress.position
        self._kept += [Segment(*each) for each in progress.kept]
        if progress.recorded is not None:
            self._recorded_at, self.recorded = progress.recorded, progress.position
        self.end = max(self.end, progress.end)
        self.records_under_way, self.bytes_under_way = progress.records_under_way, progress.bytes_under_way
        self.refused = progress.refused
        if progress.stopped is not None:
            self.stop(progress.stopped)
        if progress.closed:
            self._free.set()
        self._moved(self)

    def held(self, number: int) -> None:
        """A worker has it."""
        self.number = number
        self.frontier = None
        self._free.clear()

    async def until_free(self) -> None:
        """Wait until no worker fetches it."""
        await self._free.wait()

    def nobody_has_it(self, *, in_order: bool, for_good: bool) -> None:
        """Its worker is gone, `in_order` or not. What was under way is fetched again, but where that was `for_good`."""
        if self.number is not None:
            self.begun_again()
        if not in_order or (self._load.route.by_key and self.frontier != self.position.offset):
            self.frontier, self.uncertain = None, True
        self.number = None
        if not for_good:
            self.records_under_way = self.bytes_under_way = 0
        self._free.set()

    def stop(self, why: str) -> None:
        super().stop(why)
        self.carrier.remove(self)


class RemoteCarrier:
    """Of one source."""

    def __init__(self, source: int, way: Way, gives: Gives) -> None:
        self.source = source
        self.way = way
        self._gives = gives

    @property
    def down(self) -> str | None:
        return self._gives.waits(self.source)

    async def open(self) -> None:
        """Workers are there all the time."""

    def take(self, load: Load) -> RemoteStanding:
        standing = RemoteStanding(self, load, self.way)
        self._gives.give(standing)
        return standing

    def again(self, standing: Standing, offset: int) -> None:
        assert isinstance(standing, RemoteStanding)
        self._gives.take_back(standing)
        standing.go_on_at(offset)
        standing.carried, standing.troubled = True, False
        self._gives.give(standing)

    def back(self, standing: RemoteStanding) -> None:
        """Give it again from its position, if it is to be carried still."""
        if standing.carried and not standing.troubled:
            self._gives.take_back(standing)
            self._gives.give(standing)

    def remove(self, standing: Standing) -> None:
        assert isinstance(standing, RemoteStanding)
        standing.carried = False
        self._gives.take_back(standing)

    def resume(self, standing: Standing) -> None:
        assert isinstance(standing, RemoteStanding)
        standing.carried, standing.troubled = True, False
        self._gives.give(standing)

    def pause(self, paused: bool) -> None:
        self._gives.pause(self.source, paused)

    async def look(self) -> bool:
        return await self._gives.look(self.source)

    async def leave(self, standing: Standing) -> None:
        assert isinstance(standing, RemoteStanding)
        self.remove(standing)
        await standing.until_free()

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        return ()

    async def drain(self) -> None:
        await self._gives.drain()

    async def close(self) -> None:
        """Its workers end with the coordinator."""

    def count(self, progress: Progress) -> None:
        """What a worker has counted."""
        tally = self.way.tally
        tally.aborted_records += progress.aborted_records
        tally.looped_records += progress.looped_records
        for topic, counts in progress.topics.items():
            found = tally.of(topic)
            found.records += counts.records
            found.bytes += counts.bytes
            found.batches.update(counts.batches)

    async def settle(self, standing: RemoteStanding, worry: Worry) -> None:
        """Have decided what becomes of a partition that cannot be fetched from where it stands."""
        standing.troubled = True
        place = Place(standing.part.topic, standing.part.partition)
        answer = Answer(place, memoryview(b""), (), standing.end, Trouble(worry.trouble), worry.detail)
        await self.way.worry(standing, worry.offset, answer._replace(diverged_at=worry.diverged_at))
