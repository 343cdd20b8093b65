"""Requests of messages that the protocol packs by hand and only reads: as kio writes them, but fast for many topics.

Versions are Kafka's: from 9 on Produce and Metadata are flexible.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from fairlead.protocol import metadata, produce
from fairlead.protocol.wire import ZERO_UUID, array_length, bytes_length, no_tags, string


def produce_request(request: produce.ProduceRequest, version: int) -> bytes:
    """What `produce.read_request` reads."""
    flexible = version >= produce.FLEXIBLE_FROM
    out = [string(request.transactional_id, flexible), struct.pack(">hi", request.acks, request.timeout_ms)]
    topics = list(request.topics)
    out.append(array_length(len(topics), flexible))
    for topic in topics:
        by_id = version >= produce.TOPIC_IDS_FROM
        out.append(topic.topic_id or ZERO_UUID if by_id else string(topic.name, flexible))
        out.append(array_length(len(topic.partitions), flexible))
        for index, records, *_ in topic.partitions:
            length = bytes_length(-1 if records is None else len(records), flexible)
            out += [struct.pack(">i", index), length, bytes(records or b""), no_tags(flexible)]
        out.append(no_tags(flexible))
    return b"".join([*out, no_tags(flexible)])


def metadata_request(topics: Sequence[metadata.Asked] | None, version: int, allow_auto_creation: bool = True) -> bytes:
    """What `metadata.MetadataRequest` reads; None asks for all topics."""
    flexible = version >= metadata.FLEXIBLE_FROM
    none = 0 if version == 0 else -1
    out = [array_length(none if topics is None else len(topics), flexible)]
    for asked in topics or ():
        out.append((asked.topic_id or ZERO_UUID) if version >= metadata.TOPIC_IDS_FROM else b"")
        out += [string(asked.name, flexible), no_tags(flexible)]
    out.append(bytes((allow_auto_creation,)) if version >= 4 else b"")
    out.append(b"\x00" if 8 <= version <= 10 else b"")  # whether operations on the cluster are wanted
    out.append(b"\x00" if version >= 8 else b"")  # on topics
    out.append(no_tags(flexible))
    return b"".join(out)
