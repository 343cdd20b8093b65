"""What partitions know of producers (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import DESCRIBE_PRODUCERS
from fairlead.kafka.errors import check_leader
from fairlead.kafka.values import TopicPartition
from fairlead.model.errors import TryAgain

_AT_ONCE: Final = 1000


class Producers:
    """Asks the leaders."""

    def __init__(self, brokers: Brokers, metadata: Metadata) -> None:
        self._brokers = brokers
        self._metadata = metadata

    async def last_sequences(self, producer_id: int, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See `Cluster.last_sequences`."""
        asked = sorted(set(places))
        found: dict[TopicPartition, int] = {}
        for first in range(0, len(asked), _AT_ONCE):
            some = asked[first : first + _AT_ONCE]
            found |= await again(self._brokers.settings, partial(self._of_some, producer_id, some))
        return found

    async def _of_some(self, producer_id: int, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for node, its in (await self._metadata.by_leader(places)).items():
            found |= await self._of_leader(node, producer_id, its)
        return found

    async def _of_leader(self, node: int, producer_id: int, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        topics: dict[str, list[int]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(place.partition)
        question = {"topics": [{"name": name, "partition_indexes": of} for name, of in topics.items()]}
        connection = await self._brokers.of(node)
        answer = await connection.call(DESCRIBE_PRODUCERS, question)
        found: dict[TopicPartition, int] = {}
        answered: set[TopicPartition] = set()
        for topic in answer.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                check_leader(each.error_code, str(place), each.error_message)
                answered.add(place)
                for producer in each.active_producers:
                    if producer.producer_id == producer_id:
                        found[place] = producer.last_sequence
        if missing := set(places) - answered:
            raise TryAgain(f"{connection.who} says nothing of {min(missing)}")
        return found
