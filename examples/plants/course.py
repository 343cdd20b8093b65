"""How far the replica and Spark were, over time: what the chart shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, int]
"""Seconds since the beginning, records."""


@dataclass(frozen=True, slots=True)
class Course:
    """Points of both, in order."""

    replicated: Sequence[Point]
    consolidated: Sequence[Point]
    away: tuple[float, float]
    """When Spark did not run."""
