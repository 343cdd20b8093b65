"""A client of any cluster that speaks the Kafka protocol: a small one, on asyncio, that carries batches as they are.

    cluster.py      the face: a cluster's topics, offsets, settings and groups; makes fetchers and producers
    fetcher.py      reads partitions, by fetch sessions (fetch_session.py), and hands out views of what came
    producer.py     an idempotent producer of whole batches (lanes.py: one partition's order)
    seeking.py      what lost its leader, until metadata knows another one
    metadata.py, brokers.py, connection.py, versions.py     who leads what, where they are, and how one is asked
    groups.py, admin.py, offsets.py                         the questions of `cluster.py`
    settings.py, properties.py, tls.py, sasl.py, scram.py   what a Kafka user's property file says

Comes in: settings and batches. Goes out: batches and offsets. It knows neither streams nor Spark.

Always true: a request names a partition once; at most five batches of a partition are under way, and they take effect
in order, once; lengths that a broker sends are held against the bytes that are there.
"""

from fairlead.kafka.cluster import Cluster
from fairlead.kafka.fetcher import Fetched, Fetcher
from fairlead.kafka.lanes import Batch
from fairlead.kafka.producer import Producer
from fairlead.kafka.settings import ClientSettings, ConsumerSettings, FetchSettings, ProducerSettings, ProduceSettings
from fairlead.kafka.values import (
    EARLIEST,
    LATEST,
    ConfigValue,
    OffsetAndEpoch,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "Batch",
    "ClientSettings",
    "Cluster",
    "ConfigValue",
    "ConsumerSettings",
    "FetchSettings",
    "Fetched",
    "Fetcher",
    "OffsetAndEpoch",
    "PartitionMetadata",
    "ProduceSettings",
    "Producer",
    "ProducerSettings",
    "TopicMetadata",
    "TopicPartition",
]
