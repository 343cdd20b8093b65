"""MirrorMaker 2's offset syncs: which record of a source's partition lies where at the destination. Its checkpoints
translate the offsets of groups by them, and so do programs that read its topics.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from fairlead.mirror.books.book import Position
from fairlead.mirror.lanes import Part

_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_VALUE: Final = struct.Struct(">qq")


class Sync(NamedTuple):
    """A record at the source, and the same one at the destination."""

    upstream: int
    downstream: int


def sync_record(topic: str, partition: int, sync: Sync) -> tuple[bytes, bytes]:
    """Key and value. The topic is the source's."""
    name = topic.encode()
    return _LENGTH.pack(len(name)) + name + _PARTITION.pack(partition), _VALUE.pack(*sync)


class Syncs:
    """Which syncs of a source are due."""

    def __init__(self, lag_max: int) -> None:
        """So many records of a partition lie between two syncs at most, unless they come faster than it is asked."""
        self._lag_max = lag_max
        self._written: dict[Part, Sync] = {}

    def due(self, positions: Iterable[tuple[Part, Position]]) -> list[tuple[Part, Sync]]:
        """Those of partitions that have moved far enough, or whose records lie otherwise than before."""
        found = []
        for part, position in positions:
            sync = last_record(position)
            if sync is not None and self._is_due(self._written.get(part), sync):
                found.append((part, sync))
        return found

    def written(self, syncs: Iterable[tuple[Part, Sync]]) -> None:
        """They are durable."""
        self._written.update(syncs)

    def _is_due(self, before: Sync | None, sync: Sync) -> bool:
        if before is None or sync.downstream - sync.upstream != before.downstream - before.upstream:
            return True
        return sync != before and sync.upstream - before.upstream >= self._lag_max


def last_record(position: Position) -> Sync | None:
    """The last record below a position, and where it lies; None: that is not known."""
    if position.at < 1 or position.offset <= position.since:
        return None
    return Sync(position.offset - 1, position.at - 1)
