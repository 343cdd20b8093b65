"""One partition on its way in transactions: what counts when, and what is forgotten when one fails."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.plain import outgoing_of
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.carrying.copying import Copy, Made
from fairlead.mirror.carrying.exact_copy import ExactCopy
from fairlead.mirror.exactly.lane import Carried, Lane
from fairlead.mirror.exactly.portions import Portion, Send
from fairlead.mirror.lanes import Part
from fairlead.mirror.report import Tally
from fairlead.model.errors import BadRequest

PART = Part("a", bytes(range(16)), "t", 0)
BEGIN = Position(0, -1, "t", "t")


def one(offset: int) -> Outgoing:
    """A batch of one record."""
    return outgoing_of([(b"k", b"v")], 1)._replace(first_offset=offset, last_offset=offset)


class FakeLane:
    """Keeps what its strands are given."""

    def __init__(self) -> None:
        self.portions: list[tuple[str, Portion]] = []
        self.barriers: dict[Part, tuple[int, str]] = {}
        self.again = 0
        self.tally = Tally()
        self.copy = ExactCopy(PART, "t", BEGIN, cast(Lane, self), self.tally, lambda copy: None, -1, self._again)

    def add(self, carried: Carried) -> None:
        """It needs none of it."""

    def strand(self, origin: str) -> FakeStrand:
        return FakeStrand(self, origin)

    def _again(self, copy: Copy) -> None:
        self.again += 1

    def take(self, *origins: str) -> None:
        first = int(self.copy.records_under_way)
        sends = [(origin, 0, one(first + number)) for number, origin in enumerate(origins)]
        self.copy.take(Made(sends, [(1, first + number + 1, 0) for number in range(len(origins))]))

    @property
    def origins(self) -> list[str]:
        return [origin for origin, _ in self.portions]


class FakeStrand:
    def __init__(self, lane: FakeLane, origin: str) -> None:
        self._lane = lane
        self._origin = origin

    def put(self, portion: Portion) -> None:
        self._lane.portions.append((self._origin, portion))


def answer(portion: Portion, error: BadRequest | None = None) -> list[Send]:
    """The destination has the batches of a portion, or refuses them."""
    sends = list(portion.depart())
    for send in sends:
        done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        if error is None:
            done.set_result(7)
        else:
            done.set_exception(error)
        portion.answered(send, done)
    return sends


async def test_memory_counts_until_a_batch_is_acknowledged_the_position_until_it_is_committed() -> None:
    lane = FakeLane()
    lane.take("a")
    portion = lane.portions[0][1]
    assert lane.copy.records_under_way == 1
    answer(portion)
    assert (lane.copy.records_under_way, lane.copy.bytes_under_way) == (0, 0)
    assert (lane.copy.position.offset, lane.tally.records, lane.copy.idle) == (0, 0, False)
    assert portion.position().offset == 1
    portion.committed()
    assert (lane.copy.position.offset, lane.tally.records, lane.copy.idle) == (1, 1, True)
    assert lane.copy.recorded == lane.copy.position


async def test_a_position_counts_what_was_left_out_before_it() -> None:
    """By portions of the same transaction too."""
    lane = FakeLane()
    for number in range(2):
        lane.copy.take(Made([("a", 0, one(number))], [(1, number + 1, 0)], looped=5))
    assert [portion.position().looped for _, portion in lane.portions] == [5, 10]
    for _, portion in lane.portions:
        answer(portion)
        portion.committed()
    assert lane.copy.position.looped == 10
    lane.copy.go_back(BEGIN)
    assert lane.copy.position.looped == 0


async def test_another_origin_waits_for_the_commit() -> None:
    lane = FakeLane()
    lane.take("a", "b", "b")
    assert lane.origins == ["a"]
    answer(lane.portions[0][1])
    assert lane.origins == ["a"]
    lane.portions[0][1].committed()
    assert lane.origins == ["a", "b", "b"]


async def test_what_is_answered_after_a_failure_is_nobodys() -> None:
    """Its memory was given back already, and its refusal is of a batch that is sent again."""
    lane = FakeLane()
    lane.take("a", "a", "b")
    first, second = (portion for _, portion in lane.portions)
    for portion in (first, second):
        portion.dropped()
    lane.copy.go_back(BEGIN)
    assert (lane.copy.bytes_under_way, lane.again, lane.copy.idle) == (0, 1, True)
    answer(first)
    answer(second, BadRequest("no"))
    assert lane.copy.bytes_under_way == 0
    lane.take("a", "a")
    assert lane.copy.stopped is None
    assert lane.origins == ["a", "a", "a", "a"]


async def test_where_it_begins_is_not_forgotten_with_its_first_transaction() -> None:
    """The books hold a position that does not count any more: that of a topic which was there before."""
    lane, old = FakeLane(), Position(100, 3, "t", "old")
    lane.copy.begin()
    for turn in range(2):
        lane.take("a")
        lane.portions.clear()
        lane.copy.go_back(old)
        assert (lane.copy.position.offset, lane.again) == (0, turn + 1)
        assert [portion.position() for _, portion in lane.portions] == [BEGIN]
    lane.portions[0][1].committed()
    lane.copy.go_back(Position(7, 0, "t", "t"))
    assert lane.copy.position.offset == 7


async def test_who_has_committed_something_never_begins_anew() -> None:
    """Where the books say nothing of it, all that was mirrored would come twice."""
    lane = FakeLane()
    lane.take("a")
    with pytest.raises(BadRequest, match="position is gone"):
        lane.copy.go_back(None)
    assert lane.again == 0


async def test_a_refusal_stops_the_partition_before_it_once_the_rest_is_sent_again() -> None:
    lane = FakeLane()
    lane.take("a", "a", "a")
    answer(lane.portions[0][1])
    answer(lane.portions[1][1], BadRequest("no"))
    for _, portion in lane.portions:
        portion.dropped()
    lane.copy.go_back(BEGIN)
    lane.portions.clear()
    lane.take("a", "a", "a")
    assert len(lane.portions) == 1
    assert lane.copy.stopped is not None
    assert "offsets 1 to 1: no" in lane.copy.stopped
    assert lane.copy.refused
    assert not lane.copy.at_rest
    answer(lane.portions[0][1])
    lane.portions[0][1].committed()
    assert (lane.copy.position.offset, lane.copy.at_rest) == (1, True)
