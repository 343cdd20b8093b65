"""Topics whose records are dealt to partitions by key, beside a plain model: wherever a group stands at the source, all
that it has not read lies at or behind its place at the destination."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mirror.groups.model import PART

from fairlead.mirror.books.book import Position, position_record, read_book
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.groups.tracks import Tracks
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Place
from fairlead.mirror.report import Tally

SOURCES, TARGETS = 2, 3
ROUTE = Route(0, TARGETS, by_key=True, keep_order=False)


class Moving(Standing):
    """A partition that is as far as the test says."""

    def __init__(self, number: int, offset: int, end: int) -> None:
        part = Part(PART.cluster, PART.topic_id, PART.topic, number)
        super().__init__(part, "t", Position(offset, 0, "t", "t"), Tally(), lambda standing: None, end)
        self.settled = self.frontier = offset

    @property
    def position(self) -> Position:
        return Position(self.settled, 0, "t", "t")


@dataclass
class Dealing:
    """Two partitions become three."""

    there: list[int] = field(default_factory=lambda: [0] * SOURCES)
    """Where the partitions of the source end."""
    logs: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in range(TARGETS)])
    """Source partition and offset of each record of the destination."""
    books: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A process begins, from the books."""
        book = read_book(self.books, "books")
        known = {part.partition: position.offset for part, position in book.positions.items()}
        self.parts = [Moving(number, known.get(number, 0), end) for number, end in enumerate(self.there)]
        self.carried = Tracks()
        ends = {Place("t", number): len(log) for number, log in enumerate(self.logs)}
        for part in self.parts:
            self.carried.begin(part, ROUTE, book, ends, fresh=not known)
        self.unanswered: list[tuple[int, int, int]] = []
        self.look()
        if not known:
            self.record()

    def send(self, source: int, targets: list[int]) -> None:
        """Some records, which are durable at once: those that are there, and more."""
        part = self.parts[source]
        for target in targets:
            self.logs[target].append((source, part.frontier or 0))
            self.unanswered.append((source, target, len(self.logs[target])))
            part.frontier = (part.frontier or 0) + 1
        self.there[source] = max(self.there[source], part.frontier or 0)

    def answer(self) -> None:
        """All answers come."""
        for source, target, end in self.unanswered:
            ends = self.parts[source].ends
            ends[target] = max(ends.get(target, 0), end)
        self.unanswered.clear()
        for part in self.parts:
            part.settled = part.frontier or 0

    def lose(self, source: int) -> None:
        """Who carries one partition dies, and another goes on with it."""
        part = self.parts[source]
        part.frontier = part.settled
        self.unanswered = [each for each in self.unanswered if each[0] != source]
        self.carried.comes_again(part, self.there[source])

    def remember(self) -> None:
        """A moment, whose ends were looked at some time before."""
        self.carried.remember(self.ends)

    def remember_now(self) -> None:
        self.look()
        self.remember()

    def look(self) -> None:
        """Where the destination ends."""
        self.ends = self.carried.ends_now()

    def record(self) -> None:
        """The books are written."""
        self.books += [position_record(part.part, part.position) for part in self.parts]
        for records in self.carried.take_news().records.values():
            self.books += records

    def place(self, *offsets: int) -> tuple[int, ...] | None:
        """Where a group is put."""
        barrier = self.carried.dealt["t"].barriers.passed(offsets)
        return None if barrier is None else barrier.destination

    def skipped(self, *offsets: int) -> set[tuple[int, int]]:
        """What a group has not read, is at the destination, and would not be read there."""
        place = self.place(*offsets)
        if place is None:
            return set()
        ahead = {record for log, end in zip(self.logs, place, strict=True) for record in log[end:]}
        return {each for log in self.logs for each in log if each[1] >= offsets[each[0]]} - ahead


HAPPENS: Any = st.one_of(
    st.tuples(st.just("send"), st.integers(0, SOURCES - 1), st.lists(st.integers(0, TARGETS - 1), max_size=5)),
    st.tuples(st.just("lose"), st.integers(0, SOURCES - 1), st.just([])),
    st.tuples(st.sampled_from(["answer", "look", "moment", "record", "kill"]), st.just(0), st.just([])),
)


@settings(deadline=None)
@given(st.lists(HAPPENS, min_size=5, max_size=60))
def test_no_unread_record_is_skipped_where_keys_choose(happens: list[tuple[str, int, list[int]]]) -> None:
    """With answers that are late, kills while they are, and sends between the looks at both ends. Also if the mirror
    never runs again."""
    dealing = Dealing()
    for what, source, targets in happens:
        match what:
            case "send":
                dealing.send(source, targets)
            case "answer":
                dealing.answer()
            case "look":
                dealing.look()
            case "moment":
                dealing.remember()
            case "lose":
                dealing.lose(source)
            case "record":
                dealing.record()
            case "kill":
                dealing.start()
        for first in range(dealing.there[0] + 1):
            for second in range(dealing.there[1] + 1):
                assert not dealing.skipped(first, second), (first, second)


def test_what_a_dead_worker_has_sent_holds_up_moments_until_it_has_come_again() -> None:
    """It lies before what others have sent since; if it never came again, a group behind it would not read it."""
    dealing = Dealing()
    dealing.send(0, [0])
    dealing.lose(0)
    dealing.send(1, [0])
    dealing.answer()
    dealing.remember_now()
    assert not dealing.skipped(0, 1)
    dealing.send(0, [0])
    dealing.answer()
    dealing.remember_now()
    assert dealing.place(1, 1) == (3, 0, 0)


def test_a_group_that_has_read_all_is_at_the_end() -> None:
    """Once the answers are there; until then it reads again what has none. After a restart too, as long as not all that
    was sent before has come again."""
    dealing = Dealing()
    dealing.send(0, [0, 1, 2, 0])
    dealing.remember_now()
    assert dealing.place(4, 0) == (0, 0, 0)
    dealing.answer()
    dealing.remember_now()
    assert dealing.place(4, 0) == (2, 1, 1)
    assert dealing.place(3, 0) is None
    dealing.record()
    dealing.send(0, [1, 1])
    dealing.start()
    dealing.send(0, [1])
    dealing.answer()
    dealing.remember_now()
    assert dealing.place(6, 0) == (2, 1, 1)
    dealing.send(0, [1])
    dealing.answer()
    dealing.remember_now()
    assert dealing.place(6, 0) == (2, 5, 1)
