"""Where the source's partitions end, asked again and again, and since when each has been behind.

What an open transaction holds back is no lag: nobody who reads committed records sees it yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.lanes import Part
from fairlead.mirror.mirror import Mirror
from fairlead.mirror.ports import LATEST, LOG_END, Place
from fairlead.mirror.source import Source
from fairlead.model.clock import Clock
from fairlead.model.errors import FairleadError

LOOK_SECONDS: Final = 5.0
_ENDS_MAX: Final = 1_000
"""Of one partition that are remembered; of one that has been behind for longer the oldest stays."""


class Ends:
    """Of one partition: where it ended when it was looked at."""

    def __init__(self) -> None:
        self.end = 0
        """For readers of committed records."""
        self.written = 0
        """With what is in open transactions."""
        self._seen: deque[tuple[int, int]] = deque()
        """When it was first seen to end there, while that is not mirrored."""

    def look(self, end: int, written: int, position: int, now_ms: int) -> None:
        """It ends there now, and is mirrored up to `position`."""
        self.end, self.written = end, max(written, end)
        while self._seen and self._seen[0][1] <= position:
            self._seen.popleft()
        if end > position and (not self._seen or end > self._seen[-1][1]):
            if len(self._seen) == _ENDS_MAX:
                self._seen.pop()
            self._seen.append((now_ms, end))

    def seconds_behind(self, position: int, now_ms: int) -> float:
        """For how long the next record has been there."""
        since = next((at_ms for at_ms, end in self._seen if end > position), None)
        return 0.0 if since is None else max(now_ms - since, 0) / 1000


class Looking:
    """At the partitions of all mirrors of the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[Part, Ends] = {}

    def of(self, standing: Standing) -> Ends:
        """What was seen last of a partition."""
        ends = self._ends.get(standing.part)
        if ends is None:
            ends = Ends()
            ends.end = ends.written = max(standing.end, 0)
        return ends

    async def look(self, mirrors: Sequence[Mirror]) -> None:
        """Once. A source that is away is passed over: the mirror tells of that."""
        there: set[Part] = set()
        for source in [source for mirror in mirrors for source in mirror.sources]:
            standings = list(source.copies.values())
            there.update(standing.part for standing in standings)
            with suppress(FairleadError):
                await self._look_at(source, standings)
        self._ends = {part: ends for part, ends in self._ends.items() if part in there}

    async def _look_at(self, source: Source, standings: Sequence[Standing]) -> None:
        places = [Place(standing.part.topic, standing.part.partition) for standing in standings]
        if not places:
            return
        written = await source.cluster.offsets(places, LOG_END)
        ends = await source.cluster.offsets(places, LATEST)
        now = self._clock.monotonic_ms()
        for place, standing in zip(places, standings, strict=True):
            seen = self._ends.setdefault(standing.part, Ends())
            seen.look(ends[place], written[place], standing.position.offset, now)
