"""Looks at a Kafka cluster, by their numbers: who wants to know what it has now waits for one that begins later."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum, auto

from fairlead.kafka.errors import PASSING
from fairlead.kafka.opening import open_by_file
from fairlead.model.errors import FairleadError


class Heard(Enum):
    """What a cluster has answered to one who asked it once more."""

    ALL = auto()
    SOME = auto()
    """It answers, but has not told all that it was asked in time."""
    NOTHING = auto()
    """No broker answers: it is taken for lost."""


class Looks:
    """One after the other."""

    def __init__(self) -> None:
        self._begun = 0
        self._whole = 0
        """The last one that told all."""
        self._news = asyncio.Event()

    def begin(self) -> None:
        """One begins."""
        self._begun += 1

    def was_whole(self) -> None:
        """That one has told all."""
        self._whole = self._begun
        self._news.set()

    @property
    def coming(self) -> int:
        """The number of the next one that begins."""
        return self._begun + 1

    async def told_all(self, wanted: int, seconds: float) -> bool:
        """Whether that one, or one after it, has told all within that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._whole < wanted:
                    self._news.clear()
                    await self._news.wait()
        return self._whole >= wanted


async def is_lost(config_file: str, kafka_cluster: str, seconds: float) -> bool:
    """Whether no broker of a cluster answers anything within that time."""
    try:
        async with asyncio.timeout(seconds):
            kafka = await open_by_file(config_file, kafka_cluster)
    except (*PASSING, TimeoutError):
        return True
    except FairleadError:
        return False
    await kafka.close()
    return False
