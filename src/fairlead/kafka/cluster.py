"""A Kafka cluster, as one who uses it sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairlead.kafka.asking.acls import Acls
from fairlead.kafka.asking.admin import Admin
from fairlead.kafka.asking.epochs import Epochs
from fairlead.kafka.asking.groups import Groups
from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.offsets import Offsets
from fairlead.kafka.asking.producers import Producers
from fairlead.kafka.asking.retrying import again
from fairlead.kafka.configuration.settings import ClientSettings, FetchSettings, ProduceSettings
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.fetching.fetcher import Fetcher
from fairlead.kafka.producing.producer import Identity, OnId, Producer
from fairlead.kafka.producing.transactional import TransactionalProducer, transaction_version
from fairlead.kafka.values import Acl, ConfigValue, ListedGroup, OffsetAndEpoch, TopicMetadata, TopicPartition
from fairlead.model.errors import FairleadError


class Cluster:
    """Questions and small changes are tried again until `request_timeout_ms` is over, then raise a kind of TryAgain.
    What a broker refuses is raised at once."""

    def __init__(self, settings: ClientSettings) -> None:
        self._brokers = Brokers(settings)
        self._metadata = Metadata(self._brokers)
        self._offsets = Offsets(self._brokers, self._metadata)
        self._epochs = Epochs(self._brokers, self._metadata)
        self._groups = Groups(self._brokers, self._metadata)
        self._admin = Admin(self._brokers)
        self._producers = Producers(self._brokers, self._metadata)
        self._acls = Acls(self._brokers)

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

    async def topics(self, names: Iterable[str] | None = None, *, make: bool = False) -> dict[str, TopicMetadata]:
        """All topics, or those of the names that there are. `make`: the cluster may make the others, if it does so for
        those who ask."""
        asked = None if names is None else sorted(set(names))
        return await again(self._brokers.settings, lambda: self._metadata.ask(asked, make=make))

    async def topics_by_several(self, names: Iterable[str], count: int) -> list[dict[str, TopicMetadata]]:
        """The topics of these names that there are, as so many brokers say, each for itself; as all of them say, where
        the cluster has fewer. Raises: TryAgain: fewer can be asked now; NotAllowed."""
        return await self._metadata.ask_several(sorted(set(names)), count)

    async def offsets(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool = False
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """Where partitions begin (EARLIEST), end (LATEST), or have their first record that is not older than `at`, in
        ms since 1970; where none is, the end. `committed`: they end where the first open transaction begins.

        Raises:
            UnknownPartition; TryAgain: also for a topic that is not there.
        """
        return await self._offsets.find(places, at, committed=committed)

    async def told_offsets(
        self, places: Iterable[TopicPartition], at: int, *, committed: bool = False, seconds: float
    ) -> dict[TopicPartition, OffsetAndEpoch | FairleadError]:
        """Where partitions begin (EARLIEST) or end (LATEST), each as far as its leader tells it, or why that is not
        known. What passes is tried again for so many seconds."""
        return await self._offsets.told(places, at, committed=committed, seconds=seconds)

    async def end_of_epoch(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest leader epoch of a partition that is not above this one; (-1, -1) above its
        newest one.

        Raises:
            UnknownPartition; TryAgain: also for a topic that is not there.
        """
        return await self._epochs.end_of(place, epoch)

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
        """The settings of topics. Raises: UnknownTopic, NotAllowed: one of them is not told."""
        found: dict[str, dict[str, ConfigValue]] = {}
        for topic, told in (await self.told_configs(topics)).items():
            if isinstance(told, FairleadError):
                raise told
            found[topic] = told
        return found

    async def told_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigValue] | FairleadError]:
        """The settings of topics, each as far as it is told, or why it is not."""
        return await self._admin.told_configs(topics)

    async def alter_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, FairleadError]:
        """Set these settings of topics, or with None let them have their defaults again; which topics were refused
        that, each as a whole, and why."""
        return await self._admin.alter_configs(changes)

    async def acls(self) -> list[Acl]:
        """Who may do what with topics that are named.

        Raises:
            SwitchedOff: the cluster has no authorizer.
            NotAllowed
        """
        return await self._acls.described()

    async def create_acls(self, acls: Sequence[Acl]) -> dict[Acl, FairleadError]:
        """Add these to those that there are; which of them were refused, and why."""
        return await self._acls.create(acls)

    async def groups(self) -> dict[str, ListedGroup]:
        """All groups that there are, as their coordinators list them. Raises: NotAllowed."""
        return await self._groups.listed()

    async def all_committed(
        self, groups: Mapping[str, int]
    ) -> dict[str, dict[TopicPartition, OffsetAndEpoch] | FairleadError]:
        """What each of these groups has committed, of all topics, or why we may not know; given with the coordinator
        that has listed it."""
        return await self._groups.all_committed(groups)

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

    async def transaction_version(self) -> int:
        """Which protocol of transactions the cluster has: 0 none, 1 or 2. Raises: TryAgain."""
        return await again(self._brokers.settings, lambda: transaction_version(self._brokers))

    def transactional(
        self,
        transactional_id: str,
        settings: ProduceSettings | None = None,
        *,
        connections: int = 1,
        on_id: OnId | None = None,
    ) -> TransactionalProducer:
        """A producer of transactions, which is to be opened first."""
        chosen = settings or ProduceSettings()
        return TransactionalProducer(self._brokers, self._metadata, chosen, transactional_id, connections, on_id)

    async def last_sequences(self, producer_id: int, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The sequence number of the newest record that partitions have of a producer; partitions that know nothing of
        it are missing.

        Raises:
            UnknownPartition; TryAgain: also for a topic that is not there.
            NotAllowed
        """
        return await self._producers.last_sequences(producer_id, places)

    def steady_producer(
        self, producer_id: int, first: Mapping[TopicPartition, int], settings: ProduceSettings | None = None
    ) -> Producer:
        """A producer that has an id already, and of which `first` says with which sequence numbers it goes on. It never
        takes others: a batch that a broker will not take under its number fails, and so do those behind it."""
        chosen = settings or ProduceSettings()
        return Producer(self._brokers, self._metadata, chosen, 1, None, identity=Identity(producer_id, 0, first))

    async def close(self) -> None:
        """End all connections."""
        self._brokers.close()
