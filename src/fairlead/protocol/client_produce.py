"""Produce as a client speaks it, versions 3 to 13: batches are carried as pieces, answers read by hand.

`produce.py` has the other side, and the layout.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fairlead.protocol.produce import FLEXIBLE_FROM, TOPIC_IDS_FROM
from fairlead.protocol.wire import Malformed, Reader, array_length, bytes_length, no_tags, string

VERSIONS = range(3, 14)

_ACKS_TIMEOUT = struct.Struct(">hi")
_I32 = struct.Struct(">i")
_OUTCOME = struct.Struct(">ihqq")
_FLEXIBLE_OUTCOME = struct.Struct(">ihqqq")
_NOTHING_MORE = b"\x01\x00\x00"
"""No records that are refused, no message, no tags: what follows a batch that was taken."""
_LOG_START_FROM = 5
_RECORD_ERRORS_FROM = 8

Piece = bytes | memoryview
Topic = str | bytes
"""The topic's name; from version 13 on its id."""


class Outcome(NamedTuple):
    """What became of one batch."""

    error: int
    base_offset: int
    message: str


class Produced(NamedTuple):
    """An answer."""

    throttle_ms: int
    outcomes: dict[tuple[Topic, int], Outcome]


def write_request(
    topics: Mapping[Topic, Mapping[int, Sequence[Piece]]],
    version: int,
    timeout_ms: int,
    *,
    acks: int = -1,
    transactional_id: str | None = None,
) -> list[Piece]:
    """The body in pieces: one batch, in pieces, for each partition of each topic. A mapping has no partition twice:
    Kafka would answer once, with success, and drop the second batch."""
    flexible = version >= FLEXIBLE_FROM
    end = no_tags(flexible)
    small = [
        string(transactional_id, flexible),
        _ACKS_TIMEOUT.pack(acks, timeout_ms),
        array_length(len(topics), flexible),
    ]
    out: list[Piece] = []
    for topic, partitions in topics.items():
        key = topic if isinstance(topic, bytes) else string(topic, flexible)
        small += [key, array_length(len(partitions), flexible)]
        for partition, pieces in partitions.items():
            size = sum(map(len, pieces))
            small += [_I32.pack(partition), bytes_length(size, flexible)]
            out.append(b"".join(small))
            out += pieces
            small = [end]
        small.append(end)
    out.append(b"".join([*small, end]))
    return out


def read_response(body: memoryview | bytes, version: int) -> Produced:
    """The answer in `body`.

    Raises:
        Malformed: it is not a Produce answer of that version, or speaks of a partition twice.
    """
    reader = Reader(body, version >= FLEXIBLE_FROM)
    outcomes: dict[tuple[Topic, int], Outcome] = {}
    count = 0
    for _ in reader.items():
        topic: Topic = reader.uuid() if version >= TOPIC_IDS_FROM else reader.string()
        for _ in reader.items(item_bytes_min=_OUTCOME.size):
            partition, outcome = _read_outcome(reader, version)
            outcomes[topic, partition] = outcome
            count += 1
        reader.skip_tags()
    throttle_ms = reader.int32()
    if len(outcomes) != count:
        raise Malformed("an answer speaks of a partition twice")
    return Produced(throttle_ms, outcomes)


def _read_outcome(reader: Reader, version: int) -> tuple[int, Outcome]:
    if version >= FLEXIBLE_FROM:
        partition, error, base_offset, _append_time, _log_start = reader.numbers(_FLEXIBLE_OUTCOME)
        if reader.passes(_NOTHING_MORE):
            return partition, Outcome(error, base_offset, "")
    else:
        partition, error, base_offset, _append_time = reader.numbers(_OUTCOME)
        if version >= _LOG_START_FROM:
            reader.int64()
    message = _read_reason(reader) if version >= _RECORD_ERRORS_FROM else ""
    reader.skip_tags()
    return partition, Outcome(error, base_offset, message)


def _read_reason(reader: Reader) -> str:
    """What the broker says of the batch, or else of the first of its records that it names."""
    reasons = []
    for _ in reader.items(item_bytes_min=5):
        reader.int32()
        reasons.append(reader.nullable_string())
        reader.skip_tags()
    return reader.nullable_string() or next(filter(None, reasons), "")
