"""The answer to ListOffsets, packed here: a monitor asks for a hundred thousand partitions at once.

Layout: Kafka's ListOffsetsResponse.json, versions 1 to 11.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from fairlead.protocol.wire import array_length, no_tags, string

_THROTTLE_FROM = 2
_LEADER_EPOCH_FROM = 4
_FLEXIBLE_FROM = 6
_PARTITION = struct.Struct(">ihqq")
_I32 = struct.Struct(">i")


def answer(version: int, topics: Sequence[bytes]) -> list[bytes]:
    """The whole answer in pieces, made of the pieces of its topics."""
    flexible = version >= _FLEXIBLE_FROM
    throttle = bytes(4) if version >= _THROTTLE_FROM else b""
    return [throttle + array_length(len(topics), flexible), *topics, no_tags(flexible)]


def topic(version: int, name: str, partitions: Sequence[bytes]) -> bytes:
    """One topic."""
    flexible = version >= _FLEXIBLE_FROM
    return b"".join((string(name, flexible), array_length(len(partitions), flexible), *partitions, no_tags(flexible)))


def partition(
    version: int, index: int, error: int, timestamp: int = -1, offset: int = -1, leader_epoch: int = -1
) -> bytes:
    """One partition."""
    packed = _PARTITION.pack(index, error, timestamp, offset)
    if version >= _LEADER_EPOCH_FROM:
        packed += _I32.pack(leader_epoch)
    return packed + no_tags(version >= _FLEXIBLE_FROM)
