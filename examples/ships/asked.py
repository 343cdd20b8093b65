"""What some topics of a cluster are asked again and again: where they end, and how far a group is behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from examples.ships import traffic
from examples.ships.compare import Held

LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
QUIET = {"log_level": 2}
"""Of clients, which otherwise tell of each connection that ends with its cluster."""
_NO_LEADER_YET = {
    KafkaError._NOENT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}
ANSWER_SECONDS = 30


class Asked:
    """Topics of one cluster, by the names that clients have for them."""

    def __init__(self, bootstrap: str, topics: Sequence[str], partitions: int) -> None:
        self.bootstrap = bootstrap
        self.topics = topics
        self._each = partitions
        self._places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]

    def ends(self) -> Mapping[tuple[str, int], int]:
        """Where each partition ends; those that are not there yet are missing."""
        admin = self._admin()
        asked = admin.list_offsets(dict.fromkeys(self._places, LATEST), request_timeout=ANSWER_SECONDS)
        found: dict[tuple[str, int], int] = {}
        for place, answer in asked.items():
            error = answer.exception(ANSWER_SECONDS)
            if error is None:
                found[place.topic, place.partition] = answer.result().offset
            elif not (isinstance(error, KafkaException) and error.args[0].code() in _NO_LEADER_YET):
                raise error
        return found

    def records(self) -> int:
        """How many offsets have been given."""
        return sum(self.ends().values())

    def held(self) -> Held:
        """All that they hold now."""
        follower = traffic.Follower(self.bootstrap, self.topics, self._each, "", **QUIET)
        try:
            follower.wait_for(self.records(), lambda done: None)
        finally:
            follower.stop()
        return follower.held

    def lag(self, group: str) -> int:
        """How far a group is behind, as every tool shows it."""
        return self.records() - sum(self.committed(group).values())

    def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        """What a group has committed; partitions without a commit are missing."""
        asking = traffic.consumer(self.bootstrap, group, **QUIET)
        try:
            committed = asking.committed(self._places, timeout=ANSWER_SECONDS)
        finally:
            asking.close()
        return {(each.topic, each.partition): each.offset for each in committed if each.offset >= 0}

    def partitions(self) -> Mapping[str, int]:
        """How many each topic has; those that are not there are missing."""
        there = self._admin().list_topics(timeout=ANSWER_SECONDS).topics
        return {place.topic: len(there[place.topic].partitions) for place in self._places if place.topic in there}

    def _admin(self) -> AdminClient:
        """A new one: it would remember for long that a topic is not there."""
        return AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
