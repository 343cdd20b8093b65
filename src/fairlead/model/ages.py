"""How long something has been so, for people."""

from __future__ import annotations

_STEPS = ((86_400, 2, "days"), (3_600, 2, "h"), (60, 2, "min"), (1, 0, "s"))
"""Seconds of a unit, and from how many of it on it is used: 119 s say more than 1 min."""


def age(seconds: int) -> str:
    """`8 s`, `119 s`, `2 min`, `36 h`, `12 days`."""
    unit, _, name = next(step for step in _STEPS if seconds >= step[0] * step[1])
    return f"{seconds // unit:,} {name}"
