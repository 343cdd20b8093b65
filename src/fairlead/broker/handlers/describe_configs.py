"""DescribeConfigs: the settings of topics and of the broker."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.configs import Config, ResourceType, broker_configs, topic_configs
from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import RefusedRequest, code_of, message_of
from fairlead.broker.node import NODE_ID
from fairlead.model.errors import FairleadError
from fairlead.protocol.messages import Fields

API_KEY = 32


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each resource has its own answer."""
    documented = getattr(request, "include_documentation", False)
    return {"results": [_result(ctx, wanted, request.include_synonyms, documented) for wanted in request.resources]}


def _result(ctx: RequestContext, wanted: Any, synonyms: bool, documented: bool) -> Fields:
    about = {"resource_type": wanted.resource_type, "resource_name": wanted.resource_name}
    try:
        configs = _configs(ctx, wanted.resource_type, wanted.resource_name)
    except FairleadError as error:
        return {**about, "error_code": code_of(error), "error_message": message_of(error), "configs": []}
    names = wanted.configuration_keys
    chosen = configs if not names else [config for config in configs if config.name in set(names)]
    return {
        **about,
        "error_code": ErrorCode.none,
        "error_message": None,
        "configs": [_fields(config, synonyms, documented) for config in chosen],
    }


def _configs(ctx: RequestContext, kind: int, name: str) -> list[Config]:
    if kind == ResourceType.TOPIC:
        found = ctx.listener.find(name)
        return topic_configs(found.stream, found.topic, ctx.settings)
    if kind == ResourceType.BROKER and name in {"", str(NODE_ID)}:
        # "" asks for the dynamic defaults of all brokers, of which there are none
        return broker_configs(ctx.listener.home, ctx.settings) if name else []
    if kind == ResourceType.BROKER:
        raise RefusedRequest(ErrorCode.invalid_request, f"broker {name}: the one node is {NODE_ID}")
    why = f"resource type {kind}: only topics (2) and the broker (4) have settings"
    raise RefusedRequest(ErrorCode.invalid_request, why)


def _fields(config: Config, synonyms: bool, documented: bool) -> Fields:
    own = {"name": config.name, "value": config.value, "source": config.source}
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "config_source": config.source,
        "is_sensitive": False,
        "synonyms": [own] if synonyms else [],
        "config_type": config.type,
        "documentation": config.documentation if documented else None,
    }
