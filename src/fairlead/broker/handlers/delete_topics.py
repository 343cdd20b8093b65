"""DeleteTopics (KIP-4; by id, KIP-516): only at the topic's owner."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import Answer
from fairlead.broker.errors import code_of, message_of
from fairlead.broker.topics import Found
from fairlead.model.errors import UnknownTopic

API_KEY = 20


async def handle(ctx: RequestContext, request: Any) -> Answer:
    """Delete each topic in turn; versions below 6 name them, later ones may give ids."""
    if ctx.version < 6:
        return {"responses": [await _by_name(ctx, name) for name in request.topic_names]}
    return {
        "responses": [
            await (_by_name(ctx, item.name) if item.topic_id is None else _by_id(ctx, item.topic_id))
            for item in request.topics
        ]
    }


async def _by_name(ctx: RequestContext, name: str) -> dict[str, Any]:
    try:
        found = ctx.listener.find(name)
        await _delete(ctx, found)
        return _answer(name, _id(found), None)
    except Exception as error:
        return _answer(name, None, error)


async def _by_id(ctx: RequestContext, topic_id: UUID) -> dict[str, Any]:
    try:
        found = ctx.listener.find_id(topic_id.bytes)
        await _delete(ctx, found)
        return _answer(ctx.listener.name_of(found.stream, found.topic.name), topic_id, None)
    except UnknownTopic as error:
        return {**_answer(None, topic_id, error), "error_code": ErrorCode.unknown_topic_id}
    except Exception as error:
        return _answer(None, topic_id, error)


async def _delete(ctx: RequestContext, found: Found) -> None:
    if found.topic.owner != found.stream.id:
        raise ctx.listener.not_owner(found.stream, found.topic)
    await found.stream.delete_topic(found.topic.name)


def _id(found: Found) -> UUID:
    return UUID(bytes=found.stream.topic_id(found.shard, found.topic))


def _answer(name: str | None, topic_id: UUID | None, error: Exception | None) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": ErrorCode.none if error is None else code_of(error),
        "error_message": None if error is None else message_of(error),
    }
