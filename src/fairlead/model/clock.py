"""Time and randomness are handed in, so that tests can replay them."""

from __future__ import annotations

import os
import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: the wall, which people set and which may jump, and the monotonic one, which does neither."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 by the machine's clock."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class Randomness(Protocol):
    """Source of ids."""

    def id16(self) -> bytes:
        """16 random bytes: stream, incarnation, link and writer epoch ids."""
        ...


class SystemRandomness:
    """Ids from the operating system."""

    def id16(self) -> bytes:
        return os.urandom(16)
