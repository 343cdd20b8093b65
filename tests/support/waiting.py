"""How tests wait: for a condition, as long as a busy machine may need.

`FAIRLEAD_TEST_PATIENCE=5` waits five times as long, for a machine that is busier still.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_SECONDS = 120 * float(os.environ.get("FAIRLEAD_TEST_PATIENCE", "1"))
"""What is to happen happens by then. None waits as long as that when all is well."""
QUIET_SECONDS = 0.3
"""What is not to happen has not happened by then, where nothing else tells that it will not."""


def wait_until(condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS, every_seconds: float = 0.02) -> T:
    """The first true value of the condition, asked for every so many seconds; where it takes long, more seldom, since
    who is asked has no time for the rest meanwhile: after a twentieth of what was waited so far, half a second at most.

    Raises:
        TimeoutError: there was none in time; says what was waited for.
    """
    start = time.monotonic()
    while not (found := condition()):
        if (waited := time.monotonic() - start) > seconds:
            raise TimeoutError(f"not in {seconds:g} s: {what}")
        time.sleep(max(every_seconds, min(waited / 20, 0.5)))
    return found


async def until(condition: Callable[[], T]) -> T:
    """The same on a loop, asked for every 5 ms."""
    async with in_time():
        while not (found := condition()):  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)
        return found


def in_time() -> asyncio.Timeout:
    """A block that ends by itself when all is well."""
    return asyncio.timeout(WAIT_SECONDS)


async def a_quiet_while() -> None:
    """Before a look at what is not to have happened."""
    await asyncio.sleep(QUIET_SECONDS)
