"""Loops are prevented by the registry of producer ids: `fairlead-mirror.producers.internal` of each destination says
which producer ids there belong to mirrors, and in which cluster their records were first written.

A mirror enters each of its producer ids before it sends anything with it. So a mirror that reads a batch of an id that
it does not know, reads the registry of its source to the end, and then knows whether the batch came from a mirror. One
whose origin is the mirror's own destination is left out; of another origin, it goes on with that origin: so pairs with
equal names, chains, rings and meshes come to rest.

A mirror with a prefix enters each topic that it makes too, with the clusters that the topic's records came through. So
no mirror makes `b_a_topic` of `a_topic` where `topic` itself is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.mirror.books.journal import Journal
from fairlead.mirror.names import REGISTRY
from fairlead.mirror.ports import Cluster
from fairlead.model.errors import BadRequest
from fairlead.model.strict_json import JsonForm, Unreadable
from fairlead.protocol.batch import NO_PRODUCER

_REMEMBERED_MAX: Final = 100_000
"""Producers that are no mirrors; beyond that they are forgotten and asked for again."""


@dataclass(frozen=True, slots=True)
class _Key:
    producer: int | None
    """An id,"""
    topic: str | None
    """or a topic."""


@dataclass(frozen=True, slots=True)
class _Path:
    through: tuple[str, ...]
    """Ids of the clusters that the topic's records came through, the first first."""


@dataclass(frozen=True, slots=True)
class _Value:
    origin: str
    """Id of the cluster in which the records were first written."""
    mirror: str
    """Name of the mirror; for people."""


_KEY: Final = JsonForm(_Key, head={"v": 1})
_VALUE: Final = JsonForm(_Value, head={"v": 1})
_PATH: Final = JsonForm(_Path, head={"v": 1})


def registry_record(producer_id: int, origin: str, mirror: str) -> tuple[bytes, bytes]:
    """Key and value of an entry."""
    return _KEY.write(_Key(producer_id, None)), _VALUE.write(_Value(origin, mirror))


def path_record(topic: str, through: Sequence[str]) -> tuple[bytes, bytes]:
    """Key and value of an entry for a topic."""
    return _KEY.write(_Key(None, topic)), _PATH.write(_Path(tuple(through)))


class Origins:
    """Where the batches of one source were first written."""

    def __init__(self, source: Cluster, destination: str) -> None:
        self._own = source.id
        self._destination = destination
        self._within_one = source.id == destination
        self._journal = Journal(source, REGISTRY)
        self._origins: dict[int, str] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._asked = {NO_PRODUCER}
        """Ids of which the registry was read after they were seen: what it does not say of them, it never will."""
        self._reading = asyncio.Lock()

    async def learn(self, producer_ids: Iterable[int]) -> None:
        """Make sure that the origins of these are known.

        Raises:
            BadRequest: the registry cannot be read.
            TryAgain
        """
        if self._asked.issuperset(wanted := set(producer_ids)):
            return
        async with self._reading:
            await self._read()
            if len(self._asked) > _REMEMBERED_MAX:
                self._asked = {NO_PRODUCER}
            self._asked |= wanted

    async def refresh(self) -> None:
        """Read what was entered since. Raises: BadRequest, TryAgain."""
        async with self._reading:
            await self._read()

    async def _read(self) -> None:
        try:
            for key, value in await self._journal.news():
                if key is not None and value is not None:
                    self._enter(_KEY.read(key), value)
            self._journal.made = self._journal.made or bool(self._origins)
        except Unreadable as error:
            raise BadRequest(f"topic {REGISTRY} holds a record of another version or program: {error}") from None

    def _enter(self, key: _Key, value: bytes) -> None:
        if key.producer is not None:
            self._origins[key.producer] = _VALUE.read(value).origin
        elif key.topic is not None:
            self._paths[key.topic] = _PATH.read(value).through

    def path(self, topic: str) -> tuple[str, ...]:
        """The clusters that the records of a topic of the source came through, the source being the last."""
        return (*self._paths.get(topic, ()), self._own)

    @property
    def looping(self) -> frozenset[str]:
        """Topics of the source that mirrors with prefixes made from topics of the destination."""
        return frozenset(topic for topic, through in self._paths.items() if self._destination in through)

    def of(self, producer_id: int) -> str | None:
        """The cluster where a batch of this producer was first written; None: in the destination itself, from where it
        came. Within one cluster nothing is left out: there names keep copies apart."""
        if self._within_one:
            return self._own
        origin = self._origins.get(producer_id, self._own)
        return None if origin == self._destination else origin
