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


LATE_SECONDS: Final = 60.0
"""So long at most waits what is less than `lag_max` records behind; MirrorMaker 2 writes it as often as it commits."""


class Sync(NamedTuple):
    """Two offsets: what lies behind the one lies behind the other, and so does the record at the one, if there is one
    that was mirrored."""

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
        self._written: dict[Part, tuple[Sync, float]] = {}

    def due(self, positions: Iterable[tuple[Part, Position]], seconds: float) -> list[tuple[Part, Sync]]:
        """Those of partitions that have moved far enough or long ago, or whose records lie otherwise than before."""
        found = []
        for part, position in positions:
            sync = sync_below(position)
            if sync is not None and self._is_due(part, sync, seconds):
                found.append((part, sync))
        return found

    def written(self, syncs: Iterable[tuple[Part, Sync]], seconds: float) -> None:
        """They are durable."""
        self._written.update((part, (sync, seconds)) for part, sync in syncs)

    def _is_due(self, part: Part, sync: Sync, seconds: float) -> bool:
        if part not in self._written:
            return True
        before, at = self._written[part]
        if sync.downstream - sync.upstream != before.downstream - before.upstream:
            return True
        return sync != before and (sync.upstream - before.upstream >= self._lag_max or seconds - at >= LATE_SECONDS)


def sync_below(position: Position) -> Sync | None:
    """The one just below a position; None: its place at the destination is not known. What is below it and was not
    mirrored, such as the marker of a transaction, has no place there, so nobody can skip it."""
    return Sync(position.offset - 1, position.at - 1) if position.offset > 0 and position.at > 0 else None
