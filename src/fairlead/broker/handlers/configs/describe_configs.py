"""DescribeConfigs: the settings of topics and of the broker."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.errors import RefusedRequest, code_of, message_of
from fairlead.broker.node import NODE_ID
from fairlead.broker.pacing import Pace
from fairlead.broker.settings.configs import Config, ResourceType, broker_configs, topic_configs
from fairlead.model.errors import FairleadError
from fairlead.model.limits import ANSWER_BYTES_MAX
from fairlead.protocol import describe_configs as packed
from fairlead.protocol.messages import Fields

API_KEY = 32


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each resource has its own answer, once."""
    pack = _Packing(ctx, request.include_synonyms, getattr(request, "include_documentation", False))
    pace = Pace()
    done: dict[tuple[int, str], bytes] = {}
    for wanted in request.resources:
        asked = (wanted.resource_type, wanted.resource_name)
        if asked not in done:
            done[asked] = pack.one(*asked, frozenset(wanted.configuration_keys or ()))
        await pace.turn()
    return Packed(packed.answer(ctx.version, list(done.values())))


class _Packing:
    """Packs what resources have; the settings of topics that are alike only once."""

    def __init__(self, ctx: RequestContext, synonyms: bool, documented: bool) -> None:
        self._ctx = ctx
        self._synonyms = synonyms
        self._documented = documented
        self._settings: dict[tuple[Config, ...], bytes] = {}
        self._left_bytes = ANSWER_BYTES_MAX

    def one(self, kind: int, name: str, names: frozenset[str]) -> bytes:
        version = self._ctx.version
        try:
            if self._left_bytes < 0:
                raise RefusedRequest(ErrorCode.invalid_request, "the answer is too long: ask for fewer at once")
            configs = _configs(self._ctx, kind, name)
        except FairleadError as error:
            nothing = packed.settings(version, ())
            return packed.resource(version, kind, name, nothing, code_of(error), message_of(error))
        made = packed.resource(version, kind, name, self._packed(tuple(configs), names))
        self._left_bytes -= len(made)
        return made

    def _packed(self, configs: tuple[Config, ...], names: frozenset[str]) -> bytes:
        chosen = tuple(config for config in configs if config.name in names) if names else configs
        found = self._settings.get(chosen)
        if found is None:
            fields = [_fields(config, self._synonyms, self._documented) for config in chosen]
            found = self._settings[chosen] = packed.settings(self._ctx.version, fields)
        return found


def _configs(ctx: RequestContext, kind: int, name: str) -> list[Config]:
    if kind == ResourceType.TOPIC:
        found = ctx.listener.find(name)
        return topic_configs(found.stream, found.topic, ctx.settings)
    if kind == ResourceType.BROKER and name in {"", str(NODE_ID)}:
        # "" asks for the dynamic defaults of all brokers, of which there are none
        return broker_configs(ctx.listener.home, ctx.settings, ctx.connection.advertised) if name else []
    if kind == ResourceType.BROKER:
        raise RefusedRequest(ErrorCode.invalid_request, f"broker {name}: the one node is {NODE_ID}")
    why = f"resource type {kind}: only topics (2) and the broker (4) have settings"
    raise RefusedRequest(ErrorCode.invalid_request, why)


def _fields(config: Config, synonyms: bool, documented: bool) -> Fields:
    values = config.synonyms if synonyms else ()
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "config_source": config.source,
        "is_sensitive": False,
        "synonyms": [{"name": config.name, "value": value, "source": source} for value, source in values],
        "config_type": config.type,
        "documentation": config.documentation if documented else None,
    }
