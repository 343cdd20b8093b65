"""Where leader epochs of partitions end (KIP-101)."""

from __future__ import annotations

from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import OFFSET_FOR_LEADER_EPOCH
from fairlead.kafka.errors import check_leader
from fairlead.kafka.values import TopicPartition
from fairlead.model.errors import TryAgain

_CONSUMER = -1
_ANY_LEADER = -1


class Epochs:
    """Asks the leaders."""

    def __init__(self, brokers: Brokers, metadata: Metadata) -> None:
        self._brokers = brokers
        self._metadata = metadata

    async def end_of(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        """See `Cluster.end_of_epoch`."""
        return await again(self._brokers.settings, lambda: self._ask(place, epoch))

    async def _ask(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        (node,) = await self._metadata.by_leader([place])
        connection = await self._brokers.of(node)
        asked = {"partition": place.partition, "current_leader_epoch": _ANY_LEADER, "leader_epoch": epoch}
        question = {"replica_id": _CONSUMER, "topics": [{"topic": place.topic, "partitions": [asked]}]}
        answer = await connection.call(OFFSET_FOR_LEADER_EPOCH, question)
        for topic in answer.topics:
            for each in topic.partitions:
                if (topic.topic, each.partition) == place:
                    check_leader(each.error_code, str(place))
                    return each.leader_epoch, each.end_offset
        raise TryAgain(f"{connection.who} says nothing of {place}")
