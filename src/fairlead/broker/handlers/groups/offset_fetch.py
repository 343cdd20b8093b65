"""OffsetFetch: a group's cursors, of named partitions or of all streams that the listener shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.group_logs.cursors import committed_at, committed_by
from fairlead.broker.groups.coordinator import check_group_id
from fairlead.broker.groups.values import RefusedMember
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.topics import Found
from fairlead.model.errors import InvalidName, NotFound
from fairlead.protocol.messages import Fields
from fairlead.streamlog.cursors import Cursor

API_KEY = 9

MANY_GROUPS_SINCE = 8
"""KIP-709."""
TOPIC_IDS_SINCE = 10
"""KIP-848."""
CURSORS_MAX = 1_000_000
"""Once all cursors of some groups are so many, further groups of the request are refused."""
NO_COMMIT = Cursor(offset=-1, leader_epoch=-1, metadata="", committed_at=-1, version=0)


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Every cursor read is durable: the log shows what is committed only after its write."""
    answer = _Answer(ctx)
    if ctx.version >= MANY_GROUPS_SINCE:
        return {"groups": [await answer.group(asked.group_id, asked.topics) for asked in _once(request.groups)]}
    return await answer.group(request.group_id, request.topics)


def _once(groups: Iterable[Any]) -> Iterator[Any]:
    """A group whose cursors are all asked for is answered once, however often it is named."""
    named: set[str] = set()
    for asked in groups:
        if asked.topics is None and asked.group_id in named:
            continue
        named.add(asked.group_id if asked.topics is None else "")
        yield asked


class _Answer:
    """An answer while it is gathered."""

    def __init__(self, ctx: RequestContext) -> None:
        self._ctx = ctx
        self._pace = Pace()
        self._cursors = 0

    async def group(self, group: str, topics: Any) -> Fields:
        """One group: the cursors that were asked for, or all of them."""
        await self._pace.turn()
        try:
            check_group_id(group)
            if self._cursors > CURSORS_MAX:
                raise RefusedMember(ErrorCode.invalid_request)
        except RefusedMember as refused:
            return {"group_id": group, "topics": [], "error_code": refused.code}
        found = await self._all(group) if topics is None else [await self._topic(group, topic) for topic in topics]
        return {"group_id": group, "topics": found, "error_code": ErrorCode.none}

    async def _all(self, group: str) -> list[Fields]:
        ctx = self._ctx
        topics: dict[str, list[Fields]] = {}
        ids: dict[str, Any] = {}
        for name, partition, cursor in committed_by(ctx.listener, group):
            self._cursors += 1
            topics.setdefault(name, []).append(_partition(partition, cursor))
            if ctx.version >= TOPIC_IDS_SINCE and name not in ids:
                ids[name] = _topic_id(ctx.listener.find(name))
            await self._pace.turn()
        return [{"name": name, "topic_id": ids.get(name), "partitions": found} for name, found in topics.items()]

    async def _topic(self, group: str, topic: Any) -> Fields:
        found = _find(self._ctx, topic)
        partitions: list[Fields] = []
        for index in topic.partition_indexes:
            partitions.append(_of_partition(self._ctx, group, found, index))
            await self._pace.turn()
        return {
            "name": getattr(topic, "name", ""),
            "topic_id": getattr(topic, "topic_id", None),
            "partitions": partitions,
        }


def _topic_id(found: Found) -> UUID:
    return UUID(bytes=found.stream.topic_id(found.shard, found.topic))


def _of_partition(ctx: RequestContext, group: str, found: Found | None, index: int) -> Fields:
    if found is None:
        # By name, an unknown topic is one where nothing was committed, as Kafka answers; an unknown id is an error.
        code = ErrorCode.unknown_topic_id if ctx.version >= TOPIC_IDS_SINCE else ErrorCode.none
        return _partition(index, NO_COMMIT, code)
    return _partition(index, committed_at(found, group, index) or NO_COMMIT)


def _find(ctx: RequestContext, topic: Any) -> Found | None:
    try:
        if ctx.version >= TOPIC_IDS_SINCE:
            return ctx.listener.find_id(topic.topic_id.bytes if topic.topic_id is not None else bytes(16))
        return ctx.listener.find(topic.name)
    except (NotFound, InvalidName):
        return None


def _partition(index: int, cursor: Cursor, code: ErrorCode = ErrorCode.none) -> Fields:
    return {
        "partition_index": index,
        "committed_offset": cursor.offset,
        "committed_leader_epoch": cursor.leader_epoch,
        "metadata": cursor.metadata,
        "error_code": code,
    }
