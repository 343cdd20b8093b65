"""OffsetDelete: some cursors of a group, of topics that none of its members subscribes to (KIP-496).

A group whose last cursor was deleted is known until it is deleted itself.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import RefusedRequest, code_of
from fairlead.broker.group_logs.cursors import committed_at, group_key, has_cursors
from fairlead.broker.group_logs.subscriptions import subscribed_topics
from fairlead.broker.groups.values import GroupState
from fairlead.broker.pacing import Pace
from fairlead.cluster.stream import Stream
from fairlead.model.errors import FairleadError
from fairlead.protocol.messages import Fields
from fairlead.protocol.wire import Malformed
from fairlead.streamlog.values import Topic

API_KEY = 47

_Place = tuple[int, int]
"""Topic and partition by their places in the request."""


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each partition has its own answer; deleting what is not there is no error, as in Kafka."""
    try:
        subscribed = _subscribed(ctx, request.group_id)
    except Malformed:
        return {"error_code": ErrorCode.non_empty_group}
    key = group_key(ctx.listener, request.group_id)
    known = bool(subscribed) or ctx.groups.describe(key).state is not GroupState.DEAD
    if not known and not has_cursors(ctx.listener, request.group_id):
        return {"error_code": ErrorCode.group_id_not_found}
    codes, cursors = await _chosen(ctx, request, subscribed)
    for stream, places in cursors.items():
        try:
            group = request.group_id
            await stream.delete_each([(group, *place, stream.committed_at(group, *place)) for place in places.values()])
        except FairleadError as error:
            codes.update(dict.fromkeys(places, code_of(error)))
    if cursors and not has_cursors(ctx.listener, request.group_id):
        ctx.groups.remember(key)
    topics: list[Fields] = []
    for t, topic in enumerate(request.topics):
        answered = [
            {"partition_index": asked.partition_index, "error_code": codes[t, p]}
            for p, asked in enumerate(topic.partitions)
        ]
        topics.append({"name": topic.name, "partitions": answered})
    return {"error_code": ErrorCode.none, "topics": topics}


async def _chosen(
    ctx: RequestContext, request: Any, subscribed: set[str]
) -> tuple[dict[_Place, ErrorCode], dict[Stream, dict[_Place, tuple[Topic, int]]]]:
    """The code of each partition, and by stream the cursors that are to be deleted."""
    pace = Pace()
    codes: dict[_Place, ErrorCode] = {}
    cursors: dict[Stream, dict[_Place, tuple[Topic, int]]] = {}
    for t, topic in enumerate(request.topics):
        for p, asked in enumerate(topic.partitions):
            await pace.turn()
            try:
                if topic.name in subscribed:
                    raise RefusedRequest(ErrorCode.group_subscribed_to_topic, "members read it")
                found = ctx.listener.find(topic.name)
                found.topic.check_partition(asked.partition_index)
            except FairleadError as error:
                codes[t, p] = code_of(error)
                continue
            codes[t, p] = ErrorCode.none
            if committed_at(found, request.group_id, asked.partition_index) is not None:
                cursors.setdefault(found.stream, {})[t, p] = (found.topic, asked.partition_index)
    return codes, cursors


def _subscribed(ctx: RequestContext, group: str) -> set[str]:
    """Topics in the members' subscriptions.

    Raises:
        Malformed: a member is no consumer, so what it uses is not known.
    """
    said = ctx.groups.subscriptions(group)
    return {topic for member in said for topic in subscribed_topics(*member)}
