"""ElectLeaders (KIP-460): every partition is led by the one node, so none needs an election."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import code_of, message_of
from fairlead.broker.pacing import Pace
from fairlead.protocol.messages import Fields

API_KEY = 43


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each partition that is named, once. Of all partitions Kafka names only those that an election changed."""
    pace = Pace()
    topics: list[Fields] = []
    for topic in request.topic_partitions or ():
        results: list[Fields] = []
        for partition in dict.fromkeys(topic.partitions):
            results.append(_result(ctx, topic.topic, partition))
            await pace.turn()
        topics.append({"topic": topic.topic, "partition_result": results})
        await pace.turn()
    return {"error_code": ErrorCode.none, "replica_election_results": topics}


def _result(ctx: RequestContext, name: str, partition: int) -> Fields:
    try:
        ctx.listener.find(name).topic.check_partition(partition)
    except Exception as error:
        return {"partition_id": partition, "error_code": code_of(error), "error_message": message_of(error)}
    return {
        "partition_id": partition,
        "error_code": ErrorCode.election_not_needed,
        "error_message": f"the one node leads partition {partition} of {name} already",
    }
