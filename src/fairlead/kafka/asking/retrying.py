"""Trying again, with pauses that grow (KIP-580)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fairlead.kafka.configuration.settings import ClientSettings
from fairlead.kafka.errors import PASSING
from fairlead.model.errors import TryAgain

T = TypeVar("T")
_DOUBLINGS_MAX = 16


def pause_seconds(settings: ClientSettings, failures: int) -> float:
    """The pause after that many failures in a row."""
    pause_ms = settings.retry_backoff_ms << min(max(failures - 1, 0), _DOUBLINGS_MAX)
    return min(pause_ms, settings.retry_backoff_max_ms) / 1000


async def again(settings: ClientSettings, attempt: Callable[[], Awaitable[T]]) -> T:
    """What `attempt` gives, which is made until `request_timeout_ms` is over.

    Raises:
        TryAgain: what it last failed with; else what it raised.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.request_timeout_ms / 1000
    failures = 0
    while True:
        try:
            return await attempt()
        except PASSING as error:
            failures += 1
            pause = pause_seconds(settings, failures)
            if loop.time() + pause >= deadline:
                raise error if isinstance(error, TryAgain) else TryAgain(str(error)) from None
        await asyncio.sleep(pause)
