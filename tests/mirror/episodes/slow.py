"""A cluster in memory whose answers take a while, or are lost on their way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.mirror.fake import FakeCluster

from fairlead.model.errors import Unreachable

ASKED = (
    *("topics", "offsets", "configs", "alter_configs", "groups", "commits_of", "create", "grow"),
    *("committed", "commit", "opened", "has_transactions"),
)
"""What has an answer that may be lost."""
LONGEST_SECONDS = 0.03


class SlowCluster(FakeCluster):
    """How slow each answer is depends on the seed alone."""

    def __init__(self, name: str, random: Random) -> None:
        super().__init__(name)
        self._random = random
        self.new_id = lambda: random.randbytes(16)

    async def latency(self) -> None:
        if self._random.random() < 0.3:
            await asyncio.sleep(self._random.uniform(0, LONGEST_SECONDS))
            return
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)


def _slow(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    at_once = getattr(FakeCluster, name)

    async def call(self: SlowCluster, *args: Any, **given: Any) -> Any:
        await self.latency()
        answer = await at_once(self, *args, **given)
        await self.latency()
        if self.away:
            raise Unreachable(f"cluster {self.id} has not answered")
        return answer

    return call


for _name in ASKED:
    setattr(SlowCluster, _name, _slow(_name))
