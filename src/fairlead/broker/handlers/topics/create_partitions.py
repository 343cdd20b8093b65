"""CreatePartitions (KIP-195): more partitions, only at the topic's owner. Topics of one request share commits."""

from __future__ import annotations

from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import RefusedRequest, code_of, message_of
from fairlead.broker.pacing import in_turns
from fairlead.broker.topics.topic_changes import Change, change_all
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX

API_KEY = 37


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Raise each topic's number of partitions, or with `validate_only` say whether it could be."""
    changes = await in_turns(partial(_change, ctx), request.topics)
    outcomes = changes if request.validate_only else await change_all(changes)
    answered = zip(request.topics, outcomes, strict=True)
    return {"results": await in_turns(lambda each: _answer(each[0].name, each[1]), answered)}


def _change(ctx: RequestContext, asked: Any) -> Change | Exception:
    try:
        found = ctx.listener.find(asked.name)
        now = found.topic.partitions
        if found.topic.owner != found.stream.id:
            raise ctx.listener.not_owner(found.stream, found.topic)
        if not now < asked.count <= PARTITIONS_PER_TOPIC_MAX:
            raise RefusedRequest(
                ErrorCode.invalid_partitions,
                f"topic {asked.name} has {now} partitions, not {asked.count}: use a larger number, at most "
                f"{PARTITIONS_PER_TOPIC_MAX:,}",
            )
        topic = found.topic
        return Change(found.stream, topic.name, found.stream.growth(topic.name, asked.count, topic.incarnation))
    except Exception as error:
        return error


def _answer(name: str, outcome: object) -> dict[str, Any]:
    if isinstance(outcome, Exception):
        return {"name": name, "error_code": code_of(outcome), "error_message": message_of(outcome)}
    return {"name": name, "error_code": ErrorCode.none}
