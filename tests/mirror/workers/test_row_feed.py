"""A feed whose answers come by rows: ranges are fetched, tails are taken in their place, nothing is stepped over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from tests.mirror.fake import FakeCluster
from tests.support.waiting import a_quiet_while, in_time

from fairlead.kafka.fetching.positions import reach_of
from fairlead.mirror.bytes.committed import committed
from fairlead.mirror.ports import Answer, Place, Trouble
from fairlead.mirror.workers.row_feed import JOINED_BYTES_MAX, RowFeed, up_to
from fairlead.mirror.workers.rows import Ahead, Tail
from fairlead.model.errors import Closed
from fairlead.protocol.batch import build_batch, records_of

PLACE = Place("t", 0)


def batch(offset: int, count: int = 1) -> bytes:
    """A batch whose values are its offsets."""
    return build_batch([(b"k", b"%d" % (offset + number)) for number in range(count)], base_offset=offset)


def tail(start: int, until: int) -> Tail:
    """A tail that was fetched."""
    return Tail(1, start, until, until, [], memoryview(b"".join(batch(offset) for offset in range(start, until))))


class Rig:
    """A source with ten records, and a feed of its one partition."""

    def __init__(self) -> None:
        self.source = FakeCluster("a")
        self.source.make("t")
        self.source.put("t", 0, [b"%d" % offset for offset in range(10)])
        self.feed = RowFeed(self.source.feed())

    def assign(self, offset: int) -> None:
        self.feed.assign(PLACE, self.source.made["t"].topic_id, offset, -1)

    async def values(self, count: int) -> list[int]:
        """The next so many."""
        found: list[int] = []
        async with in_time():
            while len(found) < count:
                found += _values(await self.feed.next())
        return found


def _values(answers: Sequence[Answer]) -> list[int]:
    batches = [batch for answer in answers for batch in committed(answer.records, (), 0, "t").batches]
    return [int(record.value or b"") for batch in batches for record in records_of(batch.data, batch.header)]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Closed at the end."""
    rig = Rig()
    yield rig
    await rig.feed.close()
    assert rig.source.open == 0


async def test_nothing_is_fetched_without_a_range(rig: Rig) -> None:
    """And up to its end alone, however much there is."""
    rig.assign(2)
    rig.feed.offer(PLACE, Ahead(1, 5))
    assert await rig.values(3) == [2, 3, 4]
    rig.feed.offer(PLACE, Ahead(1, 6))
    rig.feed.offer(PLACE, Ahead(1, 8))
    assert await rig.values(3) == [5, 6, 7]


async def test_a_tail_waits_for_the_range_before_it(rig: Rig) -> None:
    """Rows are taken in their order; what a tail brings again is left out of it by whoever takes it."""
    rig.assign(0)
    rig.feed.offer(PLACE, Ahead(1, 9))
    rig.feed.offer(PLACE, tail(9, 12))
    rig.feed.offer(PLACE, tail(12, 13))
    assert await rig.values(13) == list(range(13))


async def test_a_tail_that_brings_nothing_new_is_passed_over(rig: Rig) -> None:
    """Behind a hole a range may end beyond its end."""
    rig.assign(0)
    rig.feed.offer(PLACE, tail(0, 3))
    rig.feed.offer(PLACE, tail(1, 3))
    rig.feed.offer(PLACE, tail(3, 4))
    assert await rig.values(4) == [0, 1, 2, 3]


async def test_tails_that_have_gathered_are_handed_out_together(rig: Rig) -> None:
    """What an answer had of a batch that was cut is left out, and a transaction that two of them name is named once."""
    rig.assign(0)
    first, second = tail(0, 2), tail(2, 3)
    cut = memoryview(bytes(first.records) + batch(2)[:-1])
    rig.feed.offer(PLACE, replace(first, records=cut, aborted=[(7, 0)]))
    rig.feed.offer(PLACE, replace(second, end=9, aborted=[(7, 0), (8, 2)]))
    rig.feed.offer(PLACE, Ahead(1, 4))
    rig.feed.offer(PLACE, tail(4, 5))
    (answer,) = await rig.feed.next()
    assert (_values([answer]), answer.aborted, answer.end) == ([0, 1, 2], [(7, 0), (8, 2)], 9)
    assert await rig.values(2) == [3, 4]


