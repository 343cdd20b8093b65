"""A server gives memory back that it took while much went on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fairlead.model.settings import Settings
from fairlead.server.memory import WORTH_BYTES, let_go
from fairlead.streamlog.reading.index import live_of
from fairlead.streamlog.reading.recent import RecentBatches
from fairlead.streamlog.rows import NO_COMMIT, Kind, Row


def filled(size_bytes: int, count: int = 20) -> RecentBatches:
    """A memory that holds about so much."""
    shared = RecentBatches(Settings(cache_bytes=10 * size_bytes))
    log = shared.of_log()
    batch = size_bytes // count
    for offset in range(count):
        fixed = (offset, offset, 0, offset, 0, None, None, NO_COMMIT)
        row = Row(Kind.BATCH, 1, 0, *fixed, 0, 0, 1, 0, 0, offset, 0, b"x" * batch)
        log.add(offset, live_of([row]))
    return shared


async def test_what_goes_from_memory_goes_back_to_the_system() -> None:
    """At the second turn after it came, and not while there is nothing to give."""
    given: list[None] = []
    shared = filled(WORTH_BYTES + 1)
    await let_go(shared, lambda: given.append(None))
    assert (shared.size_bytes > WORTH_BYTES, given) == (True, [])
    await let_go(shared, lambda: given.append(None))
    assert (shared.size_bytes, given) == (0, [None])
    await let_go(shared, lambda: given.append(None))
    assert given == [None]


async def test_a_little_stays_with_the_process() -> None:
    """It will be asked for again."""
    given: list[None] = []
    shared = filled(WORTH_BYTES // 2)
    for _ in range(2):
        await let_go(shared, lambda: given.append(None))
    assert (shared.size_bytes, given) == (0, [])


def test_the_processs_memory_falls() -> None:
    """300 MB in pieces of 100 KB, between others that stay: the C library would keep them all."""
    program = """
import asyncio, sys
from fairlead.process.machine import resident_bytes
from fairlead.server.memory import let_go
from tests.server.test_memory import filled
before = resident_bytes()
shared = filled(300_000_000, 3000)
kept = [bytes(1000) for _ in range(10_000)]
full = resident_bytes()
for _ in range(2):
    asyncio.run(let_go(shared))
assert full - before > 290_000_000, full - before
assert resident_bytes() - before < 60_000_000, resident_bytes() - before
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
