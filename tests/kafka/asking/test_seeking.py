"""Partitions without a leader, while metadata does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import pytest
from tests.kafka.client import settings_of
from tests.support.waiting import in_time, until

from fairlead.kafka import TopicPartition
from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.seeking import Seeker
from fairlead.model.errors import TryAgain

PLACE = TopicPartition("t", 0)


@dataclass
class Thing:
    """Something of the partition."""

    name: str
    place: TopicPartition = PLACE
    failures: int = 0


@dataclass
class Away:
    """Metadata that is asked, does not answer until `release`, and fails then, so often; then it answers."""

    failures: int = 1
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def renew(self, names: Iterable[str]) -> None:
        self.asked.set()
        await self.release.wait()
        if self.failures:
            self.failures -= 1
            raise TryAgain("the source is away")

    def refusal(self, name: str) -> int:
        return 0


def unrefused(thing: Thing, code: int) -> None:
    raise AssertionError(thing, code)


@pytest.mark.parametrize("is_wanted_anew", [True, False])
async def test_what_was_dropped_while_metadata_was_asked_does_not_come_back(is_wanted_anew: bool) -> None:
    """A partition that is assigned anew meanwhile is read by its new reading; of one that is not, nothing is waited
    for any more."""
    metadata, found = Away(), list[str]()
    settled = asyncio.Event()

    async def settle(thing: Thing) -> None:
        found.append(thing.name)
        seeker.goes_on(thing)
        if thing.name == "last":
            settled.set()

    seeker: Seeker[Thing] = Seeker(cast(Metadata, metadata), settings_of("127.0.0.1:1"), settle, unrefused)
    try:
        async with in_time():
            seeker.seek(Thing("old"), "connection lost")
            await metadata.asked.wait()
            seeker.drop(PLACE)
            if is_wanted_anew:
                seeker.seek(Thing("new"), "")
            metadata.release.set()
            await until(lambda: not metadata.failures)
            seeker.seek(Thing("last", TopicPartition("u", 0)), "")
            await settled.wait()
    finally:
        await seeker.close()
    assert sorted(found) == (["last", "new"] if is_wanted_anew else ["last"])
    assert seeker.trouble is None


async def test_what_fails_to_be_given_back_is_sought_again_unless_another_has_its_place() -> None:
    """Whoever serves it may fail too."""
    metadata, found = Away(failures=0), list[str]()
    metadata.release.set()
    done = asyncio.Event()

    async def settle(thing: Thing) -> None:
        found.append(thing.name)
        if thing.name == "new":
            done.set()
        elif len(found) == 1:
            raise TryAgain("no producer id")
        else:
            seeker.drop(PLACE)
            seeker.seek(Thing("new"), "")
            raise TryAgain("no producer id")

    seeker: Seeker[Thing] = Seeker(cast(Metadata, metadata), settings_of("127.0.0.1:1"), settle, unrefused)
    try:
        async with in_time():
            seeker.seek(Thing("old"), "")
            await done.wait()
    finally:
        await seeker.close()
    assert found == ["old", "old", "new"]
