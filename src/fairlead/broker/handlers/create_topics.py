"""CreateTopics (KIP-4): a topic in the stream that its name says.

Any replication factor is taken and 1 reported; a replica assignment is taken for its number of partitions. Topics of
one request are made one after the other, each with its own answer.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import Answer
from fairlead.broker.errors import Refused, code_of, message_of
from fairlead.broker.topic_settings import chosen, in_force
from fairlead.cluster.stream import Stream
from fairlead.model.errors import AlreadyExists
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.streamlog.values import Topic

API_KEY = 19

_SET_ON_TOPIC = 1
_DEFAULT = 5


async def handle(ctx: RequestContext, request: Any) -> Answer:
    """Make each topic, or with `validate_only` say what would become of it."""
    asked = Counter(topic.name for topic in request.topics)
    only = getattr(request, "validate_only", False)
    return {"topics": [await _answered(ctx, topic, asked[topic.name] > 1, only) for topic in request.topics]}


async def _answered(ctx: RequestContext, asked: Any, twice: bool, validate_only: bool) -> dict[str, Any]:
    try:
        if twice:
            raise Refused(ErrorCode.invalid_request, f"topic {asked.name} is named twice in one request")
        return await _create(ctx, asked, validate_only)
    except Exception as error:
        return {"name": asked.name, "error_code": code_of(error), "error_message": message_of(error)}


async def _create(ctx: RequestContext, asked: Any, validate_only: bool) -> dict[str, Any]:
    stream, name = ctx.listener.resolve(asked.name)
    partitions = _partitions(stream, asked)
    configs = chosen(stream, ctx.settings, [(config.name, config.value) for config in asked.configs])
    if validate_only:
        if stream.find_topic(name) is not None:
            raise AlreadyExists(f"topic {name} exists in stream {stream.path}")
        return _made(ctx, asked.name, stream, partitions, configs, None)
    topic = await stream.create_topic(name, partitions, configs)
    return _made(ctx, asked.name, stream, topic.partitions, configs, _id(stream, topic))


def _partitions(stream: Stream, asked: Any) -> int:
    """How many partitions are asked for: -1 stands for the stream's default (KIP-464)."""
    count: int = len(asked.assignments) or asked.num_partitions
    if count == -1:
        return stream.settings.default_partitions
    if not 1 <= count <= PARTITIONS_PER_TOPIC_MAX:
        raise Refused(ErrorCode.invalid_partitions, f"{count} partitions: use 1 to {PARTITIONS_PER_TOPIC_MAX}")
    if asked.assignments and {item.partition_index for item in asked.assignments} != set(range(count)):
        raise Refused(ErrorCode.invalid_replica_assignment, "partitions of an assignment are numbered from 0")
    return count


def _id(stream: Stream, topic: Topic) -> UUID:
    return UUID(bytes=stream.topic_id(stream.shard_for(topic.name), topic))


def _made(
    ctx: RequestContext, name: str, stream: Stream, partitions: int, configs: dict[str, str], topic_id: UUID | None
) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": ErrorCode.none,
        "error_message": None,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [
            {
                "name": key,
                "value": value,
                "read_only": False,
                "config_source": _SET_ON_TOPIC if key in configs else _DEFAULT,
                "is_sensitive": False,
            }
            for key, value in in_force(stream, configs, ctx.settings).items()
        ],
    }
