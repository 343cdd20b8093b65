"""Consumer groups: which there are, and what they have committed, for one that is no member of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.versions import FIND_COORDINATOR, LIST_GROUPS, OFFSET_COMMIT, OFFSET_FETCH
from fairlead.kafka.errors import PASSING, check, error_of
from fairlead.kafka.values import ListedGroup, OffsetAndEpoch, TopicPartition
from fairlead.model.addresses import Address
from fairlead.model.errors import FairleadError, TryAgain, UnknownTopic

_GROUP = 0
_NO_GENERATION = -1
_AS_THE_BROKER_KEEPS = timedelta(milliseconds=-1)
_MANY_GROUPS_SINCE: Final = 8
"""OffsetFetch, KIP-709."""
_GROUPS_AT_ONCE: Final = 100

Commits = dict[TopicPartition, OffsetAndEpoch]


class Groups:
    """Asks the coordinator of each group."""

    def __init__(self, brokers: Brokers, metadata: Metadata) -> None:
        self._brokers = brokers
        self._metadata = metadata

    # ------------------------------------------------------------ all groups

    async def listed(self) -> dict[str, ListedGroup]:
        """See `Cluster.groups`."""
        return await again(self._brokers.settings, self._listed)

    async def _listed(self) -> dict[str, ListedGroup]:
        await self._metadata.ask([])
        found: dict[str, ListedGroup] = {}
        for part in await asyncio.gather(*(self._listed_by(node) for node in self._brokers.nodes)):
            found |= part
        return found

    async def _listed_by(self, node: int) -> dict[str, ListedGroup]:
        connection = await self._brokers.of(node)
        answer = await connection.call(LIST_GROUPS, {"states_filter": [], "types_filter": []})
        check(answer.error_code, f"{connection.who}, its groups")
        return {
            each.group_id: ListedGroup(
                node, each.protocol_type, getattr(each, "group_state", ""), getattr(each, "group_type", "")
            )
            for each in answer.groups
        }

    async def all_committed(self, groups: Mapping[str, int]) -> dict[str, Commits | FairleadError]:
        """See `Cluster.all_committed`."""
        by_node: dict[int, list[str]] = {}
        for group, node in groups.items():
            by_node.setdefault(node, []).append(group)
        parts = [
            (node, names[first : first + _GROUPS_AT_ONCE])
            for node, names in by_node.items()
            for first in range(0, len(names), _GROUPS_AT_ONCE)
        ]
        found: dict[str, Commits | FairleadError] = {}
        for part in await asyncio.gather(*(self._of_some(node, names) for node, names in parts)):
            found |= part
        moved = [group for group, commits in found.items() if isinstance(commits, PASSING)]
        return found | dict(zip(moved, await asyncio.gather(*map(self._sought, moved)), strict=True))

    async def _of_some(self, node: int, groups: Sequence[str]) -> dict[str, Commits | FairleadError]:
        """What some groups of one coordinator have committed, or why that is not known."""
        try:
            connection = await self._brokers.of(node)
            if connection.versions.of(OFFSET_FETCH) >= _MANY_GROUPS_SINCE:
                return await _fetched(connection, groups)
            return {
                group: commits for each in groups for group, commits in (await _fetched(connection, [each])).items()
            }
        except PASSING as error:
            return dict.fromkeys(groups, error if isinstance(error, TryAgain) else TryAgain(str(error)))

    async def _sought(self, group: str) -> Commits | FairleadError:
        """The same of one group, which may have another coordinator now, or none for a while."""

        async def ask() -> Commits | FairleadError:
            commits = (await _fetched(await self._coordinator(group), [group]))[group]
            if isinstance(commits, PASSING):
                raise commits
            return commits

        try:
            return await again(self._brokers.settings, ask)
        except FairleadError as error:
            return error

    # ------------------------------------------------------------ one group

    async def committed(self, group: str, places: Iterable[TopicPartition]) -> Commits:
        """See `Cluster.committed`."""
        topics: dict[str, list[int]] = {}
        for place in sorted(set(places)):
            topics.setdefault(place.topic, []).append(place.partition)
        named = [{"name": name, "partition_indexes": numbers} for name, numbers in topics.items()]

        async def ask() -> Commits:
            connection = await self._coordinator(group)
            commits = (await _fetched(connection, [group], named, stable=True))[group]
            if isinstance(commits, FairleadError):
                raise commits
            return commits

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
            failed = [
                error_of(each.error_code, f"group {group}, {TopicPartition(topic.name, each.partition_index)}")
                for topic in answer.topics
                for each in topic.partitions
                if each.error_code
            ]
            # A coordinator commits what it knows and names the rest, so that it does not know a topic is said last.
            for error in sorted(failed, key=_last_word):
                raise error

        if topics:
            await again(self._brokers.settings, ask)

    async def _coordinator(self, group: str) -> Connection:
        answer = await (await self._brokers.any()).call(FIND_COORDINATOR, {"key": group, "key_type": _GROUP})
        check(answer.error_code, f"group {group}", answer.error_message)
        return await self._brokers.at(Address(answer.host, answer.port))


async def _fetched(
    connection: Connection, groups: Sequence[str], topics: Sequence[Any] | None = None, *, stable: bool = False
) -> dict[str, Commits | FairleadError]:
    """What groups have committed of these topics, or of all, or why that is not known; in one request, which a broker
    of before `_MANY_GROUPS_SINCE` takes for one group. `stable`: a commit in an open transaction is waited for."""
    asked = [{"group_id": group, "topics": topics} for group in groups]
    answer = await connection.call(OFFSET_FETCH, {"groups": asked, **asked[0], "require_stable": stable})
    if not hasattr(answer, "groups"):
        return {groups[0]: _commits(groups[0], answer)}
    return {each.group_id: _commits(each.group_id, each) for each in answer.groups}


def _last_word(error: FairleadError) -> int:
    """What may pass comes before what is final, and that before what keeps no other partition from its commit."""
    return 0 if isinstance(error, PASSING) else 2 if isinstance(error, UnknownTopic) else 1


def _commits(group: str, answer: Any) -> Commits | FairleadError:
    try:
        check(answer.error_code, f"group {group}")
        found: Commits = {}
        for topic in answer.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                check(each.error_code, f"group {group}, {place}")
                if each.committed_offset >= 0:
                    epoch = getattr(each, "committed_leader_epoch", -1)
                    found[place] = OffsetAndEpoch(each.committed_offset, epoch, each.metadata or "")
    except FairleadError as error:
        return error
    return found
