"""Upkeep that takes turns with the requests of a shard: changes of the state wait until nothing is evaluated on a
thread, and long work is done in steps, with the turns of others in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from fairlead.streamlog.merging.runners import Merger, on_thread
from fairlead.streamlog.writing.upkeep import Upkeep
from fairlead.streamlog.writing.watches import Watches

T = TypeVar("T")


class UpkeepTurns:
    """Upkeep of one shard under asyncio; `evaluating` is held while requests are evaluated on a thread."""

    def __init__(self, upkeep: Upkeep, executor: Executor, evaluating: asyncio.Lock, watches: Watches) -> None:
        self._upkeep = upkeep
        self._executor = executor
        self._evaluating = evaluating
        self._watches = watches

    async def merge(self, merger: Merger) -> bool:
        """Do one merge job; False if there is none. Raises what `Merger.run` and `Upkeep.prepare` raise."""
        upkeep = self._upkeep
        async with self._evaluating:
            job = upkeep.plan()
        if job is None:
            return False
        result = await merger.run(job)
        prepared = await on_thread(self._executor, partial(upkeep.prepare, result))
        async for moved in self._in_turns(upkeep.raise_starts(prepared)):
            self._watches.wake(moved)
        async with self._evaluating:
            upkeep.finish(prepared)
        async for _ in self._in_turns(upkeep.forget()):
            pass
        return True

    async def _in_turns(self, steps: Iterator[T]) -> AsyncIterator[T]:
        while True:
            async with self._evaluating:
                found = next(steps, None)
            if found is None:
                return
            yield found
            await asyncio.sleep(0)

    async def sweep(self) -> None:
        """Forget silent producers, and delete objects whose grace is over. Raises what `Upkeep.sweep` raises."""
        async for _ in self._in_turns(self._upkeep.expire_producers()):
            pass
        due = self._upkeep.take_due()
        if due:
            await on_thread(self._executor, partial(self._upkeep.sweep, due))
