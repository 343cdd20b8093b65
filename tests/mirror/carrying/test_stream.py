"""What a stream has fetched and not handed on yet: it is for the partition that it was fetched for, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest
from tests.mirror.fake import FakeCluster, FakeFeed
from tests.support.waiting import in_time, until

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.origins import Origins
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.carrying.copying import Copy
from fairlead.mirror.carrying.making import Maker, Route
from fairlead.mirror.carrying.stream import Carried, Stream
from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Answer
from fairlead.mirror.report import Tally


class Desk:
    """The destination and the registry: all is acknowledged at once. `held` is where the stream waits, if it is to."""

    lanes: Lanes | None = None
    down: str | None = None

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        self.held: asyncio.Event | None = None

    async def learn(self, producer_ids: Iterable[int]) -> None:
        if self.held is not None:
            await self.held.wait()

    def of(self, producer_id: int) -> str:
        return "a"

    async def open_sender(self, origin: str) -> None:
        pass

    def sender(self, origin: str) -> Desk:
        return self

    async def enter(self, producer_id: int, origin: str) -> None:
        pass

    def send(
        self, topic: str, partition: int, outgoing: Outgoing, *, in_order: bool = False
    ) -> asyncio.Future[int | None]:
        self.sent.append((outgoing.first_offset, outgoing.last_offset))
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        future.set_result(0)
        return future

    async def close(self) -> None:
        pass


class Fetching(FakeFeed):
    """Tells whether anything was fetched."""

    came = False

    async def next(self) -> Sequence[Answer]:
        answers = await super().next()
        self.came = True
        return answers


class Rig:
    """A topic whose first 1000 records are gone, and a stream that carries it."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.source = FakeCluster("a")
        self.make(1000, 3)
        origins = cast(Origins, self.desk)
        self.feed = Fetching(self.source)
        self.stream = Stream(self.feed, origins, self.desk, Tally(), 1000, self.worry)

    async def worry(self, carried: Carried, answer: Answer) -> None:
        raise AssertionError(answer.trouble)

    def make(self, start: int, count: int) -> None:
        """The topic, anew."""
        self.source.made.pop("t", None)
        self.source.make("t")
        self.source.put("t", 0, [b"%d" % number for number in range(start + count)])
        self.source.made["t"].logs[0].expire(start)

    def carry(self, offset: int) -> Copy:
        part = Part("a", self.source.made["t"].topic_id, "t", 0)
        begin = Position(offset, -1, "t", "t")
        copy = Copy(part, "t", begin, lambda origin: self.desk, Tally(), lambda standing: self.stream.heard(copy))
        maker = Maker(Route(0, 1, by_key=False, keep_order=False), Limits(), self.stream.buffers, part)
        self.stream.add(Carried(copy, maker, part.topic_id, offset))
        return copy

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.stream.run())
        try:
            async with in_time():
                yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self.stream.close()


def hold_paused(rig: Rig) -> Callable[[], None]:
    rig.stream.pause(True)
    return lambda: rig.stream.pause(False)


def hold_asking(rig: Rig) -> Callable[[], None]:
    """While the registry does not answer."""
    rig.desk.held = asyncio.Event()
    return rig.desk.held.set


@pytest.mark.parametrize("hold", [hold_paused, hold_asking])
async def test_what_was_fetched_of_a_deleted_topic_is_not_the_new_ones(
    hold: Callable[[Rig], Callable[[], None]],
) -> None:
    """It has the same places, and began as often."""
    rig = Rig()
    go_on = hold(rig)
    old = rig.carry(1000)
    async with rig.running():
        await until(lambda: rig.feed.came)
        rig.stream.remove(old)
        rig.make(0, 5)
        new = rig.carry(0)
        go_on()
        await until(lambda: new.position.offset >= 5)
    assert (old.position.offset, new.position.offset) == (1000, 5)
    assert (rig.desk.sent[0][0], rig.desk.sent[-1][1]) == (0, 4)


async def test_a_partition_that_was_removed_is_given_nothing_more() -> None:
    """Whoever left it counts on what it has sent."""
    rig = Rig()
    go_on = hold_asking(rig)
    old = rig.carry(1000)
    async with rig.running():
        await until(lambda: rig.feed.came)
        rig.stream.remove(old)
        go_on()
        for _ in range(20):
            await asyncio.sleep(0)
    assert rig.desk.sent == []
