"""The clusters of a mirror, asked over `fairlead.kafka`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from fairlead import kafka
from fairlead.kafka import Acl, FetchSettings, OffsetAndEpoch, ProduceSettings, TopicPartition
from fairlead.kafka.values import ConfigValue
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.configs import Setting
from fairlead.mirror.ports import (
    CLUSTERS_OWN,
    LATEST,
    LEADERS_SECONDS,
    LOG_END,
    Answer,
    Commit,
    Group,
    Place,
    Sender,
    Topic,
    Trouble,
)
from fairlead.model.errors import AlreadyExists, FairleadError

_OFFSET_OUT_OF_RANGE: Final = 1
_UNKNOWN: Final = frozenset({3, 100, 103})
"""UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID."""


class KafkaCluster:
    """A `Cluster` of the mirror's ports."""

    def __init__(
        self,
        cluster: kafka.Cluster,
        *,
        fetching: FetchSettings | None = None,
        producing: ProduceSettings | None = None,
        connections: int = 1,
    ) -> None:
        self._cluster = cluster
        self._fetching = fetching or FetchSettings()
        self._producing = producing or ProduceSettings()
        self._connections = connections

    @property
    def id(self) -> str:
        return self._cluster.cluster_id

    async def topics(self, names: Iterable[str] | None) -> Mapping[str, Topic]:
        found = await self._cluster.topics(names)
        return {
            name: Topic(name, topic.topic_id, len(topic.partitions), topic.internal) for name, topic in found.items()
        }

    async def offsets(self, places: Iterable[Place], at: int) -> Mapping[Place, int]:
        asked = [TopicPartition(*place) for place in places]
        found = await self._cluster.offsets(asked, LATEST if at == LOG_END else at, committed=at == LATEST)
        return {Place(*place): offset.offset for place, offset in found.items()}

    async def told_offsets(
        self, places: Iterable[Place], at: int, seconds: float = LEADERS_SECONDS
    ) -> Mapping[Place, int | FairleadError]:
        asked = [TopicPartition(*place) for place in places]
        end = LATEST if at == LOG_END else at
        return _told(await self._cluster.told_offsets(asked, end, committed=at == LATEST, seconds=seconds))

    async def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, Setting] | FairleadError]:
        found = await self._cluster.told_configs(topics)
        return {topic: told if isinstance(told, FairleadError) else _settings(told) for topic, told in found.items()}

    async def alter_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> Mapping[str, FairleadError]:
        return await self._cluster.alter_configs(changes)

    async def acls(self) -> Sequence[Acl]:
        return await self._cluster.acls()

    async def create_acls(self, acls: Sequence[Acl]) -> Mapping[Acl, FairleadError]:
        return await self._cluster.create_acls(acls)

    async def create(
        self, topic: str, partitions: int, configs: Mapping[str, str], replication: int = CLUSTERS_OWN
    ) -> bool:
        try:
            await self._cluster.create_topic(topic, partitions, configs, replication)
        except AlreadyExists:
            return False
        return True

    async def grow(self, topic: str, partitions: int) -> None:
        await self._cluster.create_partitions(topic, partitions)

    async def committed(self, group: str, places: Iterable[Place]) -> Mapping[Place, int]:
        found = await self._cluster.committed(group, [TopicPartition(*place) for place in places])
        return {Place(*place): offset.offset for place, offset in found.items()}

    async def commit(self, group: str, offsets: Mapping[Place, tuple[int, int]]) -> None:
        await self._cluster.commit(
            group, {TopicPartition(*place): OffsetAndEpoch(offset, epoch) for place, (offset, epoch) in offsets.items()}
        )

    async def groups(self) -> Mapping[str, Group]:
        return {name: Group(*found) for name, found in (await self._cluster.groups()).items()}

    async def commits_of(self, groups: Mapping[str, Group]) -> Mapping[str, Mapping[Place, Commit] | FairleadError]:
        found = await self._cluster.all_committed({name: group.node for name, group in groups.items()})
        return {name: each if isinstance(each, FairleadError) else _commits(each) for name, each in found.items()}

    async def commit_for(self, group: str, commits: Mapping[Place, Commit]) -> None:
        offsets = {TopicPartition(*place): OffsetAndEpoch(at.offset, -1, at.metadata) for place, at in commits.items()}
        await self._cluster.commit(group, offsets)

    def feed(self, *, committed: bool = True) -> KafkaFeed:
        return KafkaFeed(self._cluster.fetcher(self._fetching, committed=committed))

    async def sender(self, on_id: Callable[[int], Awaitable[None]] | None) -> Sender:
        async def entered(producer_id: int, _epoch: int) -> None:
            if on_id is not None:
                await on_id(producer_id)

        connections = self._connections if on_id is not None else 1
        return KafkaSender(await self._cluster.producer(self._producing, connections=connections, on_id=entered))

    async def has_transactions(self) -> bool:
        return await self._cluster.transaction_version() > 0

    def transactional(
        self, transactional_id: str, on_id: Callable[[int], Awaitable[None]] | None
    ) -> KafkaTransactional:
        async def entered(producer_id: int, _epoch: int) -> None:
            if on_id is not None:
                await on_id(producer_id)

        connections = self._connections if on_id is not None else 1
        producer = self._cluster.transactional(
            transactional_id, self._producing, connections=connections, on_id=entered
        )
        return KafkaTransactional(producer, self._producing.transaction_timeout_ms / 1000)

    async def close(self) -> None:
        await self._cluster.close()


