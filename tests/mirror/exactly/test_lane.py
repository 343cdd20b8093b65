"""A lane is one process's, with all of its origins, before anything of it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.mirror.fake import FakeCluster, FakeTransactional
from tests.support.waiting import a_quiet_while, in_time, until

from fairlead.mirror.books.book import Position, origins_record
from fairlead.mirror.exactly.lane import Ground, Lane
from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.exactly.portions import Beginning
from fairlead.mirror.lanes import Part, lane_of
from fairlead.mirror.names import positions_topic
from fairlead.model.clock import SystemClock
from fairlead.model.errors import Aborted, Fenced, Unreachable
from fairlead.protocol.batch import build_batch

POSITIONS = positions_topic("m")
PART = Part("a", bytes(15) + b"\1", "t", 0)
LANE = lane_of(PART)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster("b")
    cluster.make(POSITIONS, 16)
    return cluster


class Zombies:
    """Whether the process that asks still runs the mirror."""

    def __init__(self) -> None:
        self.fenced = False

    async def permit(self) -> None:
        if self.fenced:
            raise Fenced("another process runs the mirror")


async def _enter(producer_id: int, origin: str) -> None:
    """The registry is not looked at here."""


@asynccontextmanager
async def lane(cluster: FakeCluster, zombies: Zombies | None = None) -> AsyncIterator[tuple[Lane, asyncio.Task[None]]]:
    """One that is open and runs."""
    permit = (zombies or Zombies()).permit
    found = Lane(Ground(cluster, "m", SystemClock(), _enter, permit, lambda line, count: None), LANE)
    await found.open()
    task = asyncio.create_task(found.run())
    try:
        yield found, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await found.close()


def beginning(offset: int = 5) -> Beginning:
    return Beginning(PART, Position(offset, -1, "t", "t"))


async def test_what_is_committed_is_what_the_next_one_reads(cluster: FakeCluster) -> None:
    async with lane(cluster) as (one, _):
        portion = beginning()
        one.strand("a").put(portion)
        await portion.done
    async with lane(cluster) as (other, _):
        assert await other.open() == {PART: Position(5, -1, "t", "t")}


async def test_who_was_taken_over_can_add_no_origin(cluster: FakeCluster) -> None:
    """It may have been paused just before it opened a strand: the guard keeps it from saying so, and without that
    nothing is opened."""
    zombies = Zombies()
    async with lane(cluster, zombies) as (zombie, task), lane(cluster):
        zombies.fenced = True
        portion = beginning()
        zombie.strand("new").put(portion)
        with pytest.raises(Fenced):
            async with in_time():
                await asyncio.shield(task)
        assert isinstance(portion.done.exception(), Aborted)
    assert not any(name.endswith(".new") for name in cluster.owners)


def paused(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Who opens the strand of `a` next stops just before that: it is there; it may go on."""
    there, go_on = asyncio.Event(), asyncio.Event()
    opens = FakeTransactional.open

    async def stops(self: FakeTransactional) -> None:
        if self.id.endswith(".a") and not there.is_set():
            there.set()
            await go_on.wait()
        await opens(self)

    monkeypatch.setattr(FakeTransactional, "open", stops)
    return there, go_on


async def test_who_was_taken_over_before_it_opened_a_strand_sends_nothing_through_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guard had written the origin already; then the other one opened the strand, and it opens it again."""
    zombies = Zombies()
    async with lane(cluster, zombies) as (zombie, task):
        there, go_on = paused(monkeypatch)
        late = beginning(5)
        zombie.strand("a").put(late)
        await there.wait()
        zombies.fenced = True
        async with lane(cluster) as (other, _):
            first, second = beginning(50), beginning(60)
            other.strand("a").put(first)
            await first.done
            go_on.set()
            async with in_time():
                with pytest.raises(Aborted):
                    await late.done
                with pytest.raises(Fenced):
                    await asyncio.shield(task)
            other.strand("a").put(second)  # its strand was fenced, which it finds out now
            with pytest.raises(Aborted):
                await second.done
    async with lane(cluster) as (last, _):
        assert await last.open() == {PART: Position(50, -1, "t", "t")}


async def test_who_was_taken_over_while_it_opened_a_lane_does_not_carry_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lane(cluster) as (one, _):
        portion = beginning(5)
        one.strand("a").put(portion)
        await portion.done
    zombies = Zombies()
    zombie = Lane(Ground(cluster, "m", SystemClock(), _enter, zombies.permit, lambda line, count: None), LANE)
    there, go_on = paused(monkeypatch)
    opening = asyncio.create_task(zombie.open())
    await there.wait()
    zombies.fenced = True
    async with lane(cluster):
        go_on.set()
        with pytest.raises(Fenced):
            async with in_time():
                await opening
    await zombie.close()


async def test_an_origin_that_an_open_transaction_hides_is_found_and_fenced_too(cluster: FakeCluster) -> None:
    """The strand of `a` has left a transaction open; behind it stands that there is one of `b`."""
    log = cluster.made[POSITIONS].logs[LANE]
    log.append(build_batch([origins_record({"a"})], timestamp_ms=1))
    log.held_at = log.end
    log.append(build_batch([origins_record({"a", "b"})], timestamp_ms=1))

    def opened(transactional_id: str) -> None:
        if transactional_id.endswith(".a"):
            log.held_at = None

    cluster.opened_id = opened
    async with lane(cluster):
        pass
    assert {f"fairlead-mirror.m.{LANE}{end}" for end in ("", ".a", ".b")} == cluster.owners.keys()


async def test_the_guard_comes_first(cluster: FakeCluster) -> None:
    """Else a strand could be added after its list was read."""
    opened: list[str] = []
    cluster.opened_id = opened.append
    async with lane(cluster) as (one, _):
        one.strand("a").put(beginning())
        await until(lambda: len(opened) == 2)
    opened.clear()
    async with lane(cluster):
        pass
    assert opened == [f"fairlead-mirror.m.{LANE}", f"fairlead-mirror.m.{LANE}.a"]


async def test_where_one_lane_cannot_be_opened_the_others_open_nothing_behind_that(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would fence whoever opens them anew."""
    opens, go_on = FakeTransactional.open, asyncio.Event()

    async def opened(transactional: FakeTransactional) -> None:
        if transactional.id.endswith(".7"):
            raise Unreachable("as the test wants")
        await go_on.wait()
        await opens(transactional)

    monkeypatch.setattr(FakeTransactional, "open", opened)
    lanes = Lanes(Ground(cluster, "m", SystemClock(), _enter, Zombies().permit, lambda line, count: None))
    with pytest.raises(Unreachable):
        await lanes.open()
    await lanes.close()
    go_on.set()
    await a_quiet_while()
    assert (cluster.owners, cluster.open) == ({}, 0)


async def test_positions_of_one_transaction_are_in_batches_that_the_topic_takes(cluster: FakeCluster) -> None:
    """However many partitions have moved; all of them or none count."""
    cluster.refuses = lambda topic, partition, outgoing: "too large" if outgoing.size_bytes > 1_048_588 else None
    position = Position(5, -1, 120 * "t", 120 * "t")
    portions = [Beginning(PART._replace(partition=number), position) for number in range(4_000)]
    async with lane(cluster) as (one, _):
        for portion in portions:
            one.strand("a").put(portion)
        async with in_time():
            await asyncio.gather(*(portion.done for portion in portions))
        assert cluster.commits.count(f"fairlead-mirror.m.{LANE}.a") == 1
    async with lane(cluster) as (other, _):
        assert len(await other.open()) == 4_000
