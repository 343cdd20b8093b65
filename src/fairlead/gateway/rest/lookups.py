"""Long work on the few threads for look-ups, in jobs that take turns with those of everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from fairlead.cluster.cluster import Cluster
from fairlead.model.clock import Clock

A = TypeVar("A")
B = TypeVar("B")

_JOB_MS = 20
"""A job ends after this; a single look-up into hostile batches may take longer."""


async def looked_up(cluster: Cluster, items: Sequence[A], work: Callable[[A], B]) -> list[B]:
    """What `work` (blocking) finds for each item, in order."""
    run = asyncio.get_running_loop().run_in_executor
    found: list[B] = []
    while len(found) < len(items):
        found += await run(cluster.lookups, _job, cluster.clock, items, len(found), work)
    return found


def _job(clock: Clock, items: Sequence[A], first: int, work: Callable[[A], B]) -> list[B]:
    until = clock.monotonic_ms() + _JOB_MS
    found: list[B] = []
    while first + len(found) < len(items) and (not found or clock.monotonic_ms() < until):
        found.append(work(items[first + len(found)]))
    return found
