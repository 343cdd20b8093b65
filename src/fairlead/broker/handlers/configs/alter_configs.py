"""AlterConfigs, the older form: the settings that are given stand, all others go back to their defaults."""

from __future__ import annotations

from typing import Any

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.handlers.configs.incremental_alter_configs import Own, change_each
from fairlead.broker.settings.topic_settings import chosen

API_KEY = 33


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each resource has its own answer."""
    return {"responses": await change_each(ctx, request, _wanted)}


def _wanted(resource: Any, own: Own) -> dict[str, str]:
    return chosen((config.name, config.value) for config in resource.configs)
