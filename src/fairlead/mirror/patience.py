"""What passes by itself is tried again, for as long as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fairlead.model.errors import TryAgain

T = TypeVar("T")

PAUSE_SECONDS: Final = 1.0
"""Between two tries."""
SLOW_SECONDS: Final = 3.0
"""Whoever waits for longer is told what for."""


async def insisting(
    call: Callable[[], Awaitable[T]],
    told: Callable[[TryAgain], None] | None = None,
    pause_seconds: float = PAUSE_SECONDS,
) -> T:
    """The answer of the first call that does not say to try again; `told` hears why each of the others did."""
    while True:
        try:
            return await call()
        except TryAgain as error:
            if told is not None:
                told(error)
            await asyncio.sleep(pause_seconds)


async def told_if_slow(answer: Awaitable[T], tell: Callable[[], None]) -> T:
    """The answer; `tell` is called, once, where it takes its time."""
    timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, tell)
    try:
        return await answer
    finally:
        timer.cancel()
