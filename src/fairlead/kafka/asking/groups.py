"""What a consumer group has committed, for one that is no member of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.versions import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH
from fairlead.kafka.errors import check
from fairlead.kafka.values import OffsetAndEpoch, TopicPartition
from fairlead.model.addresses import Address

_GROUP = 0
_NO_GENERATION = -1
_AS_THE_BROKER_KEEPS = timedelta(milliseconds=-1)


class Groups:
    """Asks the coordinator, which is sought anew each time: commits are seconds apart."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def committed(self, group: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndEpoch]:
        """See `Cluster.committed`."""
        topics: dict[str, list[int]] = {}
        for place in sorted(set(places)):
            topics.setdefault(place.topic, []).append(place.partition)
        named = [{"name": name, "partition_indexes": numbers} for name, numbers in topics.items()]
        question = {"group_id": group, "topics": named, "require_stable": True}

        async def ask() -> dict[TopicPartition, OffsetAndEpoch]:
            answer = await (await self._coordinator(group)).call(OFFSET_FETCH, question)
            check(answer.error_code, f"group {group}")
            found = {}
            for topic in answer.topics:
                for each in topic.partitions:
                    place = TopicPartition(topic.name, each.partition_index)
                    check(each.error_code, f"group {group}, {place}")
                    if each.committed_offset >= 0:
                        epoch = getattr(each, "committed_leader_epoch", -1)
                        found[place] = OffsetAndEpoch(each.committed_offset, epoch, each.metadata or "")
            return found

        return await again(self._brokers.settings, ask) if named else {}

    async def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndEpoch]) -> None:
        """See `Cluster.commit`."""
        topics: dict[str, list[dict[str, int | str]]] = {}
        for place, at in sorted(offsets.items()):
            entry: dict[str, int | str] = {
                "partition_index": place.partition,
                "committed_offset": at.offset,
                "committed_leader_epoch": at.epoch,
                "committed_metadata": at.metadata,
            }
            topics.setdefault(place.topic, []).append(entry)
        question = {
            "group_id": group,
            "generation_id_or_member_epoch": _NO_GENERATION,
            "member_id": "",
            "retention_time": _AS_THE_BROKER_KEEPS,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }

        async def ask() -> None:
            answer = await (await self._coordinator(group)).call(OFFSET_COMMIT, question)
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code, f"group {group}, {TopicPartition(topic.name, each.partition_index)}")

        if topics:
            await again(self._brokers.settings, ask)

    async def _coordinator(self, group: str) -> Connection:
        answer = await (await self._brokers.any()).call(FIND_COORDINATOR, {"key": group, "key_type": _GROUP})
        check(answer.error_code, f"group {group}", answer.error_message)
        return await self._brokers.at(Address(answer.host, answer.port))
