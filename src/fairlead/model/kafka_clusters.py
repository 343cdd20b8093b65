"""Kafka clusters as owners of topics: what is the same wherever a stream keeps topics of one."""

from __future__ import annotations

from typing import Final
from uuid import NAMESPACE_URL, uuid5

ORIGIN_CLUSTER: Final = "fairlead.origin.cluster"
"""Setting of a topic that a Kafka cluster owns: the id by which that one owns it, as a UUID."""
ORIGIN_TOPIC: Final = "fairlead.origin.topic"
"""Setting of a topic whose owner has changed, and that no Kafka cluster owns: the id, as a UUID, that it has had at
every site since it was made. Of a topic that was taken over from a Kafka cluster it is the topic's id there."""
_OF_KAFKA_CLUSTERS: Final = uuid5(NAMESPACE_URL, "kafka")


def owner_of(cluster_id: str) -> bytes:
    """The id by which the Kafka cluster with that id of its own owns topics."""
    return uuid5(_OF_KAFKA_CLUSTERS, cluster_id).bytes
