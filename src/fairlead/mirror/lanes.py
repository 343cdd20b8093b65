"""Lanes: the 16 classes of a mirror's partitions. A lane is the unit of positions, and of what one stream fetches."""

from __future__ import annotations

from typing import Final, NamedTuple

import crc32c

LANES: Final = 16
"""As many partitions has the topic of positions; the number is in no record, and all the same it never changes."""


class Part(NamedTuple):
    """A partition of a source's topic, as positions know it: a topic that is made again is another one."""

    cluster: str
    """Id of the source's cluster."""
    topic_id: bytes
    """16 bytes; where a source has no topic ids, zeros."""
    topic: str
    """Its name; with a topic id only for people."""
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}"


def lane_of(part: Part) -> int:
    """Which lane a partition belongs to, for ever."""
    topic = part.topic_id if any(part.topic_id) else part.topic.encode()
    return int(crc32c.crc32c(topic + part.partition.to_bytes(4, "big"))) % LANES


def streams_used(wanted: int, partitions: int) -> int:
    """How many of the streams that were asked for have anything to do."""
    return max(1, min(wanted, LANES, partitions))


def stream_of(part: Part, streams: int) -> int:
    """Which of so many streams carries a partition."""
    return lane_of(part) % streams
