"""ListConfigResources (KIP-1142): whose settings DescribeConfigs shows.

These are topics, as many as a request for all topics lists, and the broker. Version 0 asks for client metrics only
(KIP-714), which there are none of. Packed here: a few bytes ask for all topics.
"""

from __future__ import annotations

import struct
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.configs import ResourceType
from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.node import NODE_ID
from fairlead.broker.pacing import Pace
from fairlead.model.errors import UnknownStream
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
        return _packed(ErrorCode.unsupported_version, [])
    wanted = wanted or _KNOWN
    resources = [_resource(str(NODE_ID), ResourceType.BROKER)] if ResourceType.BROKER in wanted else []
    if ResourceType.TOPIC in wanted:
        resources += await _topics(ctx)
    if sum(map(len, resources)) > ANSWER_BYTES_MAX:
        return _packed(ErrorCode.invalid_request, [])
    return _packed(ErrorCode.none, resources)


async def _topics(ctx: RequestContext) -> list[bytes]:
    try:
        stream = ctx.listener.home
    except UnknownStream:
        return []
    pace = Pace()
    resources: list[bytes] = []
    for name in stream.topic_names():
        resources.append(_resource(name, ResourceType.TOPIC))
        await pace.turn()
    return resources


def _resource(name: str, kind: int) -> bytes:
    return string(name, _FLEXIBLE) + bytes((kind,)) + no_tags(_FLEXIBLE)


def _packed(error: ErrorCode, resources: list[bytes]) -> Packed:
    head = _HEAD.pack(_NOT_THROTTLED, error) + array_length(len(resources), _FLEXIBLE)
    return Packed([head, *resources, no_tags(_FLEXIBLE)])
