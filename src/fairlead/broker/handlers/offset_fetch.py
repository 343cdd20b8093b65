"""OffsetFetch: a group's cursors, of named partitions or of all streams that the listener shows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.cursors import committed_at, committed_by
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.groups.coordinator import check_group_id
from fairlead.broker.groups.values import RefusedMember
from fairlead.broker.topics import Found
from fairlead.model.errors import InvalidName, NotFound
from fairlead.protocol.messages import Fields
from fairlead.streamlog.values import Cursor

API_KEY = 9

MANY_GROUPS_SINCE = 8
"""KIP-709."""
TOPIC_IDS_SINCE = 10
"""KIP-848."""
NO_COMMIT = Cursor(offset=-1, leader_epoch=-1, metadata="", committed_at=-1, version=0)


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Every cursor read is durable: the log shows what is committed only after its write."""
    if ctx.version >= MANY_GROUPS_SINCE:
        return {"groups": [_group(ctx, group.group_id, group.topics) for group in request.groups]}
    return _group(ctx, request.group_id, request.topics)


def _group(ctx: RequestContext, group: str, topics: Any) -> Fields:
    try:
        check_group_id(group)
    except RefusedMember as refused:
        return {"group_id": group, "topics": [], "error_code": refused.code}
    found = _all(ctx, group) if topics is None else [_topic(ctx, group, topic) for topic in topics]
    return {"group_id": group, "topics": found, "error_code": ErrorCode.none}


def _all(ctx: RequestContext, group: str) -> list[Fields]:
    topics: dict[str, list[Fields]] = {}
    ids: dict[str, Any] = {}
    for name, partition, cursor in committed_by(ctx.listener, group):
        topics.setdefault(name, []).append(_partition(partition, cursor))
        if ctx.version >= TOPIC_IDS_SINCE and name not in ids:
            ids[name] = _topic_id(ctx.listener.find(name))
    return [{"name": name, "topic_id": ids.get(name), "partitions": partitions} for name, partitions in topics.items()]


def _topic_id(found: Found) -> UUID:
    return UUID(bytes=found.stream.topic_id(found.shard, found.topic))


def _topic(ctx: RequestContext, group: str, topic: Any) -> Fields:
    found = _find(ctx, topic)
    return {
        "name": getattr(topic, "name", ""),
        "topic_id": getattr(topic, "topic_id", None),
        "partitions": [_of_partition(ctx, group, found, index) for index in topic.partition_indexes],
    }


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
