"""Where so many records end at the destination, from a place on: markers of transactions are stepped over.

Never too far: whatever else lies there counts as a record, and so does what compaction has removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from fairlead.mirror.ports import Answer, Cluster, Feed, Place
from fairlead.protocol.batch import CONTROL, HEADER_BYTES, MAGIC, MAGIC_AT, read_header

WAIT_SECONDS: Final = 30.0


class Steps(NamedTuple):
    """So many records of a partition, from an offset on."""

    place: Place
    begin: int
    records: int
    until: int
    """They end there or before."""


class _Walk:
    """Goes over what comes of one partition."""

    def __init__(self, steps: Steps, topic_id: bytes) -> None:
        self.steps = steps
        self.topic_id = topic_id
        self.at = steps.begin
        self._left = steps.records
        self._unreadable = False

    @property
    def ended(self) -> bool:
        """Whether nothing more is needed. Where a partition cannot be read, the place of before counts."""
        return self._unreadable or self._left == 0 or self.at >= self.steps.until

    def heard(self, answer: Answer) -> None:
        """What comes next."""
        if answer.trouble is None:
            self._take(answer.records)
        else:
            self._unreadable = True

    def _take(self, records: memoryview) -> None:
        """The next batches; the last one may be cut."""
        start = 0
        while len(records) - start >= HEADER_BYTES and not self.ended:
            if records[start + MAGIC_AT] < MAGIC:
                self._left = 0  # messages of before Kafka 0.11 are not read for this
                return
            header = read_header(records[start:])
            if header.base_offset > self.at:
                self._pass(header.base_offset)
            if not self.ended and header.last_offset >= self.at:
                if header.attributes & CONTROL:
                    self.at = header.last_offset + 1
                else:
                    self._pass(header.last_offset + 1)
            start += header.size_bytes

    def _pass(self, end: int) -> None:
        count = min(end - self.at, self._left)
        self.at += count
        self._left -= count


class Stepping:
    """Reads from one destination. What takes longer than `WAIT_SECONDS` goes on with the next question."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._begun: dict[Steps, _Walk] = {}
        """Those that were asked for last."""

    async def ends(self, wanted: Iterable[Steps]) -> Mapping[Steps, int]:
        """Where each of them ends; those that take longer are missing. Raises: TryAgain: the destination does not
        answer."""
        asked = sorted(set(wanted))
        there = await self._cluster.topics({steps.place.topic for steps in asked}) if asked else {}
        found = {steps: steps.begin for steps in asked if steps.records == 0 or steps.place.topic not in there}
        walks = [self._walk(each, there[each.place.topic].topic_id) for each in asked if each not in found]
        self._begun = {walk.steps: walk for walk in walks}
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while left := {walk.steps.place: walk for walk in walks if not walk.ended}:
                    await self._together(left)
        return found | {walk.steps: min(walk.at, walk.steps.until) for walk in walks if walk.ended}

    def _walk(self, steps: Steps, topic_id: bytes) -> _Walk:
        begun = self._begun.get(steps)
        return begun if begun is not None and begun.topic_id == topic_id else _Walk(steps, topic_id)

    async def _together(self, left: dict[Place, _Walk]) -> None:
        """One walk for each partition, all to their ends."""
        feed = self._cluster.feed()
        try:
            await _all(feed, left)
        finally:
            await feed.close()


async def _all(feed: Feed, left: dict[Place, _Walk]) -> None:
    for place, walk in left.items():
        feed.assign(place, walk.topic_id, walk.at, -1)
    while left:
        for answer in await feed.next():
            found = left.get(answer.place)
            if found is not None:
                found.heard(answer)
                if found.ended:
                    feed.remove(answer.place)
                    del left[answer.place]
