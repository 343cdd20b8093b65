"""An event loop without time, sockets or threads: what a program does on it is the same each time.

Its clock moves only when all wait for it, and then to the next moment that somebody waits for. What would run on a
thread runs at once. Of sockets it may have some whose both ends it has: what was written there is read before the clock
moves.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
ON_ITS_WAY_SECONDS = 0.5
"""Longer than the machine takes from one end of a socket to the other; waited only where all wait for something."""
SECONDS_MAX = 3600.0
"""Who waits longer than this in one `run` waits for something that never comes."""


class Stalled(BaseException):
    """Everybody waits, and for nothing that will happen; not an `Exception`, so that no handler goes on after it."""


class _Waits(selectors.SelectSelector):
    """Moves the clock instead of waiting."""

    now = 0.0
    until = SECONDS_MAX

    def __init__(self, sockets: bool) -> None:
        super().__init__()
        self._sockets = sockets

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._sockets and (found := super().select(0)):
            return found
        if timeout is None or self.now > self.until:
            if self._sockets and (found := super().select(ON_ITS_WAY_SECONDS)):
                return found
            raise Stalled
        self.now += max(timeout, 0)
        return []


class SteppedLoop(asyncio.SelectorEventLoop):
    """Made for one test; `close` it."""

    def __init__(self, *, sockets: bool = False) -> None:
        self._waits = _Waits(sockets)
        self._unheard: list[BaseException] = []
        self._under_way: set[asyncio.Task[Any]] = set()
        """Its own: `asyncio.all_tasks` goes through those of all loops that this process ever had."""
        super().__init__(self._waits)
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self._waits.now

    def create_task(self, coro: Coroutine[Any, Any, T], **options: Any) -> asyncio.Task[T]:  # type: ignore[override]
        task: asyncio.Task[T] = super().create_task(coro, **options)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call it now."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:
            future.set_exception(error)
        return future

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to its end.

        Raises:
            Stalled: it has none; or what the work raises. All that it has begun is ended then.
        """
        self._waits.until = self.time() + SECONDS_MAX
        before = {*self._under_way}
        task = self.create_task(work)
        try:
            return self.run_until_complete(task)
        except BaseException:
            self.end(self._under_way - before)
            raise

    def end(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        """Cancel tasks, and let them end."""
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.wait(tasks))
        for task in tasks:
            if not task.cancelled():
                task.exception()

    def close(self) -> None:
        if not self.is_closed():
            self.end({*self._under_way})
        super().close()

    def _note(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        self._unheard.append(context.get("exception") or AssertionError(context["message"]))

    def unheard(self) -> list[BaseException]:
        """Errors of tasks that nobody asked for, since the last call."""
        found, self._unheard = self._unheard, []
        return found
