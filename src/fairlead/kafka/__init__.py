"""A client of any cluster that speaks the Kafka protocol: a small one, on asyncio, that carries batches as they are.

    cluster.py          the face: a cluster's topics, offsets, settings and groups; makes fetchers and producers
    fetching/           reads partitions, by fetch sessions, and hands out views of what came
    producing/          an idempotent producer of whole batches; the order of each partition
    asking/             who leads what, and the other questions of `cluster.py`, until they are answered
    connecting/         where brokers are, how a connection begins, and how one is asked
    configuration/      what a Kafka user's property file says
    values.py, errors.py    what all of them take and give; Kafka's codes as our kinds of errors

Comes in: settings and batches. Goes out: batches and offsets. It knows neither streams nor Spark.

Always true: a request names a partition once; at most five batches of a partition are under way, and they take effect
in order, once; nothing of a transaction
is written to a partition that is not in it; lengths that a broker sends are held against the bytes that are there.
"""

from fairlead.kafka.cluster import Cluster
from fairlead.kafka.configuration.settings import (
    ClientSettings,
    ConsumerSettings,
    FetchSettings,
    ProducerSettings,
    ProduceSettings,
)
from fairlead.kafka.fetching.fetcher import Fetched, Fetcher
from fairlead.kafka.producing.lanes import Batch
from fairlead.kafka.producing.producer import Producer
from fairlead.kafka.producing.transactional import TransactionalProducer
from fairlead.kafka.values import (
    EARLIEST,
    LATEST,
    Acl,
    ConfigValue,
    ListedGroup,
    OffsetAndEpoch,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "Acl",
    "Batch",
    "ClientSettings",
    "Cluster",
    "ConfigValue",
    "ConsumerSettings",
    "FetchSettings",
    "Fetched",
    "Fetcher",
    "ListedGroup",
    "OffsetAndEpoch",
    "PartitionMetadata",
    "ProduceSettings",
    "Producer",
    "ProducerSettings",
    "TopicMetadata",
    "TopicPartition",
    "TransactionalProducer",
]
