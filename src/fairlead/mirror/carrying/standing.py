"""What is known of one partition that is mirrored: how far it is, and why it does not go on.

`Copy` is one whose batches are sent in this process; the books, the summary and whoever plans know it as this.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.mirror.books.book import Position
from fairlead.mirror.lanes import Part
from fairlead.mirror.report import Tally


class Standing:
    """A partition; `moved` hears of each change."""

    def __init__(
        self, part: Part, to: str, begin: Position, tally: Tally, moved: Callable[[Standing], None], end: int = -1
    ) -> None:
        self.part = part
        self.to = to
        self.stopped: str | None = None
        """Why it does not go on; somebody must look at it."""
        self.refused = False
        """Whether it stopped since the destination refused something of it for good."""
        self.records_under_way = 0
        self.bytes_under_way = 0
        self.recorded = begin
        """The position that stands in the books; of a partition that stands still from the start, none does."""
        self.gone = begin.gone
        self.end = end
        """Where the source's partition ended for readers of committed records, when it was asked last; -1: not yet."""
        self._begin = begin
        self._tally = tally
        self._moved = moved

    @property
    def position(self) -> Position:
        """How far everything is acknowledged."""
        return self._begin

    def skip(self, until: int, lost: int) -> None:
        """Go on at `until`, since what lies before it is gone at the source; `lost` offsets of it were not mirrored."""
        self.gone += lost
        self._begin = Position(until, -1, self.part.topic, self.to, self.gone)
        self._moved(self)

    def stop(self, why: str) -> None:
        """It does not go on; what is under way still counts."""
        if self.stopped is None:
            self.stopped = why
            self._tally.stopped(self.part, why)
            self._moved(self)
