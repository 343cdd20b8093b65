"""Where the source's partitions end, asked again and again, and since when each has been behind.

What an open transaction holds back is no lag: nobody who reads committed records sees it yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.ports import LATEST, LOG_END, Place
from fairlead.mirror.running.mirror import Mirror
from fairlead.mirror.source import Source
from fairlead.model.clock import Clock

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
        self._ends: dict[Standing, Ends] = {}
        """Of each flow its own: several may mirror one partition, each as far as it is."""

    def of(self, standing: Standing) -> Ends:
        """What was seen last of a partition."""
        ends = self._ends.get(standing)
        if ends is None:
            ends = Ends()
            ends.end = ends.written = max(standing.end, 0)
        return ends

    async def look(self, mirrors: Sequence[Mirror]) -> None:
        """Once. What its leader does not tell is passed over: the mirror tells of a source that is away."""
        sources = [source for mirror in mirrors for source in mirror.sources]
        looked_at = [list(source.copies.values()) for source in sources]
        await asyncio.gather(*map(self._look_at, sources, looked_at))
        there = {standing for standings in looked_at for standing in standings}
        self._ends = {standing: ends for standing, ends in self._ends.items() if standing in there}

    async def _look_at(self, source: Source, standings: Sequence[Standing]) -> None:
        by_place = {Place(standing.part.topic, standing.part.partition): standing for standing in standings}
        written = await _told(source, by_place, LOG_END)
        ends = await _told(source, written, LATEST)
        now = self._clock.monotonic_ms()
        for place, end in ends.items():
            standing = by_place[place]
            self._ends.setdefault(standing, Ends()).look(end, written[place], standing.position.offset, now)


async def _told(source: Source, places: Iterable[Place], at: int) -> Mapping[Place, int]:
    """Of which places it is known."""
    asked = list(places)
    told = await source.cluster.told_offsets(asked, at) if asked else {}
    return {place: each for place, each in told.items() if isinstance(each, int)}
