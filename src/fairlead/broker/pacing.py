"""Long work on the event loop in slices, so that no client waits for another's hundred thousand topics."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from time import perf_counter, sleep
from typing import TypeVar
from weakref import WeakKeyDictionary

SLICE_SECONDS = 0.0005
"""Work of one request before others get their turn."""

_REST_SECONDS = 0.001
"""Between two slices while several requests are long: others have the loop for twice as long as these together."""

A = TypeVar("A")
B = TypeVar("B")

_waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, deque[asyncio.Future[None]]] = WeakKeyDictionary()
"""Long work that waits for its next slice, by event loop."""


async def _one_at_a_time() -> None:
    """Wait for the next slice. However many requests are long, each round of the loop has one slice of one of them."""
    loop = asyncio.get_running_loop()
    waiting = _waiting.setdefault(loop, deque())
    turn = loop.create_future()
    waiting.append(turn)
    if len(waiting) == 1:
        loop.call_soon(_next, loop, waiting)
    await turn


def _next(loop: asyncio.AbstractEventLoop, waiting: deque[asyncio.Future[None]]) -> None:
    turn = waiting.popleft()
    if not turn.done():
        turn.set_result(None)
    if len(waiting) > 1:
        loop.call_later(_REST_SECONDS, _next, loop, waiting)
    elif waiting:
        loop.call_soon(_next, loop, waiting)


class Pace:
    """Give others a turn now and then: `await pace.turn()` in a loop costs next to nothing between turns.

    The machine's own clock is read, not the one that tests hand in: what is measured is the work of this process.
    """

    __slots__ = ("_rest_seconds", "_slice_seconds", "_until")

    def __init__(self, slice_seconds: float = SLICE_SECONDS, rest_seconds: float = 0) -> None:
        """With `rest_seconds` others have the loop for themselves that long after each slice: what takes several turns,
        as a produce does, then goes through in one."""
        self._slice_seconds = slice_seconds
        self._rest_seconds = rest_seconds
        self._until = perf_counter() + slice_seconds

    async def turn(self) -> None:
        """Let others go on, if this request has worked for a slice."""
        if perf_counter() >= self._until:
            if self._rest_seconds:
                await asyncio.sleep(self._rest_seconds)
            await _one_at_a_time()
            self._until = perf_counter() + self._slice_seconds


class Rests:
    """On a thread: rest as long as one works, `rests()` in a loop. While a thread computes, the event loop cannot."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + SLICE_SECONDS

    def __call__(self) -> None:
        if perf_counter() >= self._until:
            sleep(SLICE_SECONDS)
            self._until = perf_counter() + SLICE_SECONDS


async def in_turns(work: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """What `work` makes of each item, in order."""
    pace = Pace()
    made: list[B] = []
    for item in items:
        made.append(work(item))
        await pace.turn()
    return made
