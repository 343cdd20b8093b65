"""Partitions that have lost their leader, until metadata names one that takes them.

A thing that cannot go on is handed in with the reason. After a pause, which grows with its failures, metadata is asked
again for all that wait, and each is given back to whoever serves it, or with why it is refused for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.retrying import pause_seconds
from fairlead.kafka.configuration.settings import ClientSettings
from fairlead.kafka.errors import NONE, error_of, may_pass
from fairlead.kafka.values import TopicPartition
from fairlead.model.errors import FairleadError


class Sought(Protocol):
    """Something of one partition."""

    @property
    def place(self) -> TopicPartition: ...

    failures: int
    """In a row."""


S = TypeVar("S", bound=Sought)


class Seeker(Generic[S]):
    """Finds leaders for what has none."""

    def __init__(
        self,
        metadata: Metadata,
        settings: ClientSettings,
        found: Callable[[S], Awaitable[None]],
        refused: Callable[[S, int], None],
    ) -> None:
        """`found` is given each thing after metadata was renewed; `refused` one whose topic the cluster says nothing of
        to us, with Kafka's code for why. That one is sought no more."""
        self._metadata = metadata
        self._settings = settings
        self._found = found
        self._refused = refused
        self._lost: dict[TopicPartition, S] = {}
        self._wanted: dict[TopicPartition, S] = {}
        """What was handed in last of each partition, unless it was dropped; nothing else is ever sought again."""
        self._troubled: dict[TopicPartition, str] = {}
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="kafka-seek")

    @property
    def trouble(self) -> str | None:
        """Why the first of those that cannot go on cannot, until it has gone on."""
        return next(iter(self._troubled.values()), None)

    def seek(self, thing: S, why: str) -> None:
        """It cannot go on for this reason; "" if it has not begun."""
        if why:
            thing.failures += 1
            self._troubled[thing.place] = why
        self._lost[thing.place] = self._wanted[thing.place] = thing
        self._wake.set()

    def goes_on(self, thing: S) -> None:
        """It got an answer."""
        thing.failures = 0
        self._troubled.pop(thing.place, None)

    def drop(self, place: TopicPartition) -> None:
        """Nobody wants it any more."""
        self._lost.pop(place, None)
        self._wanted.pop(place, None)
        self._troubled.pop(place, None)

    async def close(self) -> None:
        """Stop seeking."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            failures = min((thing.failures for thing in self._lost.values()), default=0)
            if failures:
                await asyncio.sleep(pause_seconds(self._settings, failures))
            self._wake.clear()
            lost, self._lost = self._lost, {}
            try:
                await self._metadata.renew(place.topic for place in lost)
            except FairleadError as error:
                for thing in lost.values():
                    self._seek_again(thing, error)
                continue
            for thing in lost.values():
                await self._give_back(thing)

    async def _give_back(self, thing: S) -> None:
        refusal = self._metadata.refusal(thing.place.topic)
        try:
            if may_pass(refusal):
                raise error_of(refusal, f"topic {thing.place.topic}")
            if refusal != NONE:
                self._give_up(thing, refusal)
            else:
                await self._found(thing)
        except FairleadError as error:
            self._seek_again(thing, error)

    def _give_up(self, thing: S, refusal: int) -> None:
        """Unless it was dropped or replaced while metadata was asked."""
        if self._wanted.get(thing.place) is thing:
            self.drop(thing.place)
            self._refused(thing, refusal)

    def _seek_again(self, thing: S, error: FairleadError) -> None:
        """Unless it was dropped or replaced while somebody was asked."""
        if self._wanted.get(thing.place) is thing:
            self.seek(thing, str(error))
