"""How often a mirror does what it does again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Paces:
    """In seconds."""

    positions: float = 1.0
    commits: float = 5.0
    groups: float = 5.0
    topics: float = 10.0
    """Looks for new topics and partitions."""
    retry: float = 10.0
    """Until what could not be begun or found is tried again, whether new topics are looked for or not."""
    progress: float = 5.0
    holder: float = 10.0
    drain: float = 30.0
    """How long an end waits for acknowledgements."""


USUAL: Final = Paces()
