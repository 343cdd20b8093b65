"""How far a link is, slice by slice: what its destination has recorded, what its readers have scanned beyond that.

In: answers of destinations, reports of tasks. Always true: a recorded position goes back only where the destination
says so. It never asks a log or a destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead.model.names import SLICES
from fairlead.wire.control import ReadReport

SliceKey = tuple[int, int]
"""(shard of the source, slice)."""


class Positions:
    """Commits of the source's shards, by slice. A slice of which nothing is known begins at 0."""

    def __init__(self) -> None:
        self._recorded: dict[SliceKey, int] = {}
        self._scanned: dict[SliceKey, tuple[int, int]] = {}
        """(read to, last frame handed on) by the present grant."""
        self._furthest = 0
        """Largest sum of all effective positions: what a new grant reads again is no progress."""

    def recorded(self) -> dict[SliceKey, int]:
        """What the destination has recorded, as it now is."""
        return dict(self._recorded)

    def effective(self, key: SliceKey) -> int:
        """All commits below this are done: recorded by the destination, or read with nothing to send in them."""
        recorded = self._recorded.get(key, 0)
        read, emitted = self._scanned.get(key, (0, 0))
        return max(recorded, read) if recorded >= emitted else recorded

    def effective_of(self, shard: int) -> dict[int, int]:
        """By slice, `effective`."""
        return {each: self.effective((shard, each)) for each in range(SLICES)}

    def start_of(self, shard: int) -> dict[int, int]:
        """By slice, where the frames of a grant begin: what the destination has recorded.

        It records nothing of a stretch in which there is nothing to send. What is known of that (`effective`) a restart
        forgets: then the stretch is read again, which costs a look at the columns.
        """
        return {each: self._recorded.get((shard, each), 0) for each in range(SLICES)}

    def passed(self, shards: int) -> tuple[int, ...]:
        """By shard, the commit below which every slice is done."""
        return tuple(min(self.effective_of(shard).values()) for shard in range(shards))

    def reached(self, ends: tuple[int, ...]) -> bool:
        """Everything below these ends of the shards is done."""
        return all(self.effective((shard, each)) >= end for shard, end in enumerate(ends) for each in range(SLICES))

    def has_recorded(self, ends: tuple[int, ...]) -> bool:
        """The destination itself has recorded everything below these ends of the shards."""
        return all(
            self._recorded.get((shard, each), 0) >= end for shard, end in enumerate(ends) for each in range(SLICES)
        )

    def read(self, shard: int, report: ReadReport) -> None:
        """Take a reader's report."""
        for each, commit in report.slices.items():
            self._scanned[shard, each] = (commit, report.emitted.get(each, 0))

    def unread(self, shard: int, read_from: Mapping[int, int]) -> None:
        """A new grant begins: what an earlier reader scanned and had not yet delivered counts no more."""
        for each, start in read_from.items():
            self._scanned[shard, each] = (start, 0)

    def advance(self, shard: int, slices: Mapping[int, int]) -> None:
        """Take recorded positions; they never go back."""
        for each, commit in slices.items():
            self._recorded[shard, each] = max(self._recorded.get((shard, each), 0), commit)

    def came_further(self) -> bool:
        """Whether more is done than ever before since the last time this was asked."""
        done = sum(self.effective(key) for key in self._recorded.keys() | self._scanned.keys())
        before, self._furthest = self._furthest, max(self._furthest, done)
        return done > before

    def unlearn(self, keys: Iterable[SliceKey]) -> None:
        """The destination has lost what it had recorded of these slices."""
        for key in keys:
            self._recorded.pop(key, None)
            self._scanned.pop(key, None)
        self._furthest = 0

    def forget(self) -> None:
        """Nothing is known of where the destination stands."""
        self._recorded.clear()
        self._scanned.clear()
        self._furthest = 0
