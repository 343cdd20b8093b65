"""Where partitions begin and end, and where a time lies in them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import LIST_OFFSETS
from fairlead.kafka.errors import PASSING, error_of
from fairlead.kafka.values import EARLIEST, LATEST, OffsetAndEpoch, TopicPartition
from fairlead.model.errors import FairleadError, TryAgain
from fairlead.protocol.fetch import READ_COMMITTED

_CONSUMER = -1


class Offsets:
    """Asks the leaders; partitions whose leader has moved are asked for again."""

    def __init__(self, brokers: Brokers, metadata: Metadata) -> None:
        self._brokers = brokers
        self._metadata = metadata

    async def find(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """See `Cluster.offsets`."""
        found = await self._all(set(places), at, committed=committed)
        if at not in (EARLIEST, LATEST):
            later = {place for place, offset in found.items() if offset.offset < 0}
            found.update(await self._all(later, LATEST, committed=committed))
        return found

    async def _all(
        self, places: set[TopicPartition], at: int, *, committed: bool
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        found: dict[TopicPartition, OffsetAndEpoch] = {}

        async def rest() -> None:
            await self._some(places - found.keys(), at, found, committed=committed)

        await again(self._brokers.settings, rest)
        return found

    async def _some(
        self, places: set[TopicPartition], at: int, found: dict[TopicPartition, OffsetAndEpoch], *, committed: bool
    ) -> None:
        """Add what is answered. Raises: what the first that is not was not answered for."""
        if not places:
            return
        by_leader = await self._metadata.by_leader(places)
        tasks = [self._one(node, its, at, found, committed=committed) for node, its in by_leader.items()]
        errors = [each for each in await asyncio.gather(*tasks, return_exceptions=True) if each is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, PASSING)):
            raise error

    async def _one(
        self,
        node: int,
        places: list[TopicPartition],
        at: int,
        found: dict[TopicPartition, OffsetAndEpoch],
        *,
        committed: bool,
    ) -> None:
        topics: dict[str, list[dict[str, int]]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append({"partition_index": place.partition, "timestamp": at})
        question = {
            "replica_id": _CONSUMER,
            "isolation_level": READ_COMMITTED if committed else 0,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }
        connection = await self._brokers.of(node)
        answer = await connection.call(LIST_OFFSETS, question)
        asked, failed = set(places), list[FairleadError]()
        for topic in answer.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    failed.append(error_of(each.error_code, str(place)))
                elif place in asked:
                    found[place] = OffsetAndEpoch(each.offset, getattr(each, "leader_epoch", -1))
        if failed:
            raise failed[0]
        if asked - found.keys():
            raise TryAgain(f"{connection.who} says nothing of {min(asked - found.keys())}")
