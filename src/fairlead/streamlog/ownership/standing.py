"""What this stream may do with a topic, and how far a change of owner has come here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from fairlead.streamlog.ownership.histories import beginning_of
from fairlead.streamlog.values import PartitionState, Topic


class Partitions(Protocol):
    """Where partitions stand: the state of a shard, or the overlay of a draft."""

    def partition(self, number: int, partition: int) -> PartitionState: ...


class PendingPartition(NamedTuple):
    """A partition that its owner may not write yet."""

    partition: int
    end: int
    start: int
    """Where the owner's epoch begins: records [end, start) are missing here."""


def is_active(topic: Topic, partition: int, state: PartitionState) -> bool:
    """Whether the topic's owner may write the partition, if `state` is its copy of it: it holds all that was written
    before its epoch, or has written in it already. A Kafka cluster writes itself; a copy of its log has this once it
    has come so far."""
    if topic.is_of_kafka:
        return state.end >= beginning_of(topic.since, partition)[0]
    return topic.epoch in (0, state.epoch) or state.end == beginning_of(topic.since, partition)[0]


def pending_partitions(topic: Topic, partitions: Partitions) -> Iterator[PendingPartition]:
    """The partitions of a topic whose history before the owner's epoch is not all here. At the owner: those that it may
    not write yet."""
    if topic.epoch == 0:
        return
    for partition in range(topic.partitions):
        state = partitions.partition(topic.number, partition)
        if not is_active(topic, partition, state):
            yield PendingPartition(partition, state.end, beginning_of(topic.since, partition)[0])
