"""What a case of the bench is: a question with points, asked of several systems by the same program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = "fairlead"
"""The system that every case has; others are its peers."""


class CheckFailed(Exception):
    """Records are missing, altered or out of order: whatever was measured does not count."""


@dataclass(frozen=True)
class Point:
    """One setting of what a case varies."""

    name: str
    """Such as `1KB-1topic-1producer`; bars and charts know points by it."""
    settings: Mapping[str, Any]
    """Plain JSON; a stored run counts only while its settings are the point's."""
    systems: tuple[str, ...] = ()
    """Those that are asked, in this order; empty: all of the case."""
    once: bool = False
    """One round, whatever number is asked for: it takes long."""


Figures = Mapping[str, Any]
"""Name with its unit -> number. A list, such as `histogram` of `[upper ms, count]`, is stored aside, not compared."""

Measure = Callable[[Path, Point], Figures]
"""Starts the system in a fresh folder, loads it, checks the records, ends all that it started."""


@dataclass(frozen=True)
class Case:
    """A question of the bench."""

    name: str
    systems: Mapping[str, Measure]
    points: Sequence[Point]
    quick: Sequence[Point]
    """Small ones, of a few seconds together, for Fairlead alone."""
    rounds: int = 3
    """1 stays 1, whatever number of rounds is asked for."""
    limit_seconds: float = 600
    """Of one run; it has failed after that."""

    def systems_of(self, point: Point) -> tuple[str, ...]:
        """Who is asked at a point."""
        return point.systems or tuple(self.systems)
