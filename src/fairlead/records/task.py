"""What one Spark task reads: plain values that travel from the driver to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.model.errors import FairleadError
from fairlead.streamlog.values import DeadFrom, LogObject

Bounds = Mapping[tuple[int, int], int]
"""Offset by topic number and partition."""


class RecordsLost(FairleadError):
    """Records that a query had not read yet are gone; with failOnDataLoss=false the query logs that and goes on."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows of one shard are read."""

    shard: int
    first: int
    end: int
    """Commits [first, end)."""
    topics: Mapping[int, str] | None = None
    """Name by number, if topics were named; None: all topics, or those of the pattern."""
    pattern: str | None = None
    low: Bounds = field(default_factory=dict)
    high: Bounds = field(default_factory=dict)
    partitions: frozenset[int] | None = None
    """Only these partitions of each topic (a filter that Spark handed down)."""
    cuts: tuple[DeadFrom, ...] = ()
    """Where partitions were cut: what that made dead is not read."""
    share: int = 0
    shares: int = 1
    """Partitions are dealt to `shares` tasks, so that each partition is read in order by one task."""


@dataclass(frozen=True, slots=True)
class Task:
    """One Spark task."""

    servers: tuple[str, ...]
    path: str
    root: str
    objects: tuple[LogObject, ...]
    choice: Choice
    columns: tuple[str, ...]
    began: int
    """`start` rows below this commit report no loss of records that the query could have read."""
    fail_on_data_loss: bool = True
    check_crcs: bool = True
