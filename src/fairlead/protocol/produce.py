"""Produce, by hand: the request's record batches are views of its bytes, the answer is one piece.

Layout: Kafka `ProduceRequest.json`, `ProduceResponse.json`, versions 3 to 13. Version 9 is the first flexible one,
version 13 names topics by id (KIP-516).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.protocol.wire import Malformed, Reader, array_length, bytes_length, check_items, no_tags, string, uvarint

API_KEY = 0
FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
_TRANSACTIONS_FROM = 3
_RECORD_ERRORS_FROM = 8
_LOG_START_FROM = 5

ACKS_NONE = 0
_TIMEOUT_MS = 30_000
"""Kafka's default; nobody here looks at it."""

_REQUEST_START = struct.Struct(">hhi")
_PARTITION = struct.Struct(">ihqq")
_ACKS_TIMEOUT = struct.Struct(">hi")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_FOLLOWS_PENDING = 4000
"""Tag of a partition in a request that a copy passes on to the owner; Kafka counts its tags from 0."""
_FOLLOWS_PENDING_ALONE = b"\x01" + uvarint(_FOLLOWS_PENDING) + b"\x00"
"""One tag, of no bytes."""


class ProducePartition(NamedTuple):
    """What is produced to one partition."""

    partition: int
    records: memoryview | None
    follows_pending: bool = False
    """Of a request that a copy passes on: what lacks before it was put aside there."""


class ProduceTopic(NamedTuple):
    """What is produced to one topic, named or by id."""

    name: str | None
    topic_id: bytes | None
    partitions: list[ProducePartition]


class ProduceRequest(NamedTuple):
    """A request to append record batches."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Iterable[ProduceTopic]
    """Of a request that was read: read one by one, once. Raises: Malformed."""


class PartitionProduceResponse(NamedTuple):
    """What became of one partition's records; offsets are -1 with an error, `append_time_ms` is -1 with CreateTime."""

    partition: int
    error: int
    base_offset: int = -1
    append_time_ms: int = -1
    log_start: int = -1
    message: str | None = None
    record_errors: Sequence[tuple[int, str]] = ()
    """Records for which the batch is refused: place in the batch and reason."""


class TopicProduceResponse(NamedTuple):
    """The partitions of one topic of the request, named as there."""

    name: str | None
    topic_id: bytes | None
    partitions: list[PartitionProduceResponse]


def read_request(body: memoryview | bytes, version: int) -> ProduceRequest:
    """The request in `body`; records stay views of it.

    Raises:
        Malformed: it is not a Produce request of that version.
    """
    reader = Reader(body, version >= FLEXIBLE_FROM)
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.numbers(_ACKS_TIMEOUT)
    count = reader.items()
    check_items("topics", len(count))
    return ProduceRequest(transactional_id, acks, timeout_ms, (_read_topic(reader, version) for _ in count))


def wants_no_answer(frame: memoryview) -> bool:
    """Whether a whole request, of any API and with its header, is a Produce with acks of none."""
    try:
        reader = Reader(frame)
        api_key, version, _ = reader.numbers(_REQUEST_START)
        if api_key != API_KEY or version < _TRANSACTIONS_FROM:
            return False
        reader.legacy_nullable_string()  # the client id
        reader.flexible = version >= FLEXIBLE_FROM
        reader.skip_tags()
        reader.nullable_string()  # the transactional id
        return reader.int16() == ACKS_NONE
    except Malformed:
        return False


def _read_topic(reader: Reader, version: int) -> ProduceTopic:
    by_id = version >= TOPIC_IDS_FROM
    name, topic_id = (None, reader.uuid()) if by_id else (reader.string(), None)
    count = reader.items(item_bytes_min=5)
    if len(count) > PARTITIONS_PER_TOPIC_MAX:
        raise Malformed(f"{len(count)} partitions of one topic; none has more than {PARTITIONS_PER_TOPIC_MAX}")
    partitions = [_read_partition(reader) for _ in count]
    reader.skip_tags()
    return ProduceTopic(name, topic_id, partitions)


def _read_partition(reader: Reader) -> ProducePartition:
    return ProducePartition(reader.int32(), reader.nullable_bytes(), reader.has_tag(_FOLLOWS_PENDING))


def write_response(topics: Sequence[TopicProduceResponse], version: int) -> bytes:
    """The answer's body."""
    flexible = version >= FLEXIBLE_FROM
    end = b"\x00" if flexible else b""
    out = [array_length(len(topics), flexible)]
    for topic in topics:
        out += [_topic_key(topic.name, topic.topic_id, version), array_length(len(topic.partitions), flexible)]
        for partition in topic.partitions:
            _write_partition(out, partition, version, flexible)
        out.append(end)
    out += [b"\x00\x00\x00\x00", end]  # throttle time
    return b"".join(out)


def write_request(
    batches: Sequence[tuple[bytes, int, memoryview | bytes]], follow_pending: Collection[int] = ()
) -> list[memoryview | bytes]:
    """The body of a request by topic ids, with acks of all, in pieces: one batch each for these ids and partitions.
    `follow_pending` are the places of those that follow what was put aside."""
    head = string(None, True) + _ACKS_TIMEOUT.pack(-1, _TIMEOUT_MS) + array_length(len(batches), True)
    out: list[memoryview | bytes] = []
    for place, (topic_id, partition, data) in enumerate(batches):
        before = topic_id + array_length(1, True) + _I32.pack(partition) + bytes_length(len(data), True)
        out += [head + before, data]
        head = (_FOLLOWS_PENDING_ALONE if place in follow_pending else b"\x00") + b"\x00"  # and no tags of the topic
    return [*out, head + b"\x00"]


def read_response(body: memoryview | bytes) -> list[tuple[bytes, PartitionProduceResponse]]:
    """The answer to such a request: id and outcome of each batch.

    Raises:
        Malformed: it is not that.
    """
    reader = Reader(body, True)
    found: list[tuple[bytes, PartitionProduceResponse]] = []
    for _ in reader.items(item_bytes_min=18):
        topic_id = reader.uuid()
        found += [(topic_id, _read_outcome(reader)) for _ in reader.items(item_bytes_min=30)]
        reader.skip_tags()
    return found


def _read_outcome(reader: Reader) -> PartitionProduceResponse:
    partition, error, base_offset, append_time_ms = reader.numbers(_PARTITION)
    log_start = reader.int64()
    records = []
    for _ in reader.items(item_bytes_min=6):
        records.append((reader.int32(), reader.nullable_string() or ""))
        reader.skip_tags()
    message = reader.nullable_string()
    reader.skip_tags()
    return PartitionProduceResponse(partition, error, base_offset, append_time_ms, log_start, message, records)


def _write_partition(out: list[bytes], partition: PartitionProduceResponse, version: int, flexible: bool) -> None:
    out.append(_PARTITION.pack(partition.partition, partition.error, partition.base_offset, partition.append_time_ms))
    if version >= _LOG_START_FROM:
        out.append(_I64.pack(partition.log_start))
    if version >= _RECORD_ERRORS_FROM:
        out.append(array_length(len(partition.record_errors), flexible))
        for place, why in partition.record_errors:
            out += [_I32.pack(place), string(why, flexible), no_tags(flexible)]
        out.append(string(partition.message, flexible))
    if flexible:
        out.append(b"\x00")


def _topic_key(name: str | None, topic_id: bytes | None, version: int) -> bytes:
    if version >= TOPIC_IDS_FROM:
        assert topic_id is not None
        return topic_id
    return string(name, version >= FLEXIBLE_FROM)
