"""The answer to DescribeConfigs, packed here: a few bytes ask for some thirty settings, which are mostly the same.

Layout: Kafka's DescribeConfigsResponse.json, versions 1 to 4. The settings of resources that are alike are packed once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from fairlead.protocol.messages import Fields, write_response
from fairlead.protocol.wire import array_length, no_tags, string

API_KEY = 32
FLEXIBLE_FROM = 4
_CODE = struct.Struct(">h")
_KIND = struct.Struct(">b")
_NOT_THROTTLED = bytes(4)


def answer(version: int, resources: Sequence[bytes]) -> list[bytes]:
    """The whole answer in pieces, made of the pieces of its resources."""
    flexible = version >= FLEXIBLE_FROM
    return [_NOT_THROTTLED, array_length(len(resources), flexible), *resources, no_tags(flexible)]


def settings(version: int, configs: Sequence[Fields]) -> bytes:
    """The settings of a resource, as kio's fields, packed."""
    nameless = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": 0,
        "resource_name": "",
        "configs": configs,
    }
    whole = write_response(API_KEY, version, {"results": [nameless]})
    flexible = version >= FLEXIBLE_FROM
    before = len(_NOT_THROTTLED + array_length(1, flexible) + resource(version, 0, "", b""))
    return whole[before : len(whole) - len(no_tags(flexible))]


def resource(version: int, kind: int, name: str, packed: bytes, error: int = 0, message: str | None = None) -> bytes:
    """One resource, with its packed settings."""
    flexible = version >= FLEXIBLE_FROM
    head = _CODE.pack(error) + string(message, flexible) + _KIND.pack(kind) + string(name, flexible)
    return head + packed
