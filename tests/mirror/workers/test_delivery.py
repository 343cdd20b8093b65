"""What the sink of a worker says of partitions whose positions it writes itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.mirror.fake import FakeCluster
from tests.support.waiting import in_time, until

from fairlead.mirror.books.book import Position, position_record
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.carrying.engine import Load
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.exactly.lane import Ground
from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.lanes import Part, lane_of
from fairlead.mirror.names import positions_topic
from fairlead.mirror.ports import Sender
from fairlead.mirror.report import Tally
from fairlead.mirror.workers.delivery import Delivery, Given
from fairlead.mirror.workers.messages import PartProgress, Worry
from fairlead.mirror.workers.rows import Ahead, Open
from fairlead.model.clock import SystemClock
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


class Rig:
    """A source with a topic of eight records, and what a sink says of its partition."""

    def __init__(self) -> None:
        self.source, self.b = FakeCluster("a"), FakeCluster("b")
        self.b.make(positions_topic("m"), 16)
        self.b.make("t")
        self.source.make("t")
        self.source.put("t", 0, [b"%d" % number for number in range(8)])
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
