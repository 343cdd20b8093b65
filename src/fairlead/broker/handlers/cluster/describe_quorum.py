"""DescribeQuorum (KIP-595): who decides what the cluster is. It is the one node, which votes for itself.

What Kafka keeps in `__cluster_metadata` (topics, settings) lies in the cluster's own log here. The answer shows where
that log stands: its epoch is the number of the writer that has it open, its offsets are its commits.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.node import NODE_ID
from fairlead.broker.pacing import Pace
from fairlead.protocol.messages import Fields

API_KEY = 55
_TOPIC = "__cluster_metadata"


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Partition 0 of `__cluster_metadata`; there is no other."""
    pace = Pace()
    topics: list[Fields] = []
    for topic in request.topics:
        partitions: list[Fields] = []
        for index in dict.fromkeys(asked.partition_index for asked in topic.partitions):
            known = (topic.topic_name, index) == (_TOPIC, 0)
            partitions.append(_quorum(ctx) if known else _unknown(index))
            await pace.turn()
        topics.append({"topic_name": topic.topic_name, "partitions": partitions})
        await pace.turn()
    return {
        "error_code": ErrorCode.none,
        "topics": topics,
        "nodes": [{"node_id": NODE_ID, "listeners": []}],
    }


def _quorum(ctx: RequestContext) -> Fields:
    end = ctx.cluster.meta.announced.end
    return {
        "partition_index": 0,
        "error_code": ErrorCode.none,
        "leader_id": NODE_ID,
        "leader_epoch": ctx.cluster.meta.epoch.number,
        "high_watermark": end,
        "current_voters": [{"replica_id": NODE_ID, "log_end_offset": end}],
    }


def _unknown(index: int) -> Fields:
    return {
        "partition_index": index,
        "error_code": ErrorCode.unknown_topic_or_partition,
        "leader_id": -1,
        "leader_epoch": -1,
        "high_watermark": -1,
    }
