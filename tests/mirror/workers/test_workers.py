"""Workers that die, that are strangers, and whose rounds turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.mirror.joined import Attempt
from tests.mirror.world import World
from tests.support.waiting import in_time, until
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from fairlead.mirror.running.mirror import Mirror
from fairlead.mirror.workers.coordinator import Coordinator
from fairlead.mirror.workers.messages import READER_PATH, SINK_PATH
from fairlead.mirror.workers.scout import TAIL_RECORDS_MAX
from fairlead.process.control_secret import HEADER

of_workers = pytest.mark.parametrize("world", ["workers"], indirect=True)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def has(world: World, end: int) -> bool:
    """Whether the last record of the topic is there."""
    return world.b.values("t")[-1:] == [b"%d" % (end - 1)]


def is_replaced(attempts: dict[int, Attempt], attempt: Attempt) -> bool:
    """Whether the worker has another attempt."""
    return attempts[0] is not attempt


@asynccontextmanager
async def running(world: World) -> AsyncIterator[tuple[Mirror, dict[int, Attempt]]]:
    """A mirror with one worker, which has mirrored something; its attempts."""
    world.a.make("t", 2)
    world.a.put("t", 0, numbers(0, 3))
    async with world.running() as mirror:
        await until(lambda: world.b.values("t") == numbers(0, 3))
        assert world.engine is not None
        yield mirror, world.engine.attempts


@of_workers
@pytest.mark.parametrize("side", ["reader", "sink"])
async def test_a_process_that_dies_is_replaced_and_nothing_is_lost(world: World, side: str) -> None:
    """What it had goes on at the position that was acknowledged."""
    async with running(world) as (mirror, attempts):
        for turn in range(3):
            attempt, end = attempts[0], 13 + 10 * turn
            attempt.kill(side)
            await until(partial(is_replaced, attempts, attempt))
            world.a.put("t", 0, numbers(end - 10, end))
            await until(partial(has, world, end))
        await until(lambda: mirror.left == 0)
    values = world.b.values("t")
    assert sorted(set(values), key=lambda value: int(value or b"")) == numbers(0, 33)
    assert mirror.tally.clean


@of_workers
async def test_a_round_that_turns_loses_and_doubles_nothing(world: World) -> None:
    """The reader ends in order, and what is under way is acknowledged before another begins."""
    async with running(world) as (_, attempts):
        for turn in range(3):
            attempt = attempts[0]
            world.a.put("t", 0, numbers(3 + 10 * turn, 13 + 10 * turn))
            attempt.reader.finish()
            await until(partial(is_replaced, attempts, attempt))
        await until(partial(has, world, 33))
    assert world.b.values("t") == numbers(0, 33)


@of_workers
async def test_a_backlog_goes_by_ranges_and_a_tail_is_carried(world: World) -> None:
    """Who is far behind is not fetched by the reader."""
    world.a.make("t")
    many = 2 * TAIL_RECORDS_MAX
    world.a.put("t", 0, numbers(0, many))
    async with world.running():
        await until(lambda: len(world.b.values("t")) == many)
        assert world.engine is not None
        kinds = world.engine.attempts[0].kinds
        assert kinds["Ahead"] >= 1
        assert kinds["Tail"] == 0
        end = many
        async with in_time():
            while not kinds["Tail"]:  # the first of them may still be looked at as a backlog
                world.a.put("t", 0, [b"%d" % end])
                end += 1
                await until(partial(has, world, end))
    assert world.b.values("t") == numbers(0, end)


@of_workers
async def test_partitions_go_to_workers_by_their_lanes(world: World) -> None:
    """Each to one, and all of them are used."""
    world.a.make("t", 16)
    for partition in range(16):
        world.a.put("t", partition, numbers(0, 3))
    async with world.running(streams=3):
        await until(lambda: all(world.b.values("t", partition) == numbers(0, 3) for partition in range(16)))
        assert world.engine is not None
        shares = [attempt.kinds["Open"] for attempt in world.engine.attempts.values()]
    assert sum(shares) == 16
    assert all(shares)


@pytest.mark.parametrize("path", [READER_PATH, SINK_PATH, "/other"])
async def test_a_stranger_is_not_heard(path: str) -> None:
    """Whoever connects must show the secret; passwords of clusters go over these connections."""
    coordinator = Coordinator(1, "5e" * 16)
    address = (await coordinator.open()).replace("http", "ws")
    try:
        for headers in ({}, {HEADER: "00" * 16}):
            with pytest.raises(InvalidStatus, match="403"):
                async with connect(address + path, additional_headers=headers):
                    await asyncio.sleep(0)
    finally:
        await coordinator.close()
