"""What is known of one partition that is mirrored: how far it is, and why it does not go on.

`Copy` is one whose batches are sent in this process; the books, the summary and whoever plans know it as this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.points import Segment
from fairlead.mirror.lanes import Part
from fairlead.mirror.report import Tally


class Resumed(NamedTuple):
    """Where a partition is begun again. A process of before may have sent what lies behind and not have told it: up to
    where the source ended."""

    offset: int
    at: int
    """-1: where that is at the destination, is not known."""
    end: int


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
        self.frontier: int | None = None
        """Nothing at or behind this offset was sent yet; None: another process knows."""
        self.resumed: Resumed | None = None
        """How a process of before had left it."""
        self.uncertain = False
        """Who carried it may have sent more than anybody knows."""
        self.ends: dict[int, int] = {}
        """Where partitions of the destination end at least, as far as answers to this one's batches have told; only
        where the key chooses among them. Whoever wants both reads these before `frontier`."""
        self.went_back = 0
        """How often all that was under way was forgotten: what is decided of before does not count after it."""
        self._begin = begin
        self._tally = tally
        self._moved = moved

    @property
    def position(self) -> Position:
        """How far everything is acknowledged."""
        return self._begin

    def begun_again(self, *, known: bool = True) -> None:
        """Another process goes on with it, behind one that may have sent more than it has told. `known`: what belongs
        to the position at the destination was known before."""
        position = self.position
        self.resumed = Resumed(position.offset, position.at if known else -1, self.end)

    def take_kept(self) -> Sequence[Segment]:
        """Which stretches of source and destination belong together, as far as it is not told yet (`Line`)."""
        return ()

    def skip(self, until: int, lost: int) -> None:
        """Go on at `until`, since what lies before it is gone at the source; `lost` offsets of it were not mirrored."""
        self.gone += lost
        since = until if self._begin.at >= 0 else -1
        self._begin = replace(self._begin, offset=until, epoch=-1, gone=self.gone, since=since)
        self._moved(self)

    def stop(self, why: str) -> None:
        """It does not go on; what is under way still counts."""
        if self.stopped is None:
            self.stopped = why
            self._tally.stopped(self.part, why)
            self._moved(self)
