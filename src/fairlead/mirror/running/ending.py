"""An end in order: what is under way is waited for, and the positions are written once more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fairlead.mirror.source import Source

_LAST_WRITE_SECONDS: Final = 5.0
"""An end tries for so long to write positions, and then that it ends, whatever was acknowledged before."""


async def settle(sources: Sequence[Source], drain_seconds: float, then: Callable[[], Awaitable[None]]) -> bool:
    """Wait so long for acknowledgements, do what is to be done `then`, and write the positions; whether the destination
    has acknowledged everything. No work of these sources goes on any more."""
    in_time = await _within(drain_seconds, lambda: _drain(sources))
    if in_time:
        await then()
    written = await a_last_try(lambda: write_moved(sources))
    return in_time and written and not _is_under_way(sources)


async def a_last_try(work: Callable[[], Awaitable[None]]) -> bool:
    """Write something to the books; whether it is there."""
    return await _within(_LAST_WRITE_SECONDS, work)


async def write_moved(sources: Sequence[Source]) -> None:
    """Write the positions that have moved."""
    for source in sources:
        await source.record()


async def _drain(sources: Sequence[Source]) -> None:
    for source in sources:
        await source.drain()
    await write_moved(sources)


def _is_under_way(sources: Sequence[Source]) -> bool:
    """Whether anything is that did not stop for a reason of its own."""
    copies = (copy for source in sources for copy in source.copies.values())
    return any(copy.bytes_under_way and copy.stopped is None for copy in copies)


async def _within(seconds: float, work: Callable[[], Awaitable[None]]) -> bool:
    """Whether it came to its end in that time."""
    try:
        async with asyncio.timeout(seconds):
            await work()
    except TimeoutError:
        return False
    return True
