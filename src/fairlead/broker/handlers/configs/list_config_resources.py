"""ListConfigResources (KIP-1142): whose settings DescribeConfigs shows.

These are topics, as many as a request for all topics lists, and the broker. Version 0 asks for client metrics only
(KIP-714), which there are none of. Packed here: a few bytes ask for all topics.
"""

from __future__ import annotations

import struct
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.node import NODE_ID
from fairlead.broker.pacing import Pace
from fairlead.broker.pieces import Pieces
from fairlead.broker.settings.configs import ResourceType
from fairlead.model.limits import ANSWER_BYTES_MAX
from fairlead.protocol.wire import array_length, no_tags, string

API_KEY = 74
_TYPES_FROM = 1
_KNOWN = frozenset({ResourceType.TOPIC, ResourceType.BROKER, 8, 16, 32})
"""Kafka's: topics, brokers, their loggers, client metrics, groups."""
_FLEXIBLE = True
_HEAD = struct.Struct(">ih")
_NOT_THROTTLED = 0


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Resources of the types that are asked for; of all types if none is."""
    wanted = frozenset(request.resource_types) if ctx.version >= _TYPES_FROM else frozenset({16})
    if wanted - _KNOWN:
        return _packed(ErrorCode.unsupported_version, Pieces())
    wanted = wanted or _KNOWN
    resources = Pieces()
    if ResourceType.BROKER in wanted:
        resources.add(_resource(str(NODE_ID), ResourceType.BROKER))
    if ResourceType.TOPIC in wanted:
        await _add_topics(ctx, resources)
    if resources.size_bytes > ANSWER_BYTES_MAX:
        return _packed(ErrorCode.invalid_request, Pieces())
    return _packed(ErrorCode.none, resources)


async def _add_topics(ctx: RequestContext, resources: Pieces) -> None:
    pace = Pace()
    for name in ctx.listener.listed_names():
        resources.add(_resource(name, ResourceType.TOPIC))
        if resources.size_bytes > ANSWER_BYTES_MAX:
            return
        await pace.turn()


def _resource(name: str, kind: int) -> bytes:
    return string(name, _FLEXIBLE) + bytes((kind,)) + no_tags(_FLEXIBLE)


def _packed(error: ErrorCode, resources: Pieces) -> Packed:
    head = _HEAD.pack(_NOT_THROTTLED, error) + array_length(resources.count, _FLEXIBLE)
    return Packed([head, *resources.all(), no_tags(_FLEXIBLE)])
