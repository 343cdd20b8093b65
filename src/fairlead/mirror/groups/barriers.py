"""Moments of a topic whose records are dealt to partitions by key: at each of them everything that a source partition
had at or behind an offset was still to be sent, so all of it lies at or behind where the destination ended then.

A group that has read everything below the offsets of such a moment finds what it has not read at or behind the ends of
that moment, in whatever partition. The newest one that it has passed in all partitions is its place: it reads a little
again, and skips nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final

from fairlead.mirror.books.points import Barrier

BARRIERS_MAX: Final = 128
_CLOSE: Final = 32
"""The newest are all remembered, the others less closely the older they are."""


class Barriers:
    """Of one topic, in order of time."""

    def __init__(self, known: Mapping[int, Barrier] | None = None) -> None:
        self._known = {number: known[number] for number in sorted(known or ())} if known else {}
        self._changed: set[int] = set()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, barrier: Barrier) -> None:
        """Remember a moment, if anything has moved since the last one."""
        last = max(self._known, default=-1)
        if last >= 0 and self._known[last] == barrier:
            return
        if last >= 0 and self._known[last].source == barrier.source:
            del self._known[last]  # nothing was sent meanwhile, and more is known of where it went
            self._changed.add(last)
        self._known[last + 1] = barrier
        self._changed.add(last + 1)
        if len(self._known) > BARRIERS_MAX:
            for number in list(self._known)[:-_CLOSE:2]:
                del self._known[number]
                self._changed.add(number)

    @property
    def newest(self) -> Barrier | None:
        """The last one; None: there is none."""
        return self._known[max(self._known)] if self._known else None

    def clear(self) -> None:
        """The topic begins anew."""
        self._changed |= self._known.keys()
        self._known.clear()

    def passed(self, offsets: Sequence[int]) -> Barrier | None:
        """The newest moment that a group with these offsets, partition by partition, has passed."""
        for barrier in reversed(self._known.values()):
            if barrier.destination and all(
                offset >= source for offset, source in zip_longest(offsets, barrier.source, fillvalue=0)
            ):
                return barrier
        return None

    def take_changed(self) -> Mapping[int, Barrier | None]:
        """Those that are not as the books have them; None: it is forgotten."""
        changed, self._changed = self._changed, set()
        return {number: self._known.get(number) for number in sorted(changed)}

    def give_back(self, numbers: Mapping[int, object]) -> None:
        """These could not be written."""
        self._changed |= numbers.keys()
