"""OffsetForLeaderEpoch (KIP-101, KIP-320): where a topic epoch ended, for consumers that check what they have read."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import code_of
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.partitions import check_epoch
from fairlead.protocol.messages import Fields
from fairlead.streamlog.ownership.lost import end_of_epoch

API_KEY = 23


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """The largest epoch not above the one asked for, and its end offset."""
    pace = Pace()
    topics: list[Fields] = []
    for topic in request.topics:
        partitions: list[Fields] = []
        for asked in topic.partitions:
            partitions.append(_answered(ctx, topic.topic, asked))
            await pace.turn()
        topics.append({"topic": topic.topic, "partitions": partitions})
        await pace.turn()
    return {"topics": topics}


def _answered(ctx: RequestContext, name: str, asked: Any) -> dict[str, Any]:
    try:
        found = ctx.listener.find(name)
        found.topic.check_partition(asked.partition)
        check_epoch(found, asked.partition, getattr(asked, "current_leader_epoch", -1))
    except Exception as error:
        return {"error_code": code_of(error), "partition": asked.partition}
    number = found.topic.number
    state, cuts = (
        found.shard.state.partition(number, asked.partition),
        found.shard.state.cuts_of(number, asked.partition),
    )
    epoch, end = end_of_epoch(found.topic, state, cuts, asked.leader_epoch)
    return {"error_code": ErrorCode.none, "partition": asked.partition, "leader_epoch": epoch, "end_offset": end}
