"""IncrementalAlterConfigs (KIP-339): set or reset settings of topics, add to their lists or take from them, at their
owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import RefusedRequest, code_of, message_of
from fairlead.broker.pacing import Pace
from fairlead.broker.settings.configs import ResourceType
from fairlead.broker.settings.kinds import ConfigType
from fairlead.broker.settings.topic_settings import SETTINGS, check, check_together
from fairlead.model.errors import FairleadError
from fairlead.protocol.messages import Fields
from fairlead.streamlog.topic_policy import items_of

API_KEY = 44

Own = Mapping[str, str]
Wanted = Callable[[Any, Own], dict[str, str]]
"""(a resource of the request, the topic's own settings) → those that it is to have; each is checked by itself."""


class Operation(IntEnum):
    """Kafka's numbers of what is done to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each resource has its own answer; a resource changes as a whole or not at all."""
    return {"responses": await change_each(ctx, request, _wanted)}


async def change_each(ctx: RequestContext, request: Any, wanted: Wanted) -> list[Fields]:
    """The answers for a request's resources, each given the settings that `wanted` reads from it."""
    pace = Pace()
    answers: list[Fields] = []
    for resource in request.resources:
        answers.append(await _change(ctx, resource, wanted, request.validate_only))
        await pace.turn()
    return answers


async def _change(ctx: RequestContext, resource: Any, wanted: Wanted, validate_only: bool) -> Fields:
    about = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        await _give(ctx, resource, wanted, validate_only)
    except FairleadError as error:
        return {**about, "error_code": code_of(error), "error_message": message_of(error)}
    return {**about, "error_code": ErrorCode.none, "error_message": None}


async def _give(ctx: RequestContext, resource: Any, wanted: Wanted, validate_only: bool) -> None:
    """Give a topic the settings that `wanted` makes of its own.

    Raises:
        Refused: not a topic, or no setting or value of Kafka's. UnknownTopic, NotOwner and so on.
    """
    if resource.resource_type != ResourceType.TOPIC:
        message = "only topics have settings that can be changed; the server's are in its settings file"
        raise RefusedRequest(ErrorCode.invalid_request, message)
    found = ctx.listener.find(resource.resource_name)
    if found.topic.owner != found.stream.id:
        raise ctx.listener.not_owner(found.stream, found.topic)

    def changed(own: Own) -> dict[str, str]:
        configs = wanted(resource, own)
        check_together(configs)
        return configs

    changed(found.topic.configs)
    if not validate_only:
        await found.stream.change_configs(found.topic.name, changed)


def _wanted(resource: Any, own: Own) -> dict[str, str]:
    configs = dict(own)
    for asked in resource.configs:
        name, value = asked.name, asked.value
        if asked.config_operation == Operation.DELETE:
            configs.pop(name, None)
        elif asked.config_operation == Operation.SET:
            configs[name] = check(name, value)
        else:
            configs[name] = check(name, _listed(name, check(name, value), asked.config_operation, configs))
    return configs


def _listed(name: str, value: str, operation: int, configs: Own) -> str:
    """A list with the items of `value` added or taken away.

    Raises:
        Refused: INVALID_CONFIG, the setting is no list, or nothing of the kind can be done to it.
    """
    setting = SETTINGS[name]
    if operation not in {Operation.APPEND, Operation.SUBTRACT}:
        raise RefusedRequest(ErrorCode.invalid_config, f"{name}: operation {operation} is not known")
    what = Operation(operation).name
    if setting.type is not ConfigType.LIST:
        raise RefusedRequest(ErrorCode.invalid_config, f"Can't {what} to key {name} because its type is not LIST.")
    before, items = items_of(configs.get(name, setting.default)), items_of(value)
    if operation == Operation.APPEND:
        return ",".join(dict.fromkeys([*before, *items]))
    return ",".join(item for item in before if item not in items)
