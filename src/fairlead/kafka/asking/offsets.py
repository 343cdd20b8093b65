"""Where partitions begin and end, and where a time lies in them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import LIST_OFFSETS
from fairlead.kafka.errors import PASSING, leader_error
from fairlead.kafka.values import EARLIEST, LATEST, OffsetAndEpoch, TopicPartition
from fairlead.model.errors import FairleadError, TryAgain
from fairlead.protocol.fetch import READ_COMMITTED

_CONSUMER = -1


@dataclass(frozen=True, slots=True)
class _Question:
    """One that is asked until all is known, or its time is over."""

    places: frozenset[TopicPartition]
    at: int
    committed: bool
    found: dict[TopicPartition, OffsetAndEpoch] = field(default_factory=dict)
    failed: dict[TopicPartition, FairleadError] = field(default_factory=dict)
    """Why the last try has not found the others."""


class Offsets:
    """Asks the leaders; partitions whose leader has moved are asked for again."""

    def __init__(self, brokers: Brokers, metadata: Metadata) -> None:
        self._brokers = brokers
        self._metadata = metadata

    async def find(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """See `Cluster.offsets`."""
        found = await self._all(places, at, committed=committed)
        if at not in (EARLIEST, LATEST):
            later = {place for place, offset in found.items() if offset.offset < 0}
            found.update(await self._all(later, LATEST, committed=committed))
        return found

    async def told(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool, seconds: float
    ) -> dict[TopicPartition, OffsetAndEpoch | FairleadError]:
        """See `Cluster.told_offsets`."""
        question = _Question(frozenset(places), at, committed)
        patience = replace(self._brokers.settings, request_timeout_ms=int(seconds * 1000))
        try:
            await again(patience, lambda: self._ask(question))
        except FairleadError as error:
            unknown = question.places - question.found.keys()
            return {**question.found, **{place: question.failed.get(place, error) for place in unknown}}
        return {**question.found}

    async def _all(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        question = _Question(frozenset(places), at, committed)
        await again(self._brokers.settings, lambda: self._ask(question))
        return question.found

    async def _ask(self, question: _Question) -> None:
        """Add what is answered. Raises: what the first that is not was not answered for."""
        places = question.places - question.found.keys()
        if not places:
            return
        question.failed.clear()
        by_leader, without = await self._metadata.leaders_of(places)
        question.failed.update(without)
        await asyncio.gather(*(self._one(node, its, question) for node, its in by_leader.items()))
        for error in sorted(question.failed.values(), key=lambda error: isinstance(error, PASSING)):
            raise error

    async def _one(self, node: int, places: Sequence[TopicPartition], question: _Question) -> None:
        try:
            await self._asked_of(node, places, question)
        except FairleadError as error:
            for place in places:
                if place not in question.found:
                    question.failed.setdefault(place, error)

    async def _asked_of(self, node: int, places: Sequence[TopicPartition], question: _Question) -> None:
        topics: dict[str, list[dict[str, int]]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append({"partition_index": place.partition, "timestamp": question.at})
        fields = {
            "replica_id": _CONSUMER,
            "isolation_level": READ_COMMITTED if question.committed else 0,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }
        connection = await self._brokers.of(node)
        answer = await connection.call(LIST_OFFSETS, fields)
        asked = set(places)
        for topic in answer.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    question.failed[place] = leader_error(each.error_code, str(place))
                elif place in asked:
                    question.found[place] = OffsetAndEpoch(each.offset, getattr(each, "leader_epoch", -1))
        for place in sorted(asked - question.found.keys() - question.failed.keys()):
            question.failed[place] = TryAgain(f"{connection.who} says nothing of {place}")
