"""The stretches of one partition that are remembered, in the order of the source's offsets, in blocks that the books
have a record of each.

Bounded: beyond `BLOCKS_MAX` blocks of two neighbours the shorter one is forgotten, so what is long ago is remembered
less closely; the first never is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Final

from fairlead.mirror.books.points import Segment

BLOCK: Final = 64
"""Stretches in a block: some 2 KB in the books, written anew for each that is added."""
BLOCKS_MAX: Final = 32


class History:
    """Grows at its end. A stretch that begins before others takes their place: the partition went back."""

    def __init__(self, blocks: Mapping[int, Sequence[Segment]] | None = None) -> None:
        self._blocks = {number: list(blocks[number]) for number in sorted(blocks or ()) if blocks and blocks[number]}
        self._changed: set[int] = set()

    def __iter__(self) -> Iterator[Segment]:
        for block in self._blocks.values():
            yield from block

    def __len__(self) -> int:
        return sum(map(len, self._blocks.values()))

    def add(self, segment: Segment) -> None:
        """Remember one more."""
        self._cut(segment.source)
        last = max(self._blocks, default=-1)
        if last < 0 or len(self._blocks[last]) >= BLOCK:
            last += 1
            self._blocks[last] = []
        self._blocks[last].append(segment)
        self._changed.add(last)
        if len(self._blocks) > BLOCKS_MAX:
            self._thin()

    def below(self, offset: int) -> Segment | None:
        """The last one that does not begin behind an offset of the source."""
        for block in reversed(self._blocks.values()):
            if block[0].source <= offset:
                return block[bisect_right(block, offset, key=attrgetter("source")) - 1]
        return None

    def after(self, segment: Segment) -> Segment | None:
        """The one behind it."""
        for block in self._blocks.values():
            at = bisect_right(block, segment.source, key=attrgetter("source"))
            if at < len(block):
                return block[at]
        return None

    def clear(self) -> None:
        """The partition begins anew."""
        self._cut(0)

    def take_changed(self) -> Mapping[int, Sequence[Segment] | None]:
        """The blocks that are not as the books have them; None: it is gone."""
        changed, self._changed = self._changed, set()
        return {number: self._blocks.get(number) for number in sorted(changed)}

    def give_back(self, numbers: Mapping[int, object]) -> None:
        """These could not be written."""
        self._changed |= numbers.keys()

    def _cut(self, source: int) -> None:
        for number, block in reversed(list(self._blocks.items())):
            keep = bisect_right(block, source - 1, key=attrgetter("source"))
            if keep == len(block):
                return
            del block[keep:]
            self._changed.add(number)
            if not block:
                self._remove(number)

    def _thin(self) -> None:
        first, *others = self
        pairs = zip_longest(others[::2], others[1::2])
        kept = [first, *(one if other is None or one.run > other.run else other for one, other in pairs)]
        self._changed |= self._blocks.keys()
        self._blocks = {at // BLOCK: kept[at : at + BLOCK] for at in range(0, len(kept), BLOCK)}
        self._changed |= self._blocks.keys()

    def _remove(self, number: int) -> None:
        del self._blocks[number]
        self._changed.add(number)
