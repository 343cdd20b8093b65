"""Who leads which partition: Metadata is asked, and what was heard last is kept for the topics that are in use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.versions import METADATA
from fairlead.kafka.errors import NONE, PASSING, error_of
from fairlead.kafka.values import NO_NODE, PartitionMetadata, TopicMetadata, TopicPartition
from fairlead.model.addresses import Address
from fairlead.model.errors import FairleadError, TryAgain, UnknownPartition
from fairlead.protocol.wire import ZERO_UUID

_NOT_THERE = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.leader_not_available}
)
"""Of a topic; the last of them while it is being made."""
_NO_LEADER = PartitionMetadata(NO_NODE, -1)


class _Said(NamedTuple):
    """What a broker says of topics; of those that are in neither it knows none."""

    there: dict[str, TopicMetadata]
    refused: dict[str, int]
    """Those of which it says nothing else, and Kafka's code for why not."""


class Metadata:
    """What is known of topics. What is refused of one leaves the others as they are.

    A broker that is cut off from its cluster may say for hours what was true before. So all brokers in turn are asked
    for leaders, and one of an older epoch than is known takes nobody's place.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._known: dict[str, TopicMetadata] = {}
        self._refused: dict[str, int] = {}
        self.cluster_id = ""

    def topic(self, name: str) -> TopicMetadata | None:
        """What was last heard of a topic."""
        return self._known.get(name)

    def refusal(self, name: str) -> int:
        """Kafka's code for why nothing was said of a topic when it was last asked for; 0: it was not refused."""
        return self._refused.get(name, NONE)

    def leader(self, place: TopicPartition) -> PartitionMetadata | None:
        """Who leads a partition, as last heard; None if nobody does."""
        topic = self._known.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            return None
        found = topic.partitions[place.partition]
        return None if found.leader == NO_NODE else found

    async def ask(self, names: Collection[str] | None, *, make: bool = False) -> dict[str, TopicMetadata]:
        """The topics of these names that there are, or all. `make`: the cluster may make those that are not there, if
        it does so for those who ask.

        Raises:
            NotAllowed: one that was named may not be described.
            TryAgain, Unanswered, Malformed
        """
        return _named(await self._ask(await self._brokers.any(), names, make=make))

    async def ask_several(self, names: Collection[str], count: int) -> list[dict[str, TopicMetadata]]:
        """The topics of these names that there are, as so many brokers say, each for itself; as all of them say, where
        the cluster has fewer.

        Raises:
            TryAgain: fewer can be asked now; NotAllowed.
        """
        said: list[dict[str, TopicMetadata]] = []
        nodes = sorted(self._brokers.nodes)
        for node in nodes:
            if len(said) < count:
                with suppress(*PASSING):
                    said.append(_named(await self._ask(await self._brokers.of(node), names)))
        if len(said) < min(count, len(nodes)):
            raise TryAgain(f"{len(said)} of {len(nodes)} brokers answer, and {min(count, len(nodes))} are to be asked")
        return said

    async def _ask(self, connection: Connection, names: Collection[str] | None, *, make: bool = False) -> _Said:
        topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
        options = {
            "allow_auto_topic_creation": make,
            "include_topic_authorized_operations": False,
            "include_cluster_authorized_operations": False,
        }
        answer = await connection.call(METADATA, {"topics": topics, **options})
        nodes = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        self._brokers.learn(nodes, answer.controller_id)
        self.cluster_id = answer.cluster_id or ""
        there = {topic.name: _topic(topic) for topic in answer.topics if topic.error_code is ErrorCode.none}
        refused = {} if names is None else {topic.name: topic.error_code for topic in answer.topics if _refused(topic)}
        newest = {name: _newest(topic, self._known.get(name)) for name, topic in there.items()}
        for name in [*self._known, *self._refused] if names is None else names:
            self._known.pop(name, None)
            self._refused.pop(name, None)
        self._known |= newest
        self._refused |= refused
        return _Said(there, refused)

    async def renew(self, names: Iterable[str]) -> None:
        """Ask for topics whose leaders may have changed, another broker than before. Raises: TryAgain, Unanswered,
        Malformed."""
        await self._ask(await self._brokers.another(), sorted(set(names)))

    async def by_leader(self, places: Iterable[TopicPartition]) -> Mapping[int, list[TopicPartition]]:
        """Who leads partitions now, by the broker's id.

        Raises:
            UnknownPartition: its topic has fewer.
            NotAllowed: its topic may not be described.
            TryAgain: a partition is not there, or has no leader; Unanswered, Malformed
        """
        by_leader, errors = await self.leaders_of(places)
        for error in errors.values():
            raise error
        return by_leader

    async def leaders_of(
        self, places: Iterable[TopicPartition]
    ) -> tuple[Mapping[int, list[TopicPartition]], dict[TopicPartition, FairleadError]]:
        """The same of all that have a leader, and why the others have none. Raises: as `renew`."""
        asked = sorted(set(places))
        await self.renew(place.topic for place in asked)
        by_leader: dict[int, list[TopicPartition]] = {}
        errors: dict[TopicPartition, FairleadError] = {}
        for place in asked:
            topic, leader, refusal = self.topic(place.topic), self.leader(place), self.refusal(place.topic)
            if refusal != NONE:
                errors[place] = error_of(refusal, f"topic {place.topic}")
            elif topic is not None and place.partition >= len(topic.partitions):
                errors[place] = UnknownPartition(f"{place}: the topic has {len(topic.partitions)} partitions")
            elif leader is None:
                errors[place] = TryAgain(f"{place} {'is not there' if topic is None else 'has no leader'}")
            else:
                by_leader.setdefault(leader.leader, []).append(place)
        return by_leader, errors


def _named(said: _Said) -> dict[str, TopicMetadata]:
    """The topics that are there. Raises: why one of those that were named is refused."""
    for name, code in said.refused.items():
        raise error_of(code, f"topic {name}")
    return said.there


def _refused(topic: Any) -> bool:
    return topic.error_code is not ErrorCode.none and topic.error_code not in _NOT_THERE


def _newest(said: TopicMetadata, before: TopicMetadata | None) -> TopicMetadata:
    """What is known of a topic now. Where there are no ids, a lower epoch may be that of another topic of its name."""
    if before is None or said.topic_id != before.topic_id or said.topic_id == ZERO_UUID:
        return said
    both = zip_longest(said.partitions, before.partitions, fillvalue=_NO_LEADER)
    return said._replace(partitions=tuple(max(each, key=lambda partition: partition.epoch) for each in both))


def _topic(topic: Any) -> TopicMetadata:
    partitions = [_NO_LEADER] * len(topic.partitions)
    for each in topic.partitions:
        if 0 <= each.partition_index < len(partitions):
            partitions[each.partition_index] = PartitionMetadata(each.leader_id, getattr(each, "leader_epoch", -1))
    topic_id = getattr(topic, "topic_id", None)
    return TopicMetadata(topic.name, topic_id.bytes if topic_id else ZERO_UUID, topic.is_internal, tuple(partitions))
