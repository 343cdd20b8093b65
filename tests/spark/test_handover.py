"""The queue between an asyncio program and Spark's thread."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.spark.handover import Handover
from tests.support.waiting import in_time


async def test_items_come_out_in_order() -> None:
    """What is put is taken, first in first out."""
    handover: Handover[int] = Handover(100)
    for number in range(3):
        await handover.put(number, 10)
    assert [(handover.take_some(0, 0), handover.waiting) for _ in range(3)] == [([0], True), ([1], True), ([2], False)]
    assert handover.take_some(0, 0) == []


async def test_what_waits_is_taken_together_within_a_bound() -> None:
    """The first item in any case, those behind it as long as they fit, in their order."""
    handover: Handover[int] = Handover(1000)
    for size_bytes in (50, 5, 5, 1, 100):
        await handover.put(size_bytes, size_bytes)
    assert [handover.take_some(0, 10) for _ in range(4)] == [[50], [5, 5], [1], [100]]
    assert handover.take_some(0, 10) == []


async def test_putting_waits_for_room() -> None:
    """Beyond the bound `put` waits until something is taken; one item always fits."""
    handover: Handover[int] = Handover(10)
    await handover.put(1, 50)
    putting = asyncio.ensure_future(handover.put(2, 5))
    await asyncio.sleep(0)
    assert not putting.done()
    assert await asyncio.to_thread(handover.take_some, 1, 0) == [1]
    async with in_time():
        await putting


async def test_closing_wakes_both_sides() -> None:
    """A closed handover drops what is put, and ends when it is drained."""
    handover: Handover[int] = Handover(10)
    await handover.put(1, 10)
    putting = asyncio.ensure_future(handover.put(2, 10))
    await asyncio.sleep(0)
    handover.close()
    async with in_time():
        await putting
    assert not handover.ended
    assert handover.take_some(1, 0) == [1]
    assert handover.take_some(1, 0) == []
    assert handover.ended


@pytest.mark.parametrize("seconds", [0, 0.05])
async def test_taking_waits_no_longer_than_asked(seconds: float) -> None:
    """An empty handover answers with nothing in time."""
    handover: Handover[int] = Handover(10)
    async with in_time():
        assert await asyncio.to_thread(handover.take_some, seconds, 0) == []
