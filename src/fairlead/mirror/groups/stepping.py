"""Where so many records end at the destination, from a place on: markers of transactions are stepped over.

Never too far: whatever else lies there counts as a record, and so does what compaction has removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fairlead.mirror.ports import Answer, Cluster, Feed, Place
from fairlead.model.errors import TryAgain
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

    @property
    def done(self) -> bool:
        return self._left == 0 or self.at >= self.steps.until

    def take(self, records: memoryview) -> None:
        """The next batches; the last one may be cut."""
        start = 0
        while len(records) - start >= HEADER_BYTES and not self.done:
            if records[start + MAGIC_AT] < MAGIC:
                self._left = 0  # messages of before Kafka 0.11 are not read for this
                return
            header = read_header(records[start:])
            if header.base_offset > self.at:
                self._pass(header.base_offset)
            if not self.done and header.last_offset >= self.at:
                if header.attributes & CONTROL:
                    self.at = header.last_offset + 1
                else:
                    self._pass(header.last_offset + 1)
            start += header.size_bytes

    def _pass(self, end: int) -> None:
        count = min(end - self.at, self._left)
        self.at += count
        self._left -= count


async def ends(cluster: Cluster, wanted: Sequence[Steps]) -> Mapping[Steps, int]:
    """Where each of them ends. Raises: TryAgain: the destination does not answer."""
    there = await cluster.topics({steps.place.topic for steps in wanted}) if wanted else {}
    found = {steps: steps.begin for steps in wanted if steps.records == 0 or steps.place.topic not in there}
    left = sorted(set(wanted) - found.keys())
    while left:
        at_once = {steps.place: _Walk(steps, there[steps.place.topic].topic_id) for steps in left}
        await _walk(cluster, at_once)
        found |= {walk.steps: min(walk.at, walk.steps.until) for walk in at_once.values()}
        left = [steps for steps in left if steps not in found]
    return found


async def _walk(cluster: Cluster, walks: Mapping[Place, _Walk]) -> None:
    """One walk for each partition, all to their ends."""
    feed = cluster.feed()
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await _all(feed, dict(walks))
    except TimeoutError:
        raise TryAgain(feed.down or "the destination has not sent what a group's offset needs in time") from None
    finally:
        await feed.close()


async def _all(feed: Feed, left: dict[Place, _Walk]) -> None:
    for place, walk in left.items():
        feed.assign(place, walk.topic_id, walk.at, -1)
    while left:
        for answer in await feed.next():
            found = left.get(answer.place)
            if found is not None and _ended(found, answer):
                feed.remove(answer.place)
                del left[answer.place]


def _ended(walk: _Walk, answer: Answer) -> bool:
    """Whether nothing more of the answer's partition is needed. Where it cannot be read, the place of before counts."""
    if answer.trouble is not None:
        return True
    walk.take(answer.records)
    return walk.done
