"""CreatePartitions (KIP-195): more partitions, only at the topic's owner."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import Answer
from fairlead.broker.errors import Refused, code_of, message_of
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX

API_KEY = 37


async def handle(ctx: RequestContext, request: Any) -> Answer:
    """Raise each topic's number of partitions, or with `validate_only` say whether it could be."""
    return {"results": [await _answered(ctx, topic, request.validate_only) for topic in request.topics]}


async def _answered(ctx: RequestContext, asked: Any, validate_only: bool) -> dict[str, Any]:
    try:
        await _raise(ctx, asked, validate_only)
        return {"name": asked.name, "error_code": ErrorCode.none}
    except Exception as error:
        return {"name": asked.name, "error_code": code_of(error), "error_message": message_of(error)}


async def _raise(ctx: RequestContext, asked: Any, validate_only: bool) -> None:
    found = ctx.listener.find(asked.name)
    now = found.topic.partitions
    if found.topic.owner != found.stream.id:
        raise ctx.listener.not_owner(found.stream, found.topic)
    if not now < asked.count <= PARTITIONS_PER_TOPIC_MAX:
        raise Refused(
            ErrorCode.invalid_partitions,
            f"topic {asked.name} has {now} partitions; {asked.count} is not more, or above {PARTITIONS_PER_TOPIC_MAX}",
        )
    if not validate_only:
        await found.stream.set_partitions(found.topic.name, asked.count)
