"""The lanes of a mirror, as far as this process carries them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fairlead.mirror.books.book import Position
from fairlead.mirror.exactly.lane import Ground, Lane
from fairlead.mirror.exactly.portions import Beginning
from fairlead.mirror.lanes import LANES, Part, lane_of
from fairlead.mirror.patience import insisting
from fairlead.model.errors import Aborted


class Lanes:
    """Opened before anything is carried, all at once or each with its first partition; they run until they are
    closed."""

    def __init__(self, ground: Ground) -> None:
        self._lanes = [Lane(ground, number) for number in range(LANES)]
        self._opening = [asyncio.Lock() for _ in range(LANES)]
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failed = asyncio.Event()
        self._error: BaseException | None = None

    async def open(self) -> Mapping[Part, Position]:
        """Become the one that carries them; where partitions stand. Raises: as `Lane.open`."""
        opening = [asyncio.create_task(lane.open()) for lane in self._lanes]
        try:
            found = await asyncio.gather(*opening)
        except BaseException:
            # Those that go on would open what is closed, and fence whoever has opened it anew.
            for task in opening:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)
            raise
        for number in range(LANES):
            self._run(number)
        return {part: position for positions in found for part, position in positions.items()}

    async def opened(self, part: Part) -> Lane:
        """The lane of a partition, which is opened with its first one. Raises: as `Lane.open`, but for TryAgain."""
        number = lane_of(part)
        async with self._opening[number]:
            if number not in self._tasks:
                try:
                    await insisting(self._lanes[number].open)
                except Exception as error:
                    self._fail(error)
                    raise
                self._run(number)
        return self._lanes[number]

    def of(self, part: Part) -> Lane:
        """The lane of a partition."""
        return self._lanes[lane_of(part)]

    async def begin(self, positions: Mapping[Part, Position]) -> None:
        """Write where partitions begin, and wait until that is committed. Raises: what ended a lane."""
        await asyncio.gather(*(self._begin(part, position) for part, position in positions.items()))

    async def _begin(self, part: Part, position: Position) -> None:
        while True:
            if self._error is not None:
                raise self._error
            beginning = Beginning(part, position)
            self.of(part).strand(part.cluster).put(beginning)
            try:
                await beginning.done
                return
            except Aborted:
                await asyncio.sleep(0)  # the lane has gone back, or has ended

    async def watch(self) -> None:
        """Wait for the first lane that ends by itself, or cannot be opened. Raises: why."""
        await self._failed.wait()
        assert self._error is not None
        raise self._error

    @property
    def down(self) -> str | None:
        """What they wait for, if anything is away."""
        return next((lane.down for lane in self._lanes if lane.down is not None), None)

    async def close(self) -> None:
        """Carry no more; what is not committed is as if it never was."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in self._lanes:
            await lane.close()

    def _run(self, number: int) -> None:
        task = self._tasks[number] = asyncio.create_task(self._lanes[number].run())
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._failed.set()