async def test_no_more_are_handed_out_together_than_make_a_batch(rig: Rig) -> None:
    """Else a sink that is far behind would need memory for all that waits."""
    rig.assign(0)
    large = JOINED_BYTES_MAX // 2
    for offset in range(4):
        records = memoryview(build_batch([(None, b"%d" % offset + bytes(large))], base_offset=offset))
        rig.feed.offer(PLACE, Tail(1, offset, offset + 1, 4, [], records))
    for offset in range(4):
        (answer,) = await rig.feed.next()
        assert reach_of(answer.records, offset).next_offset == offset + 1


async def test_a_tail_that_begins_before_its_place_is_handed_out_by_itself(rig: Rig) -> None:
    """Batches in one answer do not overlap."""
    rig.assign(0)
    rig.feed.offer(PLACE, tail(0, 2))
    rig.feed.offer(PLACE, replace(tail(1, 3), start=2))
    assert _values(await rig.feed.next()) == [0, 1]
    assert _values(await rig.feed.next()) == [1, 2]


async def test_a_row_that_does_not_follow_the_one_before_is_an_error(rig: Rig) -> None:
    """Else the records between would be lost."""
    rig.assign(0)
    rig.feed.offer(PLACE, tail(1, 3))
    with pytest.raises(Closed, match="begins at 1, and the one before ended at 0"):
        await rig.feed.next()


async def test_a_partition_that_is_paused_holds_its_rows(rig: Rig) -> None:
    """Of either kind."""
    rig.assign(0)
    rig.feed.pause(PLACE)
    rig.feed.offer(PLACE, tail(0, 2))
    rig.feed.offer(PLACE, Ahead(1, 4))
    rig.feed.resume(PLACE)
    assert await rig.values(4) == [0, 1, 2, 3]


async def test_trouble_is_told_once_and_then_it_is_quiet(rig: Rig) -> None:
    """Whatever the reader still says of it, until it is assigned again."""
    rig.source.made["t"].logs[0].expire(4)
    rig.assign(0)
    rig.feed.offer(PLACE, Ahead(1, 10))
    (answer,) = await rig.feed.next()
    assert answer.trouble is Trouble.OUT_OF_RANGE
    rig.feed.offer(PLACE, Ahead(1, 20))
    await a_quiet_while()
    rig.assign(4)
    rig.feed.offer(PLACE, Ahead(2, 6))
    assert await rig.values(2) == [4, 5]


def test_a_hole_at_the_end_of_a_range_is_passed() -> None:
    """By the batch behind it; else the range would never end."""
    records = memoryview(batch(0, 2) + batch(7, 2) + batch(9))
    assert bytes(up_to(records, 2)) == batch(0, 2)
    assert bytes(up_to(records, 5)) == batch(0, 2) + batch(7, 2)
    assert bytes(up_to(records, 50)) == bytes(records)
    assert bytes(up_to(records[:70], 5)) == bytes(records[:70])


async def test_what_was_fetched_of_a_deleted_topic_is_not_the_new_ones(rig: Rig) -> None:
    """It was fetched and not taken yet when its topic was made again, with the same place."""
    other = Place("u", 0)
    rig.assign(7)
    rig.feed.offer(PLACE, Ahead(1, 10))
    rig.source.make("u")
    rig.feed.assign(other, rig.source.made["u"].topic_id, 0, -1)
    rig.feed.offer(other, tail(0, 1))
    assert await rig.values(1) == [0]
    waiting = asyncio.create_task(rig.feed.next())
    await asyncio.sleep(0)
    waiting.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    rig.feed.remove(PLACE)
    del rig.source.made["t"]
    rig.source.make("t")
    rig.source.put("t", 0, [b"%d" % offset for offset in range(5)])
    rig.assign(0)
    rig.feed.offer(PLACE, Ahead(2, 5))
    assert await rig.values(5) == [0, 1, 2, 3, 4]
