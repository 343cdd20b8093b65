"""Whether owners elsewhere can be reached, by what became of our connections to their gateways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead.model.clock import Clock

TRIED_WITHIN_SECONDS: Final = 15.0
"""What a connection showed that is longer ago counts no more."""
TRY_EVERY_SECONDS: Final = 2.0
"""While an owner cannot be reached, and somebody writes."""

Way = tuple[bytes, bytes]
"""Ids of the stream here and of the owner."""


@dataclass(slots=True)
class _Failing:
    since_ms: float
    last_ms: float


class Reach:
    """Of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[Way, _Failing] = {}
        self._reached: set[Way] = set()

    def failed(self, way: Way) -> None:
        """No gateway has taken the connection, nor refused it."""
        now = self._clock.monotonic_ms()
        self._reached.discard(way)
        self._failing.setdefault(way, _Failing(now, now)).last_ms = now

    def reached(self, way: Way) -> None:
        """A gateway has answered, with a refusal perhaps."""
        self._failing.pop(way, None)
        self._reached.add(way)

    def is_reached(self, way: Way) -> bool:
        """Whether that is so by the last connection; after a start nobody knows."""
        return way in self._reached

    def is_failing(self, way: Way, for_seconds: float) -> bool:
        """Whether every connection has failed for so long, and one was tried lately."""
        found, now = self._failing.get(way), self._clock.monotonic_ms()
        if found is None:
            return False
        return now - found.since_ms >= for_seconds * 1000 and now - found.last_ms <= TRIED_WITHIN_SECONDS * 1000

    def is_to_be_tried(self, way: Way) -> bool:
        """Whether it is time to look, for the first time or again."""
        found = self._failing.get(way)
        if found is None:
            return way not in self._reached
        return self._clock.monotonic_ms() - found.last_ms >= TRY_EVERY_SECONDS * 1000
