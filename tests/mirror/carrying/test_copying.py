"""One partition on its way: what is sent when, what a refusal leaves, how much is under way."""

from __future__ import annotations

import asyncio

from tests.support.mirrored import batch_of, some

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.plain import outgoing_of
from fairlead.mirror.bytes.buffers import Buffers
from fairlead.mirror.bytes.committed import committed
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.carrying.copying import Copy, Made
from fairlead.mirror.carrying.making import Maker, Route
from fairlead.mirror.lanes import Part
from fairlead.mirror.report import Tally
from fairlead.model.errors import BadRequest, BatchTooLarge, NotTried

PART = Part("a", bytes(range(16)), "t", 0)


class Desk:
    """The producers of all origins, which answer when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Outgoing, asyncio.Future[int | None]]] = []
        self.tally = Tally()
        self.again = 0
        self.smaller: list[int] = []
        given = (PART, "t", Position(0, -1, "t", "t"), self.sender, self.tally)
        self.copy = Copy(*given, lambda copy: None, again=self._again, smaller=self._smaller)

    def _again(self, copy: Copy) -> None:
        self.again += 1

    def _smaller(self, copy: Copy, size_bytes: int) -> None:
        self.smaller.append(size_bytes)
        copy.prove()

    def sender(self, origin: str) -> Producer:
        return Producer(self, origin)

    def take(self, *origins: str) -> None:
        """A batch of one record of each of these origins."""
        first = self.copy.records_under_way
        sends = [(origin, 0, one(first + number)) for number, origin in enumerate(origins)]
        steps = [(1, first + number + 1, 0) for number in range(len(origins))]
        self.copy.take(Made(sends, steps))

    async def answer(self, number: int, error: Exception | None = None) -> None:
        future = self.sent[number][2]
        if error is None:
            future.set_result(0)
        else:
            future.set_exception(error)
        await asyncio.sleep(0)

    @property
    def origins(self) -> list[str]:
        return [origin for origin, _, _ in self.sent]


class Producer:
    """Of one origin."""

    def __init__(self, desk: Desk, origin: str) -> None:
        self._desk = desk
        self._origin = origin

    @property
    def down(self) -> str | None:
        return None

    def send(
        self, topic: str, partition: int, outgoing: Outgoing, *, in_order: bool = False
    ) -> asyncio.Future[int | None]:
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._desk.sent.append((self._origin, outgoing, future))
        return future

    async def close(self) -> None:
        pass


def one(offset: int) -> Outgoing:
    return outgoing_of([(b"k", b"v")], 0)._replace(first_offset=offset, last_offset=offset)


async def test_a_batch_of_another_origin_waits_for_all_before() -> None:
    """It goes through another producer, which keeps no order with the first."""
    desk = Desk()
    desk.take("a", "a", "c", "a")
    assert desk.origins == ["a", "a"]
    await desk.answer(0)
    assert desk.origins == ["a", "a"]
    await desk.answer(1)
    assert desk.origins == ["a", "a", "c"]
    await desk.answer(2)
    assert desk.origins == ["a", "a", "c", "a"]
    await desk.answer(3)
    assert desk.copy.position.offset == 4
    assert desk.copy.idle


async def test_a_position_has_the_epoch_of_the_record_before_it() -> None:
    """Not that of the last one of the answer: what a leader of that epoch has written, lies behind."""
    desk = Desk()
    batches = [batch_of(some(1), leader_epoch=4), batch_of(some(1, first=1), leader_epoch=7)]
    answer = committed(b"".join(batches), (), 0, "topic t, partition 0")
    maker = Maker(Route(0, 1, by_key=False, keep_order=False), Limits(small_bytes_max=0), Buffers(), PART)
    desk.copy.take(maker.make(answer, lambda producer_id: "a")[0])
    await desk.answer(0)
    assert (desk.copy.position.offset, desk.copy.position.epoch) == (1, 4)
    await desk.answer(1)
    assert (desk.copy.position.offset, desk.copy.position.epoch) == (2, 7)


async def test_nothing_is_sent_behind_a_refusal() -> None:
    """What was sent already may land; the position stays below what was refused, and nothing stays under way."""
    desk = Desk()
    desk.take("a", "a", "c")
    await desk.answer(1)
    await desk.answer(0, BadRequest("MESSAGE_TOO_LARGE"))
    assert desk.origins == ["a", "a"]
    assert desk.copy.position.offset == 0
    assert desk.copy.stopped is not None
    assert "offsets 0 to 0" in desk.copy.stopped
    assert "MESSAGE_TOO_LARGE" in desk.copy.stopped
    assert (desk.copy.records_under_way, desk.copy.bytes_under_way) == (0, 0)
    desk.take("a")
    assert desk.origins == ["a", "a"]


async def test_a_batch_that_has_become_too_large_is_fetched_again_once_all_is_answered() -> None:
    """Then what is not known to be small enough goes alone: nothing may land before what is refused."""
    desk = Desk()
    desk.take("a", "a")
    await desk.answer(0)
    large = one(2)._replace(records=2)
    desk.copy.take(Made([("a", 0, large), ("a", 0, one(4))], [(1, 4, 0), (1, 5, 0)]))
    await desk.answer(2, BatchTooLarge("MESSAGE_TOO_LARGE"))
    desk.take("a")
    await desk.answer(3)
    assert (desk.again, desk.smaller, len(desk.sent)) == (0, [large.size_bytes // 2], 4)
    await desk.answer(1)
    assert (desk.again, desk.copy.idle, desk.copy.stopped) == (1, True, None)
    assert (desk.copy.position.offset, desk.copy.bytes_under_way, desk.copy.went_back) == (2, 0, 1)
    larger = outgoing_of([(b"k", b"much more")], 0)._replace(first_offset=2, last_offset=2)
    desk.copy.take(Made([("a", 0, each) for each in (larger, larger, larger)], [(3, 5, 0)]))
    assert len(desk.sent) == 5
    await desk.answer(4)
    assert len(desk.sent) == 7


async def test_what_was_not_tried_behind_it_comes_again_with_it() -> None:
    """And nothing is sent between the refusal and the moment in which it is heard."""
    desk = Desk()
    large = one(0)._replace(records=2)
    desk.copy.take(Made([("a", 0, large), ("a", 0, one(2))], [(1, 2, 0), (1, 3, 0)]))
    futures = [future for _, _, future in desk.sent]
    futures[0].set_exception(BatchTooLarge("MESSAGE_TOO_LARGE"))
    futures[1].set_exception(NotTried("behind"))
    desk.copy.take(Made([("a", 0, one(3))], [(1, 4, 0)]))
    assert len(desk.sent) == 2
    await asyncio.sleep(0)
    assert (desk.again, desk.copy.stopped, desk.copy.position.offset) == (1, None, 0)
    desk.copy.take(Made([("a", 0, one(0)), ("a", 0, one(1))], [(1, 1, 0), (1, 2, 0)]))
    await desk.answer(2)
    await desk.answer(3)
    assert desk.copy.position.offset == 2


async def test_one_record_that_is_too_large_stops_its_partition() -> None:
    """It cannot be made smaller."""
    desk = Desk()
    desk.take("a")
    await desk.answer(0, BatchTooLarge("MESSAGE_TOO_LARGE"))
    assert (desk.again, desk.copy.refused) == (0, True)


async def test_a_partition_is_full_with_the_records_of_the_queue_size() -> None:
    """Until enough of them are acknowledged."""
    desk = Desk()
    desk.take("a", "a", "a")
    assert desk.copy.is_full(3)
    assert not desk.copy.is_full(4)
    await desk.answer(0)
    assert not desk.copy.is_full(3)
