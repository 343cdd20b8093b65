"""AlterConfigs, the older form: the settings that are given stand, all others go back to their defaults."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import code_of, message_of
from fairlead.broker.handlers.incremental_alter_configs import change
from fairlead.broker.topic_settings import HONOURED
from fairlead.model.errors import FairleadError
from fairlead.protocol.messages import Fields

API_KEY = 33


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each resource has its own answer."""
    return {"responses": [await _alter(ctx, resource, request.validate_only) for resource in request.resources]}


async def _alter(ctx: RequestContext, resource: Any, validate_only: bool) -> Fields:
    about = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    wanted = dict.fromkeys(HONOURED) | {config.name: config.value for config in resource.configs}
    try:
        await change(ctx, resource, wanted, validate_only)
    except FairleadError as error:
        return {**about, "error_code": code_of(error), "error_message": message_of(error)}
    return {**about, "error_code": ErrorCode.none, "error_message": None}
