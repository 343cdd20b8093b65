"""What the sink of a worker says of partitions whose positions it writes itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.mirror.fake import FakeCluster, FakeFeed, FakeTransactional
from tests.support.waiting import a_quiet_while, in_time, until

from fairlead.mirror.books.book import Position, position_record
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.carrying.engine import Load
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.exactly.lane import Ground
from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.lanes import Part, lane_of
from fairlead.mirror.names import positions_topic
from fairlead.mirror.ports import Answer, Place, Sender, Trouble
from fairlead.mirror.report import Tally
from fairlead.mirror.workers.delivery import Delivery, Given
from fairlead.mirror.workers.messages import PartProgress, Worry
from fairlead.mirror.workers.rows import Ahead, Open
from fairlead.model.clock import SystemClock
from fairlead.model.errors import Aborted, FairleadError
from fairlead.protocol.batch import build_batch

NUMBER = 1


async def _enter(producer_id: int, origin: str) -> None:
    """The registry is not looked at here."""


async def _permit() -> None:
    """Nobody else runs the mirror."""


class Desk:
    """The destination, with its lanes."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.lanes: Lanes | None = Lanes(
            Ground(cluster, "m", SystemClock(), _enter, _permit, lambda why, transactions: None)
        )

    async def open_sender(self, origin: str) -> None:
        """Lanes have their own."""

    def sender(self, origin: str) -> Sender:
        raise AssertionError(f"a batch of {origin} goes through a transaction")

    async def enter(self, producer_id: int, origin: str) -> None:
        """The same."""


class Losing(FakeFeed):
    """It does not find what begins at `at`."""

    at = -1
    asked = False

    def _answer(self, place: Place) -> Answer | None:
        if place in self._at and self._at[place][1] == self.at:
            self.asked = True
            return Answer(place, memoryview(b""), (), -1, Trouble.OUT_OF_RANGE)
        return super()._answer(place)


class Rig:
    """A source with a topic of eight records, and what a sink says of its partition."""

    def __init__(self) -> None:
        self.source, self.b = FakeCluster("a"), FakeCluster("b")
        self.b.make(positions_topic("m"), 16)
        self.b.make("t")
        self.source.make("t")
        self.source.put("t", 0, [b"%d" % number for number in range(8)])
        self.feed = Losing(self.source)
        self.source.feed = lambda *, committed=True: self.feed  # type: ignore[method-assign]
        self.part = Part("a", self.source.made["t"].topic_id, "t", 0)
        self.worries: list[Worry] = []
        self.told: list[PartProgress] = []
        self.desk = Desk(self.b)
        given = Given(self.desk, "b", Tally(), 1000, None, self._moved, self._worry)
        self.delivery = Delivery("a", self.source.opened, given)

    def _moved(self) -> None:
        self.told += self.delivery.progress()

    async def _worry(self, worry: Worry) -> None:
        self.worries.append(worry)

    def open(self, recorded: int = -1) -> None:
        begin = Position(0, -1, "t", "t")
        route = Route(0, 1, by_key=False, keep_order=False)
        self.delivery.take(Open(NUMBER, 0, Load(self.part, "t", route, Limits(), begin, 8, recorded)))
        self.delivery.take(Ahead(NUMBER, 100))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.delivery.run())
        try:
            async with in_time():
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.delivery.close()
            assert self.desk.lanes is not None
            await self.desk.lanes.close()


@pytest.mark.parametrize(("to", "begins"), [("t", 6), ("old", 0)])
async def test_a_position_that_nobody_had_told_counts_if_it_is_of_the_same_topic(to: str, begins: int) -> None:
    """The coordinator had read 5; another sink has committed 6 since, of the topic of now or of the one before."""
    rig = Rig()
    record = position_record(rig.part, Position(6, -1, "t", to))
    rig.b.made[positions_topic("m")].logs[lane_of(rig.part)].append(build_batch([record], timestamp_ms=1))
    async with rig.running():
        rig.open(recorded=5)
        await until(lambda: rig.told)
    assert [(each.position.offset, each.position.to, each.recorded, each.back) for each in rig.told] == [
        (begins, "t", 6, True)
    ]


async def test_a_worry_of_what_was_fetched_before_a_failure_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is fetched again, from the last position that was committed. The reader may be gone, so that nobody
    has given the partition anew: what is decided of the worry would be taken for its own."""
    rig = Rig()
    rig.feed.at = 8
    failed: list[str] = []
    commit = FakeTransactional.commit

    async def commit_once_asked(self: FakeTransactional) -> None:
        if self.id.endswith(".a"):
            await until(lambda: rig.feed.asked)
        await commit(self)

    def fails(transactional_id: str) -> FairleadError | None:
        if transactional_id.endswith(".a") and not failed:
            failed.append(transactional_id)
            return Aborted("as the test wants")
        return None

    rig.b.fails = fails
    monkeypatch.setattr(FakeTransactional, "commit", commit_once_asked)
    async with rig.running():
        rig.open()
        await until(lambda: any(each.back for each in rig.told))
        await a_quiet_while()
    assert failed
    assert [(each.position.offset, each.back) for each in rig.told if each.back] == [(0, True)]
    assert rig.worries == []
