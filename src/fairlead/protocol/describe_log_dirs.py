"""The answer to DescribeLogDirs, packed here: a few bytes ask for the sizes of all partitions.

Layout: Kafka's DescribeLogDirsResponse.json, versions 1 to 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from fairlead.protocol.wire import array_length, no_tags, string

FLEXIBLE_FROM = 2
_ERROR_FROM = 3
_SPACE_FROM = 4
_CODE = struct.Struct(">h")
_PARTITION = struct.Struct(">iqq?")
_SPACE = struct.Struct(">qq")
_NOT_THROTTLED = bytes(4)
_NO_ERROR = bytes(2)


def answer(version: int, directories: Sequence[Sequence[bytes]]) -> list[bytes]:
    """The whole answer in pieces, made of the pieces of its directories."""
    flexible = version >= FLEXIBLE_FROM
    head = _NOT_THROTTLED + (_NO_ERROR if version >= _ERROR_FROM else b"")
    pieces = [piece for directory in directories for piece in directory]
    return [head + array_length(len(directories), flexible), *pieces, no_tags(flexible)]


def directory(
    version: int, name: str, count: int, topics: Sequence[bytes], total_bytes: int, usable_bytes: int, error: int = 0
) -> list[bytes]:
    """One directory with its `count` packed topics, and the space of which it is a part."""
    flexible = version >= FLEXIBLE_FROM
    head = _CODE.pack(error) + string(name, flexible) + array_length(count, flexible)
    space = _SPACE.pack(total_bytes, usable_bytes) if version >= _SPACE_FROM else b""
    return [head, *topics, space + no_tags(flexible)]


def topic(version: int, name: str, sizes: Iterable[tuple[int, int]]) -> bytes:
    """One topic: each partition's number and bytes. No replica is behind its leader, which is the same."""
    flexible = version >= FLEXIBLE_FROM
    tags = no_tags(flexible)
    partitions = [_PARTITION.pack(index, size_bytes, 0, False) + tags for index, size_bytes in sizes]
    return b"".join([string(name, flexible), array_length(len(partitions), flexible), *partitions, tags])
