"""OffsetForLeaderEpoch (KIP-101, KIP-320): where a topic epoch ended, for consumers that check what they have read.

As Kafka's `LeaderEpochFileCache.endOffsetFor`; a topic's current epoch counts from the log's end before its first
record, as a new leader's does.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import code_of
from fairlead.broker.partitions import check_epoch, check_partition
from fairlead.streamlog.values import PartitionState

API_KEY = 23
_UNDEFINED = (-1, -1)


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """The largest epoch not above the one asked for, and its end offset."""
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [_answered(ctx, topic.topic, asked) for asked in topic.partitions]}
            for topic in request.topics
        ]
    }


def _answered(ctx: RequestContext, name: str, asked: Any) -> dict[str, Any]:
    try:
        found = ctx.listener.find(name)
        check_partition(found.topic, asked.partition)
        check_epoch(found.topic, getattr(asked, "current_leader_epoch", -1))
    except Exception as error:
        return {"error_code": code_of(error), "partition": asked.partition}
    state = found.shard.state.partition(found.topic.number, asked.partition)
    epoch, end = end_of_epoch(state, found.topic.epoch, asked.leader_epoch)
    return {"error_code": ErrorCode.none, "partition": asked.partition, "leader_epoch": epoch, "end_offset": end}


def end_of_epoch(state: PartitionState, current: int, asked: int) -> tuple[int, int]:
    """(epoch, end offset) for the largest epoch not above `asked`; (-1, -1) if `asked` is above the current one."""
    history = list(state.history)
    if not history or history[-1][0] < current:
        history.append((current, state.end))
    if asked < 0 or asked > history[-1][0]:
        return _UNDEFINED
    floor, end = asked, state.end
    for epoch, first in history:
        if epoch > asked:
            end = first
            break
        floor = epoch
    return floor, end
