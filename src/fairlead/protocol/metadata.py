"""Metadata, by hand: the answer about many topics is built topic by topic, so that its builder can pause between them.

Layout: Kafka `MetadataRequest.json`, `MetadataResponse.json`, versions 0 to 13. Version 9 is the first flexible one;
version 10 brings topic ids (KIP-516), version 12 questions for a topic by its id alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from fairlead.protocol.wire import ZERO_UUID, Reader, array_length, check_items, no_tags, string

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 10
_NULLABLE_NAME_FROM = 10
_AUTO_CREATION_FROM = 4
_LEADER_EPOCH_FROM = 7
_OFFLINE_FROM = 5
_AUTHORIZED_FROM = 8
_CLUSTER_AUTHORIZED_LAST = 10
_ERROR_FROM = 13
NOT_ASKED = -(2**31)
"""Authorized operations (KIP-430) if the client did not ask for them."""

Epochs = int | tuple[int, ...]
"""The leader epoch of all partitions of a topic, or that of each, in order."""

_I32 = struct.Struct(">i")
_I16 = struct.Struct(">h")
_PARTITION = struct.Struct(">hii")


class Asked(NamedTuple):
    """A topic that is asked for, by name or by id. Beside an id a request's name says nothing, as in Kafka: Java's
    admin client sends an empty one, others none."""

    name: str | None
    topic_id: bytes | None


class Options(NamedTuple):
    """What a request says beside its topics."""

    allow_auto_creation: bool
    """Whether missing topics may be made."""
    cluster_operations: bool
    """Whether the authorized operations of the cluster are asked for."""
    topic_operations: bool
    """Whether those of each topic are."""


class MetadataRequest:
    """A request, read topic by topic: `topics()` may be paused and continued."""

    def __init__(self, body: memoryview | bytes, version: int) -> None:
        """
        Raises:
            Malformed: the bytes do not begin as a Metadata request does; TooManyItems.
        """
        self._reader = Reader(body, version >= FLEXIBLE_FROM)
        self._version = version
        self.count = self._reader.array_length(item_bytes_min=2 if version < FLEXIBLE_FROM else 1)
        check_items("topics", self.count)
        if version == 0 and self.count == 0:
            self.count = -1

    @property
    def all_topics(self) -> bool:
        """Whether every topic is asked for."""
        return self.count < 0

    def topics(self) -> Iterator[Asked]:
        """Each topic asked for, in order.

        Raises:
            Malformed: one cannot be read.
        """
        for _ in range(self.count):
            yield self._topic()

    def _topic(self) -> Asked:
        reader = self._reader
        topic_id = reader.uuid() if self._version >= TOPIC_IDS_FROM else ZERO_UUID
        name = reader.nullable_string() if self._version >= _NULLABLE_NAME_FROM else reader.string()
        reader.skip_tags()
        return Asked(name, None) if topic_id == ZERO_UUID else Asked(None, topic_id)

    def options(self) -> Options:
        """What stands behind the topics. Call it once all of them have been read.

        Raises:
            Malformed: it cannot be read.
        """
        reader, version = self._reader, self._version
        allow = reader.boolean() if version >= _AUTO_CREATION_FROM else True
        cluster = reader.boolean() if _AUTHORIZED_FROM <= version <= _CLUSTER_AUTHORIZED_LAST else False
        return Options(allow, cluster, reader.boolean() if version >= _AUTHORIZED_FROM else False)


def begin(version: int, *, node: int, host: str, port: int, cluster_id: str, topic_count: int) -> bytes:
    """The answer up to its topics."""
    flexible = version >= FLEXIBLE_FROM
    out = [bytes(4) if version >= 3 else b"", array_length(1, flexible)]
    out += [_I32.pack(node), string(host, flexible), _I32.pack(port)]
    out.append(string(None, flexible) if version >= 1 else b"")  # rack
    out.append(no_tags(flexible))
    out.append(string(cluster_id, flexible) if version >= 2 else b"")
    out.append(_I32.pack(node) if version >= 1 else b"")  # controller
    out.append(array_length(topic_count, flexible))
    return b"".join(out)


def end(version: int, operations: int = NOT_ASKED) -> bytes:
    """The answer after its topics, with what is authorized in the cluster."""
    cluster_authorized = _AUTHORIZED_FROM <= version <= _CLUSTER_AUTHORIZED_LAST
    out = _I32.pack(operations) if cluster_authorized else b""
    out += b"\x00\x00" if version >= _ERROR_FROM else b""
    return out + no_tags(version >= FLEXIBLE_FROM)


def topic(
    version: int, node: int, name: str, topic_id: bytes, partitions: int, epochs: Epochs, operations: int = NOT_ASKED
) -> bytes:
    """One topic that exists."""
    flexible = version >= FLEXIBLE_FROM
    known_id = topic_id if version >= TOPIC_IDS_FROM else b""
    return b"".join(
        (b"\x00\x00", string(name, flexible), known_id, _rest(version, node, partitions, epochs, operations))
    )


def missing(version: int, asked: Asked, error: int) -> bytes:
    """One topic that cannot be answered, with the error code that says why."""
    flexible = version >= FLEXIBLE_FROM
    # Before version 12 the name is not nullable: a client that asked by id gets its id and an empty name.
    name = asked.name if asked.name is not None or version >= 12 else ""
    known_id = (asked.topic_id or ZERO_UUID) if version >= TOPIC_IDS_FROM else b""
    return b"".join((_I16.pack(error), string(name, flexible), known_id, _rest(version, 0, 0, 0, NOT_ASKED)))


@lru_cache(maxsize=4096)
def _rest(version: int, node: int, partitions: int, epochs: Epochs, operations: int) -> bytes:
    """A topic after its name and id: the same for all topics with these numbers."""
    flexible = version >= FLEXIBLE_FROM
    each = (epochs,) * partitions if isinstance(epochs, int) else epochs
    out = [b"\x00" if version >= 1 else b"", array_length(partitions, flexible)]
    out += [_partition(version, node, index, epoch) for index, epoch in enumerate(each)]
    out.append(_I32.pack(operations) if version >= _AUTHORIZED_FROM else b"")
    out.append(no_tags(flexible))
    return b"".join(out)


def _partition(version: int, node: int, index: int, epoch: int) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    one_node = array_length(1, flexible) + _I32.pack(node)
    out = [_PARTITION.pack(0, index, node)]
    out.append(_I32.pack(epoch) if version >= _LEADER_EPOCH_FROM else b"")
    out += [one_node, one_node]  # replicas, in-sync replicas
    out.append(array_length(0, flexible) if version >= _OFFLINE_FROM else b"")
    out.append(no_tags(flexible))
    return b"".join(out)
