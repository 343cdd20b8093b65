"""Gives memory back that a server took while much went on: one task for the whole process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import structlog

from fairlead.process.machine import give_back_memory
from fairlead.streamlog.reading.recent import RecentBatches

WORTH_BYTES: Final = 16_000_000
"""Less than this stays with the C library, which will need it again."""

log = structlog.get_logger(__name__)


async def keep_small(recent: RecentBatches, every_seconds: float) -> None:
    """Until cancelled: let go of the newest batches as they get old."""
    while True:
        await asyncio.sleep(every_seconds)
        await let_go(recent)


async def let_go(recent: RecentBatches, give_back: Callable[[], None] | None = None) -> None:
    """One turn: what was there at the turn before last goes, in short steps, and then back to the system."""
    recent.turn()
    before = recent.size_bytes
    while await asyncio.to_thread(recent.drop_old):
        pass
    freed = before - recent.size_bytes
    if freed >= WORTH_BYTES:
        await asyncio.to_thread(give_back or _give_back)
        log.debug("batches that nobody asked for went back to the system", bytes=freed)


def _give_back() -> None:
    pa.default_memory_pool().release_unused()
    give_back_memory()
