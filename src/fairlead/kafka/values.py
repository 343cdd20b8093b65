"""What the client takes and gives."""

from __future__ import annotations

from typing import Final, NamedTuple

EARLIEST: Final = -2
"""Asks for where a partition begins, as Kafka's ListOffsets writes it."""
LATEST: Final = -1
"""Asks for where it ends."""
NO_EPOCH: Final = -1
NO_NODE: Final = -1


class TopicPartition(NamedTuple):
    """A partition, by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}"


class PartitionMetadata(NamedTuple):
    """Who leads a partition."""

    leader: int
    """Id of the broker; `NO_NODE` while there is none."""
    epoch: int


class TopicMetadata(NamedTuple):
    """A topic as the cluster describes it."""

    name: str
    topic_id: bytes
    """16 bytes; zeros where the cluster has no ids."""
    internal: bool
    partitions: tuple[PartitionMetadata, ...]


class OffsetAndEpoch(NamedTuple):
    """A place in a partition; the epoch is of the record before it."""

    offset: int
    epoch: int = NO_EPOCH
    metadata: str = ""
    """What was written beside a commit."""


class ConfigValue(NamedTuple):
    """A setting of a topic."""

    value: str | None
    own: bool
    """It was set for this topic; else it is the cluster's or the default."""
    sensitive: bool
    of_broker: bool = False
    """It stands in the property file of a broker, or can never be set for a topic."""


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it."""

    node: int
    """Id of the coordinator."""
    protocol: str
    """`consumer` if its members subscribe to topics; "" if it never had members."""
    state: str
    """`Empty`, `Stable`, …; "" of a broker older than Kafka 2.6, which does not say."""
    kind: str
    """`classic`, `consumer`, `share`, `streams`; "" of a broker older than Kafka 3.8."""


class Acl(NamedTuple):
    """Who may do what with a topic, in Kafka's numbers (`AclOperation`, `AclPermissionType`)."""

    topic: str
    principal: str
    host: str
    operation: int
    permission: int


DENY: Final = 2
ALLOW: Final = 3
OPERATION_ALL: Final = 2
OPERATION_READ: Final = 3
OPERATION_WRITE: Final = 4
