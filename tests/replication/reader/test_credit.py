"""How far a reader may run ahead."""

from __future__ import annotations

import asyncio

from tests.support.waiting import in_time

from fairlead.replication.credit import CreditPool, CreditWindow


async def test_bytes_and_frames_are_bounded() -> None:
    """Whichever bound is met first; the answers make room."""
    credit = CreditWindow(CreditPool(1000, 100, 100, 3))
    await credit.take(60)
    waiting = asyncio.ensure_future(credit.take(60))
    await asyncio.sleep(0)
    assert not waiting.done()
    credit.answered(1, 60)
    async with in_time():
        await waiting
        await credit.take(1)
        await credit.take(1)
    waiting = asyncio.ensure_future(credit.take(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_one_frame_always_fits() -> None:
    """However large it is, and however small the share has become."""
    credit = CreditWindow(CreditPool(0, 0, 0, 0))
    async with in_time():
        await credit.take(1000)
    assert not credit.settled
    credit.answered(1, 1000)
    assert credit.settled


async def test_grants_of_a_worker_share_one_bound() -> None:
    """However many destinations are slow, together they hold no more than the bound, but for a frame of each."""
    pool = CreditPool(256, 64, 10_000, 1000)
    windows = [CreditWindow(pool) for _ in range(64)]
    for window in windows:
        while window.has_room(1):
            await window.take(1)
    assert pool.unanswered_bytes <= 256 + 64
    assert not any(window.has_room(1) for window in windows)
    for window in windows:
        window.close()
    assert pool.unanswered_bytes == 0


async def test_idle_grants_take_nothing_from_a_busy_one() -> None:
    """A link to far away needs the bytes of a whole round trip under way, also where 63 others have nothing to say."""
    pool = CreditPool(256, 64, 10_000, 1000)
    windows = [CreditWindow(pool) for _ in range(64)]
    await windows[0].take(1)
    assert windows[0].has_room(63)


async def test_a_frame_of_each_of_many_grants_fits_into_the_bound() -> None:
    """A slow destination holds the frame that is being sent in memory: with many of them frames are small."""
    pool = CreditPool(256_000_000, 64_000_000, 256, 32)
    windows = [CreditWindow(pool) for _ in range(128)]
    assert windows[0].frame_bytes_max == 2_000_000
    for window in windows[1:]:
        window.close()
    assert windows[0].frame_bytes_max == 256_000_000


async def test_busy_grants_have_fewer_frames_under_way_each() -> None:
    """Each frame costs a row of Spark, a message and a commit: many links gather more rows into each of theirs."""
    pool = CreditPool(10**9, 10**9, 256, 32)
    windows = [CreditWindow(pool) for _ in range(32)]
    handed = [0] * len(windows)
    for _ in range(100):
        for place, window in enumerate(windows):
            if window.has_room(1):
                await window.take(1)
                handed[place] += 1
    assert sum(handed) <= 256
    assert min(handed) >= 7
