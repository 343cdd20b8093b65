"""Long work on the event loop in slices, so that no client waits for another's hundred thousand topics."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter, sleep
from typing import TypeVar
from weakref import WeakKeyDictionary

SLICE_SECONDS = 0.0005
"""Work of one request before others get their turn."""

_REST_SECONDS = 0.001
"""Between two slices while several requests are long: others have the loop for twice as long as these together."""

_PUT_OFF_MAX = 3
"""Rests that are added to that one while answers are waited for."""

A = TypeVar("A")
B = TypeVar("B")


class Turns:
    """Long work on one event loop, one slice after the other, however many requests are long.

    Who waits for a disk, as a produce does, needs the loop several times for a moment: while such `waits` are under way
    slices come less often, for several long requests far less, and never not at all.
    """

    __slots__ = ("_loop", "_put_off", "_waiting", "waits")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._put_off = 0
        self.waits = 0
        """Requests that were submitted and whose answers are not ready."""

    def next(self, slice_: Callable[[], None]) -> None:
        """Call `slice_` when it is its turn."""
        self._waiting.append(slice_)
        if len(self._waiting) == 1:
            self._soon()

    def _soon(self) -> None:
        self._put_off = 0
        if len(self._waiting) > 1 or self.waits:
            self._loop.call_later(_REST_SECONDS, self._go_on)
        else:
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self.waits and len(self._waiting) > 1 and self._put_off < _PUT_OFF_MAX:
            self._put_off += 1
            self._loop.call_later(_REST_SECONDS, self._go_on)
            return
        self._waiting.popleft()()
        if self._waiting:
            self._soon()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns() -> Turns:
    """Of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = Turns(loop)
    return found


async def _one_at_a_time() -> None:
    """Wait for the next slice."""
    turn = asyncio.get_running_loop().create_future()
    turns().next(partial(_come, turn))
    await turn


def _come(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


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
