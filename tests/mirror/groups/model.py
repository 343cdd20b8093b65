"""One partition that is mirrored, and a plain model of it beside: which record lies where at the destination."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fairlead.mirror.books.book import Position, position_record, read_book
from fairlead.mirror.books.plain import outgoing_of
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.carrying.copying import Copy, Made
from fairlead.mirror.carrying.line import Line
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.groups.tracks import Tracks, anchor_in, placed
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Place
from fairlead.mirror.report import Tally

PART = Part("a", bytes(range(16)), "t", 0)
PLACE = Place("t", 0)
ROUTE = Route(0, 1, by_key=False, keep_order=False)
RECORD, MARKER, ABORTED, HOLE = "record", "marker", "aborted", "hole"
FOREIGN = -1


@dataclass
class Way:
    """Its source, its destination, and the books. A record is named by its offset at the source."""

    source: list[str] = field(default_factory=list)
    """What lies at each offset."""
    gone: set[int] = field(default_factory=set)
    """Records that compaction has removed after they were mirrored."""
    destination: list[int] = field(default_factory=list)
    """The record at each offset; FOREIGN: somebody else's."""
    records: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    """The books."""
    told: bool = True
    """Whether answers name offsets."""

    def __post_init__(self) -> None:
        self._unanswered: list[tuple[int, asyncio.Future[int | None]]] = []
        self.start()

    def start(self) -> None:
        """A process begins, from the books."""
        book = read_book(self.records, "books")
        known = book.positions.get(PART)
        ends = {PLACE: len(self.destination)}
        begin = placed(known or Position(0, -1, "t", "t"), ROUTE, ends)
        self.tracks = Tracks()
        end, line = len(self.source), Line(begin)
        self.copy = Copy(PART, "t", begin, lambda origin: self, Tally(), lambda standing: None, end, line)
        self.tracks.begin(self.copy, ROUTE, book, ends, fresh=known is None)
        self._unanswered.clear()
        self._next = begin.offset
        if known is None:
            self.record()

    # ------------------------------------------------------------ the producer

    def send(
        self, topic: str, partition: int, outgoing: Outgoing, *, in_order: bool = False
    ) -> asyncio.Future[int | None]:
        """It is durable at once, and answered later."""
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._unanswered.append((len(self.destination), future))
        offsets = range(outgoing.first_offset, outgoing.last_offset + 1)
        self.destination += [offset for offset in offsets if self.source[offset] == RECORD]
        return future

    # ------------------------------------------------------------ what happens

    def write(self, kinds: Sequence[str]) -> None:
        """A batch of the source, or a marker."""
        self.source += kinds

    async def mirror(self, sizes: Iterable[int]) -> None:
        """Fetch and send what is there, in batches of so many offsets."""
        sends: list[tuple[str, int, Outgoing]] = []
        steps: list[tuple[int, int, int]] = []
        for size in sizes:
            end = min(self._next + size, len(self.source))
            found = [at for at in range(self._next, end) if self.source[at] == RECORD]
            if found:
                made = outgoing_of([(b"k", b"v")] * len(found), 0)
                sends.append(("a", 0, made._replace(first_offset=found[0], last_offset=end - 1)))
            steps.append((1 if found else 0, end, 0))
            self._next = end
        self.copy.take(Made(sends, steps))
        await asyncio.sleep(0)

    async def mirror_all(self, sizes: Sequence[int] = ()) -> None:
        """The same with all that is there."""
        await self.mirror([*sizes, *[7] * len(self.source)])

    async def answer(self) -> None:
        """All answers come."""
        for offset, future in self._unanswered:
            if not future.done():
                future.set_result(offset if self.told else None)
        self._unanswered.clear()
        await asyncio.sleep(0)

    def record(self) -> None:
        """The books are written."""
        self.tracks.heard([self.copy])
        self.records.append(position_record(PART, self.copy.position))
        for records in self.tracks.take_news().records.values():
            self.records += records

    # ------------------------------------------------------------ what is found

    def translated(self, offset: int) -> int | None:
        """Where a group that has committed `offset` stands at the destination."""
        self.tracks.heard([self.copy])
        track = self.tracks.kept[PLACE]
        anchor = anchor_in(track, offset)
        if anchor is None or not anchor.left:
            return None if anchor is None else anchor.destination
        between = range(anchor.source, offset)
        return anchor.destination + sum(self.source[at] == RECORD and at not in self.gone for at in between)

    def skipped(self, offset: int) -> list[int]:
        """Records that a group has not read, that are at the destination, and that it would not read there."""
        at = self.translated(offset)
        if at is None:
            return []
        ahead = set(self.destination[at:])
        return [each for each in set(self.destination) if each >= offset and each not in ahead]

    def exact(self, offset: int) -> int:
        """Behind the last copy of what lies before `offset`, where each record was sent once."""
        return sum(each < offset for each in self.destination if each != FOREIGN)
