"""Which offsets of the destination belong to those of the source, for one partition that keeps its number: made of the
answers to Produce, in their order.

As long as batches without holes follow each other at both ends, all of them are one stretch (`Segment`), whatever its
length. Something that lies between at one end alone begins a new one: a transaction's marker, a record that compaction
has removed, a batch that somebody else has written at the destination. The newest stretch goes with the position. Of
those before, one is kept for each 4 MB: between them the records that are still at the source are counted.

Always true: every record at or behind an offset of the source lies at or behind the one that belongs to it. An answer
that does not name an offset is taken for the lowest that it can mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Final, Protocol

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.points import Segment

SPACING_BYTES: Final = 4 * 1024 * 1024
"""So much is mirrored between the ends of two stretches that are kept, and so much is read at most to count."""


class Sent(Protocol):
    """A batch, as far as a line must know it."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def mixed(self) -> bool: ...


class Line:
    """Begins where the books say; of a partition whose place at the destination they do not know, with the first
    answer."""

    def __init__(self, begin: Position) -> None:
        self._kept: list[Segment] = []
        self._sent = begin.sent
        self._left = 0
        """What must still be mirrored before a stretch is kept; the one that the position had is."""
        self._last: Segment | None = None
        self._mixed_end: int | None = None
        """Where mixed batches end at the destination that the partition has not passed yet."""
        if begin.at >= 0:
            run = begin.offset - begin.since
            self._last = Segment(begin.since, begin.at - run, run, begin.sent - run)

    def ahead(self) -> Line:
        """One that hears what does not count yet, and leaves this as it is."""
        found = copy(self)
        found._kept = []
        return found

    def heard(self, sent: Sent, offset: int | None) -> None:
        """A batch is at the destination, at `offset` if that was told."""
        first, records = sent.first_offset, sent.records
        last = self._last
        if sent.mixed:
            self._heard_mixed(sent, offset)
            return
        if offset is None:
            offset = -1 if last is None else last.destination_end
        if offset >= 0:
            if last is None or (first, offset) != (last.end, last.destination_end):
                last = self._begin(first, offset)
            if records == sent.last_offset - first + 1:
                self._last = last._replace(run=last.run + records)
        self._sent += records
        self._left -= sent.size_bytes
        if offset >= 0:
            self.passed(sent.last_offset + 1, offset + records)

    def _heard_mixed(self, sent: Sent, offset: int | None) -> None:
        """Only once all of them are there, anything is known of what lies behind them."""
        if offset is not None:
            if self._last is None:
                self._begin(sent.first_offset, offset)
            self._mixed_end = offset + sent.records
        self._sent += sent.records
        self._left -= sent.size_bytes

    def passed(self, source: int, destination: int | None = None) -> None:
        """The partition goes on at `source`, and at the destination behind all before, or at `destination`."""
        last = self._last
        if last is None:
            return
        if self._mixed_end is not None and source > last.end:
            destination, self._mixed_end = max(self._mixed_end, destination or 0), None
        if destination is None:
            destination = last.destination_end
        if (source, destination) != (last.end, last.destination_end):
            self._begin(source, destination)

    def of(self, position: Position) -> Position:
        """The position with what belongs to it at the destination."""
        last = self._last
        if last is None or last.end != position.offset:
            return replace(position, sent=self._sent)
        return replace(position, sent=self._sent, at=last.destination_end, since=last.source)

    def take_kept(self) -> Sequence[Segment]:
        """The stretches that are to be remembered since this was asked last."""
        kept, self._kept = self._kept, []
        return kept

    def _begin(self, source: int, destination: int) -> Segment:
        if self._last is not None and self._left <= 0:
            self._kept.append(self._last)
            self._left = SPACING_BYTES
        self._last = Segment(source, destination, 0, self._sent)
        return self._last
