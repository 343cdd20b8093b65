"""The answer to CreateTopics, packed here: kio would build and pack some thirty settings anew for each topic.

Layout: Kafka's CreateTopicsResponse.json, versions 2 to 7. Topics that were made alike share the bytes of their
settings, which are packed once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from fairlead.protocol.wire import ZERO_UUID, array_length, no_tags, string

FLEXIBLE_FROM = 5
"""This is also the first version with partitions, replication factor and settings."""
TOPIC_IDS_FROM = 7
_I16 = struct.Struct(">h")
_COUNTS = struct.Struct(">ih")
_UNKNOWN = _COUNTS.pack(-1, -1)
_NOT_THROTTLED = bytes(4)


def answer(version: int, topics: Sequence[bytes]) -> list[bytes]:
    """The whole answer in pieces, made of the pieces of its topics."""
    flexible = version >= FLEXIBLE_FROM
    return [_NOT_THROTTLED, array_length(len(topics), flexible), *topics, no_tags(flexible)]


def settings(version: int, values: Iterable[tuple[str, str, int]]) -> bytes:
    """The settings of a topic, given as (name, value, Kafka's number of the source); all can be changed, none is
    secret."""
    if version < FLEXIBLE_FROM:
        return b""
    packed = [
        string(name, True) + string(value, True) + bytes((False, source, False)) + no_tags(True)
        for name, value, source in values
    ]
    return array_length(len(packed), True) + b"".join(packed)


def made(version: int, name: str, topic_id: bytes | None, partitions: int, packed_settings: bytes) -> bytes:
    """A topic that was made, or (without an id) that could be."""
    if version < FLEXIBLE_FROM:
        return _head(version, name, topic_id, 0, None)
    return _head(version, name, topic_id, 0, None) + _COUNTS.pack(partitions, 1) + packed_settings + no_tags(True)


def refused(version: int, name: str, error: int, message: str | None) -> bytes:
    """A topic that was not made."""
    head = _head(version, name, None, error, message)
    return head if version < FLEXIBLE_FROM else head + _UNKNOWN + array_length(-1, True) + no_tags(True)


def _head(version: int, name: str, topic_id: bytes | None, error: int, message: str | None) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    known_id = (topic_id or ZERO_UUID) if version >= TOPIC_IDS_FROM else b""
    return b"".join((string(name, flexible), known_id, _I16.pack(error), string(message, flexible)))
