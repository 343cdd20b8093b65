"""DeleteTopics (KIP-4; by id, KIP-516): only at the topic's owner. Topics of one request share commits."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import code_of, message_of
from fairlead.broker.pacing import in_turns
from fairlead.broker.topics.topic_changes import Change, Outcome, change_all
from fairlead.broker.topics.topics import Found
from fairlead.model.errors import UnknownTopic
from fairlead.streamlog.requests.topics import delete_topic

API_KEY = 20


class _Asked(NamedTuple):
    """A topic by its name, or by its id from version 6 on."""

    name: str | None
    topic_id: UUID | None


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Delete the topics, each with its own answer."""
    if ctx.version < 6:
        asked = [_Asked(name, None) for name in request.topic_names]
    else:
        asked = [_Asked(item.name, item.topic_id) for item in request.topics]
    found = await in_turns(partial(_found, ctx), asked)
    outcomes = await change_all(await in_turns(_change, found))
    return {"responses": await in_turns(lambda each: _answer(ctx, *each), zip(asked, found, outcomes, strict=True))}


def _found(ctx: RequestContext, asked: _Asked) -> Found | Exception:
    try:
        found = ctx.listener.find(asked.name or "") if asked.topic_id is None else _by_id(ctx, asked.topic_id)
        if found.topic.owner != found.stream.id:
            raise ctx.listener.not_owner(found.stream, found.topic)
        return found
    except Exception as error:
        return error


def _by_id(ctx: RequestContext, topic_id: UUID) -> Found:
    return ctx.listener.find_id(topic_id.bytes)


def _change(found: Found | Exception) -> Change | Exception:
    if isinstance(found, Exception):
        return found
    topic = found.topic
    request = partial(delete_topic, name=topic.name, incarnation=topic.incarnation)
    return Change(found.stream, topic.name, request)


def _answer(ctx: RequestContext, asked: _Asked, found: Found | Exception, outcome: Outcome) -> dict[str, Any]:
    if isinstance(found, Exception) or isinstance(outcome, Exception):
        error = found if isinstance(found, Exception) else outcome
        assert isinstance(error, Exception)
        unknown_id = asked.topic_id is not None and isinstance(error, UnknownTopic)
        return {
            "name": asked.name,
            "topic_id": asked.topic_id,
            "error_code": ErrorCode.unknown_topic_id if unknown_id else code_of(error),
            "error_message": message_of(error),
        }
    return {
        "name": ctx.listener.name_of(found.stream, found.topic.name) if asked.name is None else asked.name,
        "topic_id": asked.topic_id or UUID(bytes=found.stream.topic_id(found.shard, found.topic)),
        "error_code": ErrorCode.none,
        "error_message": None,
    }
