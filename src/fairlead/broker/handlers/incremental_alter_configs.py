"""IncrementalAlterConfigs (KIP-339): set or reset settings of topics, at their owner."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.configs import ResourceType
from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import RefusedRequest, code_of, message_of
from fairlead.broker.pacing import Pace
from fairlead.broker.topic_settings import chosen
from fairlead.model.errors import FairleadError
from fairlead.protocol.messages import Fields

API_KEY = 44


class Operation(IntEnum):
    """Kafka's numbers of what is done to a setting."""

    SET = 0
    DELETE = 1


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each resource has its own answer; a resource changes as a whole or not at all."""
    return {"responses": await change_each(ctx, request, _of_resource)}


async def change_each(
    ctx: RequestContext, request: Any, wanted: Callable[[Any], dict[str, str | None]]
) -> list[Fields]:
    """The answers for a request's resources, each given the settings that `wanted` reads from it."""
    pace = Pace()
    answers: list[Fields] = []
    for resource in request.resources:
        answers.append(await _change(ctx, resource, wanted, request.validate_only))
        await pace.turn()
    return answers


async def _change(
    ctx: RequestContext, resource: Any, wanted: Callable[[Any], dict[str, str | None]], validate_only: bool
) -> Fields:
    about = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        await change(ctx, resource, wanted(resource), validate_only)
    except FairleadError as error:
        return {**about, "error_code": code_of(error), "error_message": message_of(error)}
    return {**about, "error_code": ErrorCode.none, "error_message": None}


async def change(ctx: RequestContext, resource: Any, wanted: dict[str, str | None], validate_only: bool) -> None:
    """Give a topic these settings; None resets one.

    Raises:
        Refused: not a topic, or a setting that is not honoured. UnknownTopic, NotOwner and so on.
    """
    if resource.resource_type != ResourceType.TOPIC:
        message = "only topics have settings that can be changed; the server's are in its settings file"
        raise RefusedRequest(ErrorCode.invalid_request, message)
    found = ctx.listener.find(resource.resource_name)
    given = [(name, value) for name, value in wanted.items() if value is not None]
    stored = chosen(found.stream, ctx.settings, given)
    resets = {name: None for name, value in wanted.items() if value is None and name in found.topic.configs}
    changes: dict[str, str | None] = {**stored, **resets}
    if changes and not validate_only:
        await found.stream.set_configs(found.topic.name, changes)


def _of_resource(resource: Any) -> dict[str, str | None]:
    return {config.name: _wanted(config) for config in resource.configs}


def _wanted(config: Any) -> str | None:
    if config.config_operation == Operation.DELETE:
        return None
    if config.config_operation != Operation.SET or config.value is None:
        raise RefusedRequest(
            ErrorCode.invalid_config, f"{config.name}: only SET with a value, and DELETE, are implemented"
        )
    value: str = config.value
    return value
