"""Fetch as a client speaks it, versions 4 to 18: partitions are packed by hand, records in the answer stay where they
are.

`fetch.py` has the other side, and the layout.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fairlead.protocol.fetch import FLEXIBLE_FROM, READ_COMMITTED, TOPIC_IDS_FROM
from fairlead.protocol.wire import Malformed, Reader, array_length, no_tags, string

VERSIONS = range(4, 19)
SESSIONS_FROM: Final = 7

_LOG_START_FROM = 5
_LEADER_EPOCH_FROM = 9
_RACK_FROM = 11
_LAST_EPOCH_FROM = 12
_REPLICA_STATE_FROM = 15

_CONSUMER = struct.pack(">i", -1)
_HEAD = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_I32 = struct.Struct(">i")
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")
_NO_LOG_START = -1

_ANSWERED_V4 = struct.Struct(">ihqq")
_ANSWERED_V5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_DIVERGING = struct.Struct(">iq")
_DIVERGING_TAG = 0
_NONE = memoryview(b"")

Topic = str | bytes
"""The topic's name; from version 13 on its id."""


class Asked(NamedTuple):
    """One partition of a request; epochs are -1 if they are not known."""

    partition: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    max_bytes: int


class Bounds(NamedTuple):
    """How long and how much."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class Answered(NamedTuple):
    """One partition of an answer."""

    partition: int
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: Sequence[tuple[int, int]]
    """Producer id and first offset of each aborted transaction in `records`."""
    records: memoryview
    diverging: tuple[int, int] | None
    """The largest epoch, and its end, after which the logs differ."""


class Answer(NamedTuple):
    """An answer."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: dict[tuple[Topic, int], Answered]


def write_request(
    version: int,
    bounds: Bounds,
    session: tuple[int, int],
    topics: Mapping[Topic, Sequence[Asked]],
    forgotten: Mapping[Topic, Sequence[int]],
    *,
    committed: bool,
) -> bytes:
    """The body; `session` is its id and epoch."""
    flexible = version >= FLEXIBLE_FROM
    end = no_tags(flexible)
    out = [b"" if version >= _REPLICA_STATE_FROM else _CONSUMER]
    out.append(_HEAD.pack(*bounds, READ_COMMITTED if committed else 0))
    out.append(_SESSION.pack(*session) if version >= SESSIONS_FROM else b"")
    out.append(array_length(len(topics), flexible))
    for topic, partitions in topics.items():
        out += [_key(topic, flexible), array_length(len(partitions), flexible)]
        for asked in partitions:
            out += [_packed(asked, version), end]
        out.append(end)
    if version >= SESSIONS_FROM:
        out.append(array_length(len(forgotten), flexible))
        for topic, numbers in forgotten.items():
            out += [_key(topic, flexible), array_length(len(numbers), flexible), *map(_I32.pack, numbers), end]
    out.append(string("", flexible) if version >= _RACK_FROM else b"")
    return b"".join([*out, end])


def _key(topic: Topic, flexible: bool) -> bytes:
    return topic if isinstance(topic, bytes) else string(topic, flexible)


def _packed(asked: Asked, version: int) -> bytes:
    partition, leader_epoch, offset, last_epoch, max_bytes = asked
    if version >= _LAST_EPOCH_FROM:
        return _PARTITION_V12.pack(partition, leader_epoch, offset, last_epoch, _NO_LOG_START, max_bytes)
    if version >= _LEADER_EPOCH_FROM:
        return _PARTITION_V9.pack(partition, leader_epoch, offset, _NO_LOG_START, max_bytes)
    if version >= _LOG_START_FROM:
        return _PARTITION_V5.pack(partition, offset, _NO_LOG_START, max_bytes)
    return _PARTITION_V4.pack(partition, offset, max_bytes)


def read_response(body: memoryview | bytes, version: int) -> Answer:
    """The answer in `body`; records are views of it.

    Raises:
        Malformed: it is not a Fetch answer of that version, or speaks of a partition twice.
    """
    reader = Reader(body, version >= FLEXIBLE_FROM)
    throttle_ms, error, session_id = reader.int32(), 0, 0
    if version >= SESSIONS_FROM:
        error, session_id = reader.int16(), reader.int32()
    partitions: dict[tuple[Topic, int], Answered] = {}
    count = 0
    for _ in reader.items():
        topic: Topic = reader.uuid() if version >= TOPIC_IDS_FROM else reader.string()
        for _ in reader.items(item_bytes_min=_ANSWERED_V4.size):
            answered = _read_partition(reader, version)
            partitions[topic, answered.partition] = answered
            count += 1
        reader.skip_tags()
    if len(partitions) != count:
        raise Malformed("an answer speaks of a partition twice")
    return Answer(throttle_ms, error, session_id, partitions)


def _read_partition(reader: Reader, version: int) -> Answered:
    if version >= _LOG_START_FROM:
        partition, error, end, stable, start = reader.numbers(_ANSWERED_V5)
    else:
        (partition, error, end, stable), start = reader.numbers(_ANSWERED_V4), -1
    aborted = []
    for _ in reader.items(item_bytes_min=_ABORTED.size):
        producer_id, first_offset = reader.numbers(_ABORTED)
        aborted.append((producer_id, first_offset))
        reader.skip_tags()
    if version >= _RACK_FROM:
        reader.int32()  # a replica nearer to us; it has nothing that the leader lacks
    records = reader.nullable_bytes()
    diverging = _read_diverging(reader)
    return Answered(partition, error, end, stable, start, aborted, _NONE if records is None else records, diverging)


def _read_diverging(reader: Reader) -> tuple[int, int] | None:
    """Pass over the tagged fields, and read the one that says where the logs differ."""
    if not reader.flexible or (reader.remaining and reader.buffer[reader.position] == 0):
        reader.skip_tags()
        return None
    found: tuple[int, int] | None = None
    for _ in reader.tags():
        tag, data = reader.uvarint(), reader.take(reader.uvarint())
        if tag == _DIVERGING_TAG:
            epoch, end = Reader(data).numbers(_DIVERGING)
            found = (epoch, end) if end >= 0 else None
    return found
