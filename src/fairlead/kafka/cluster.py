"""A Kafka cluster, as one who uses it sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead.kafka.asking.admin import Admin
from fairlead.kafka.asking.groups import Groups
from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.offsets import Offsets
from fairlead.kafka.asking.retrying import again
from fairlead.kafka.configuration.settings import ClientSettings, FetchSettings, ProduceSettings
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.fetching.fetcher import Fetcher
from fairlead.kafka.producing.producer import OnId, Producer
from fairlead.kafka.values import ConfigValue, OffsetAndEpoch, TopicMetadata, TopicPartition


class Cluster:
    """Questions and small changes are tried again until `request_timeout_ms` is over, then raise a kind of TryAgain.
    What a broker refuses is raised at once."""

    def __init__(self, settings: ClientSettings) -> None:
        self._brokers = Brokers(settings)
        self._metadata = Metadata(self._brokers)
        self._offsets = Offsets(self._brokers, self._metadata)
        self._groups = Groups(self._brokers)
        self._admin = Admin(self._brokers)

    @classmethod
    async def open(cls, settings: ClientSettings) -> Cluster:
        """Find the cluster by its bootstrap servers.

        Raises:
            TryAgain: none of them answers.
            NotAllowed: they do not know us, or are not who they should be.
        """
        cluster = cls(settings)
        try:
            await again(settings, lambda: cluster._metadata.ask([]))
        except BaseException:
            await cluster.close()
            raise
        return cluster

    @property
    def cluster_id(self) -> str:
        """Which cluster it is."""
        return self._metadata.cluster_id

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """All topics, or those of the names that there are."""
        asked = None if names is None else sorted(set(names))
        return await again(self._brokers.settings, lambda: self._metadata.ask(asked))

    async def offsets(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool = False
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """Where partitions begin (EARLIEST), end (LATEST), or have their first record that is not older than `at`, in
        ms since 1970; where none is, the end. `committed`: they end where the first open transaction begins.

        Raises:
            UnknownPartition; TryAgain: also for a topic that is not there.
        """
        return await self._offsets.find(places, at, committed=committed)

    async def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None, replication: int = -1
    ) -> None:
        """Make a topic; -1: as many replicas as the cluster's default.

        Raises:
            AlreadyExists, InvalidName, InvalidValue, NotAllowed
        """
        await self._admin.create_topic(name, partitions, configs or {}, replication)

    async def create_partitions(self, name: str, count: int) -> None:
        """Let a topic have `count` partitions. Raises: InvalidValue: it has as many or more; UnknownTopic."""
        await self._admin.create_partitions(name, count)

    async def describe_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigValue]]:
        """The settings of topics. Raises: UnknownTopic, NotAllowed."""
        return await self._admin.describe_configs(topics)

    async def committed(self, group: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndEpoch]:
        """What a group has committed; partitions without a commit are missing. Raises: NotAllowed."""
        return await self._groups.committed(group, places)

    async def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndEpoch]) -> None:
        """Commit for a group. Raises: NotAllowed: it has members, or we may not; UnknownTopic."""
        await self._groups.commit(group, offsets)

    def fetcher(self, settings: FetchSettings | None = None, *, committed: bool = True) -> Fetcher:
        """A reader; `committed`: up to the first open transaction, with the list of those that were aborted."""
        return Fetcher(self._brokers, self._metadata, settings or FetchSettings(), committed=committed)

    async def producer(
        self, settings: ProduceSettings | None = None, *, connections: int = 1, on_id: OnId | None = None
    ) -> Producer:
        """A producer with an id of its own and so many connections to each broker.

        Raises:
            TryAgain: no broker gives an id.
        """
        producer = Producer(self._brokers, self._metadata, settings or ProduceSettings(), connections, on_id)
        try:
            await producer.renew_id()
        except BaseException:
            await producer.close()
            raise
        return producer

    async def close(self) -> None:
        """End all connections."""
        self._brokers.close()
