"""What a shard does beside its requests: what stops it, and what is only shown."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.waiting import until

from fairlead.model.errors import Damaged, FairleadError, Fenced, TryAgain
from fairlead.streamlog.reading.health import Health
from fairlead.streamlog.writing.chores import Chore


async def test_a_failure_is_shown_until_all_goes_well_again() -> None:
    """And counted. The shard goes on."""
    health = Health("x", lambda _: True)
    goes_well = asyncio.Event()

    async def work() -> None:
        if not goes_well.is_set():
            raise TryAgain("no room")

    chore = Chore("merging", work, 0.001, health, health.stop)
    chore.begin()
    await until(lambda: chore.failures > 1)
    assert str(chore.error) == "no room"
    goes_well.set()
    await until(lambda: chore.error is None)
    assert health.stopped is None
    await chore.close()


@pytest.mark.parametrize("error", [Damaged("commit/1", "it is broken"), Fenced("x")])
async def test_damage_and_a_newer_writer_stop_the_shard(error: FairleadError) -> None:
    """Then nothing is tried again."""
    health = Health("x", lambda _: True)
    tried: list[int] = []

    async def work() -> None:
        tried.append(1)
        raise error

    chore = Chore("merging", work, 0.001, health, health.stop)
    chore.begin()
    await until(lambda: health.stopped is not None)
    assert type(health.stopped) is type(error)
    await chore.close()
    assert (tried, chore.failures) == ([1], 0)