def _told(found: Mapping[TopicPartition, OffsetAndEpoch | FairleadError]) -> Mapping[Place, int | FairleadError]:
    return {Place(*place): told if isinstance(told, FairleadError) else told.offset for place, told in found.items()}


def _settings(found: Mapping[str, ConfigValue]) -> Mapping[str, Setting]:
    return {
        name: Setting(each.value, each.own, each.of_broker)
        for name, each in found.items()
        if each.value is not None and not each.sensitive
    }


def _commits(found: Mapping[TopicPartition, OffsetAndEpoch]) -> Mapping[Place, Commit]:
    return {Place(*place): Commit(at.offset, at.metadata) for place, at in found.items()}


class KafkaFeed:
    """A `Feed` of the mirror's ports."""

    def __init__(self, fetcher: kafka.Fetcher) -> None:
        self._fetcher = fetcher

    @property
    def down(self) -> str | None:
        return self._fetcher.down

    def assign(self, place: Place, topic_id: bytes, offset: int, epoch: int) -> None:
        self._fetcher.assign(TopicPartition(*place), offset, epoch, topic_id if any(topic_id) else None)

    def pause(self, place: Place) -> None:
        self._fetcher.pause(TopicPartition(*place))

    def resume(self, place: Place) -> None:
        self._fetcher.resume(TopicPartition(*place))

    def remove(self, place: Place) -> None:
        self._fetcher.remove(TopicPartition(*place))

    async def next(self) -> Sequence[Answer]:
        return [_answer(fetched) for fetched in await self._fetcher.next()]

    async def close(self) -> None:
        await self._fetcher.close()


def _answer(fetched: kafka.Fetched) -> Answer:
    answer = Answer(Place(*fetched.place), fetched.records, fetched.aborted, fetched.last_stable)
    if fetched.diverging is not None:
        return answer._replace(trouble=Trouble.TRUNCATED, diverged_at=fetched.diverging[1])
    if fetched.error == 0:
        return answer
    if fetched.error == _OFFSET_OUT_OF_RANGE:
        return answer._replace(trouble=Trouble.OUT_OF_RANGE)
    trouble = Trouble.UNKNOWN_TOPIC if fetched.error in _UNKNOWN else Trouble.REFUSED
    return answer._replace(trouble=trouble, detail=fetched.detail or f"error {fetched.error}")


class KafkaSender:
    """A `Sender` of the mirror's ports."""

    def __init__(self, producer: kafka.Producer) -> None:
        self._producer = producer

    @property
    def down(self) -> str | None:
        return self._producer.down

    def send(
        self, topic: str, partition: int, outgoing: Outgoing, *, in_order: bool = False
    ) -> asyncio.Future[int | None]:
        return self._producer.send(topic, partition, outgoing, in_order=in_order)

    async def close(self) -> None:
        await self._producer.close()


class KafkaTransactional:
    """A `Transactional` of the mirror's ports."""

    def __init__(self, producer: kafka.TransactionalProducer, timeout_seconds: float) -> None:
        self.timeout_seconds = timeout_seconds
        self._producer = producer

    @property
    def down(self) -> str | None:
        return self._producer.down

    async def open(self) -> None:
        await self._producer.open()

    def send(self, topic: str, partition: int, outgoing: Outgoing) -> asyncio.Future[int | None]:
        return self._producer.send(topic, partition, outgoing)

    async def flush(self) -> None:
        await self._producer.flush()

    async def commit(self) -> None:
        await self._producer.commit()

    async def close(self) -> None:
        await self._producer.close()
