"""An iterator that blocks, read in a thread, some items at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

READ_AT_ONCE_BYTES = 256 * 1024
"""Parts of a log are fetched from the reading thread together up to this size, and their small frames handed on
together."""

T = TypeVar("T")


async def in_thread(items: Iterator[T], size_of: Callable[[T], int]) -> AsyncIterator[list[T]]:
    """The items of an iterator that blocks, fetched in a thread: some `READ_AT_ONCE_BYTES` each time, since a change of
    threads costs more than a small item. If there is an error, the items before it are given first."""
    ended = False
    while not ended:
        found, ended, error = await asyncio.to_thread(_some, items, size_of)
        if found:
            yield found
        if error is not None:
            raise error


def _some(items: Iterator[T], size_of: Callable[[T], int]) -> tuple[list[T], bool, Exception | None]:
    """The next items; whether they are the last; the error that ended them, if any."""
    found: list[T] = []
    size_bytes = 0
    try:
        for item in items:
            found.append(item)
            size_bytes += size_of(item)
            if size_bytes >= READ_AT_ONCE_BYTES:
                return found, False, None
    except Exception as error:
        return found, True, error
    return found, True, None
