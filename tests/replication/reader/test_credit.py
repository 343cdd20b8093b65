"""How far a reader may run ahead."""

from __future__ import annotations

import asyncio

from tests.support.waiting import in_time

from fairlead.replication.reader.credit import CreditWindow


async def test_bytes_and_frames_are_bounded() -> None:
    """Whichever bound is met first; the answers make room."""
    credit = CreditWindow(lambda: 100, 3)
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
    credit = CreditWindow(lambda: 0, 3)
    async with in_time():
        await credit.take(1000)
    assert not credit.settled
    credit.answered(1, 1000)
    assert credit.settled
