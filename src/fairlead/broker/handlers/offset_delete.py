"""OffsetDelete: some cursors of a group, of topics that none of its members subscribes to (KIP-496)."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.cursors import has_cursors
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import code_of
from fairlead.model.errors import FairleadError
from fairlead.protocol.messages import Fields
from fairlead.protocol.wire import Malformed, Reader

API_KEY = 47


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each partition has its own answer; deleting what is not there is no error, as in Kafka."""
    try:
        subscribed = _subscribed(ctx, request.group_id)
    except Malformed:
        return {"error_code": ErrorCode.non_empty_group}
    if not subscribed and not has_cursors(ctx.listener, request.group_id):
        return {"error_code": ErrorCode.group_id_not_found}
    topics = [await _topic(ctx, request.group_id, topic, subscribed) for topic in request.topics]
    return {"error_code": ErrorCode.none, "topics": topics}


async def _topic(ctx: RequestContext, group: str, topic: Any, subscribed: set[str]) -> Fields:
    codes = [
        ErrorCode.group_subscribed_to_topic
        if topic.name in subscribed
        else await _delete(ctx, group, topic.name, partition.partition_index)
        for partition in topic.partitions
    ]
    indexes = (partition.partition_index for partition in topic.partitions)
    return {
        "name": topic.name,
        "partitions": [{"partition_index": i, "error_code": c} for i, c in zip(indexes, codes, strict=True)],
    }


async def _delete(ctx: RequestContext, group: str, name: str, partition: int) -> ErrorCode:
    try:
        found = ctx.listener.find(name)
        found.topic.check_partition(partition)
        await found.stream.delete_cursors(group, found.topic.name, partition)
    except FairleadError as error:
        return code_of(error)
    return ErrorCode.none


def _subscribed(ctx: RequestContext, group: str) -> set[str]:
    """Topics in the members' subscriptions.

    Raises:
        Malformed: a member is no consumer, so what it uses is not known.
    """
    topics: set[str] = set()
    for protocol_type, subscription in ctx.groups.subscriptions(group):
        if protocol_type != "consumer":
            raise Malformed(f"a member of protocol type {protocol_type}")
        reader = Reader(memoryview(subscription))
        reader.int16()  # version; every version begins with the topics
        topics.update(reader.string() for _ in range(reader.array_length()))
    return topics
