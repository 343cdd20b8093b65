"""Fetch, by hand: the answer is a list of pieces in which the record batches lie untouched and uncopied.

Layout: Kafka `FetchRequest.json`, `FetchResponse.json`, versions 4 to 18. Version 12 is the first flexible one,
version 13 names topics by id (KIP-516). Version 7 brings sessions (KIP-227); session id 0 is none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.protocol.wire import Malformed, Reader, array_length, bytes_length, check_items, string

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
_SESSIONS_FROM = 7
_LOG_START_FROM = 5
_LEADER_EPOCH_FROM = 9
_LAST_EPOCH_FROM = 12
_READ_REPLICA_FROM = 11
_REPLICA_STATE_FROM = 15

READ_COMMITTED = 1

Part = bytes | bytearray | memoryview


class FetchPartition(NamedTuple):
    """Where to read in one partition; epochs are -1 if the client does not say."""

    partition: int
    current_leader_epoch: int
    offset: int
    last_fetched_epoch: int
    max_bytes: int


class FetchTopic(NamedTuple):
    """The partitions of one topic, named or by id."""

    name: str | None
    topic_id: bytes | None
    partitions: list[FetchPartition]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A request to read."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    session_id: int
    session_epoch: int
    topics: Iterator[bytes]
    """Each topic's part as it came, one by one: a client asks nearly the same again and again, and a part that came
    before need not be read twice. `read_topic` reads one. Raises: Malformed."""
    forgotten: Iterator[tuple[str | bytes, Sequence[int]]]
    """Topics by name or id, with the partitions that leave the session. Read it once all topics are read. Raises:
    Malformed."""


class FetchPartitionResponse(NamedTuple):
    """One partition's part of the answer; with an error there are no records and the offsets are -1."""

    partition: int
    error: int
    high_watermark: int = -1
    log_start: int = -1
    batches: Sequence[Part] = ()
    stable_end: int = -1
    """The last stable offset."""
    aborted: Sequence[tuple[int, int, int]] = ()
    """(producer id, first offset, …) of transactions whose records a reader of committed ones must leave out."""


class FetchTopicResponse(NamedTuple):
    """The partitions of one topic of the request, named as there."""

    name: str | None
    topic_id: bytes | None
    partitions: Sequence[FetchPartitionResponse]


def read_request(body: memoryview | bytes, version: int) -> FetchRequest:
    """The request in `body`.

    Raises:
        Malformed: it is not a Fetch request of that version.
    """
    reader = Reader(body, version >= FLEXIBLE_FROM)
    if version < _REPLICA_STATE_FROM:
        reader.int32()  # replica id
    max_wait_ms, min_bytes, max_bytes, isolation = reader.int32(), reader.int32(), reader.int32(), reader.int8()
    session_id, session_epoch = (reader.int32(), reader.int32()) if version >= _SESSIONS_FROM else (0, -1)
    topics, forgotten = _take_topics(reader, version), _take_forgotten(reader, version)
    # The rack and tagged fields follow: they are about followers.
    return FetchRequest(max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, topics, forgotten)


def _take_topics(reader: Reader, version: int) -> Iterator[bytes]:
    count = reader.items()
    check_items("topics", len(count))
    partitions = 0
    for _ in count:
        data, named = _take_topic(reader, version)
        partitions += named
        check_items("partitions", partitions)
        yield data


def _take_forgotten(reader: Reader, version: int) -> Iterator[tuple[str | bytes, Sequence[int]]]:
    count = reader.items() if version >= _SESSIONS_FROM else range(0)
    check_items("topics", len(count))
    named = 0
    for _ in count:
        key = reader.uuid() if version >= TOPIC_IDS_FROM else reader.string()
        partitions = len(reader.items(item_bytes_min=4))
        named += partitions
        check_items("partitions", named)
        numbers = struct.unpack(f">{partitions}i", reader.take(4 * partitions))
        reader.skip_tags()
        yield key, numbers


def _take_topic(reader: Reader, version: int) -> tuple[bytes, int]:
    """The bytes of one topic, found only by its lengths, and how many partitions it names."""
    start = reader.position
    if version >= TOPIC_IDS_FROM:
        reader.take(16)
    else:
        reader.skip_string()
    form = _partition_form(version)
    count = len(reader.items(item_bytes_min=form.size))
    if count > PARTITIONS_PER_TOPIC_MAX:
        raise Malformed(f"{count} partitions of one topic; none has more than {PARTITIONS_PER_TOPIC_MAX}")
    if reader.flexible:
        for _ in range(count):
            reader.take(form.size)
            reader.skip_tags()
        reader.skip_tags()
    else:
        reader.take(form.size * count)
    return bytes(reader.buffer[start : reader.position]), count


def read_topic(data: bytes, version: int) -> FetchTopic:
    """One of a request's topics.

    Raises:
        Malformed: the topic's name is no text.
    """
    reader = Reader(data, version >= FLEXIBLE_FROM)
    by_id = version >= TOPIC_IDS_FROM
    name, topic_id = (None, reader.uuid()) if by_id else (reader.string(), None)
    form = _partition_form(version)
    count = len(reader.items(item_bytes_min=form.size))
    if not reader.flexible:
        every = form.iter_unpack(reader.take(form.size * count))
        return FetchTopic(name, topic_id, [_partition(values, version) for values in every])
    partitions = []
    for _ in range(count):
        partitions.append(_partition(form.unpack(reader.take(form.size)), version))
        reader.skip_tags()
    return FetchTopic(name, topic_id, partitions)


def _partition_form(version: int) -> struct.Struct:
    if version < _LOG_START_FROM:
        return _PARTITION_V4
    if version < _LEADER_EPOCH_FROM:
        return _PARTITION_V5
    return _PARTITION_V9 if version < _LAST_EPOCH_FROM else _PARTITION_V12


_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")


def _partition(values: tuple[int, ...], version: int) -> FetchPartition:
    if version >= _LAST_EPOCH_FROM:
        index, leader_epoch, offset, last_epoch, _, max_bytes = values
        return FetchPartition(index, leader_epoch, offset, last_epoch, max_bytes)
    if version >= _LEADER_EPOCH_FROM:
        index, leader_epoch, offset, _, max_bytes = values
        return FetchPartition(index, leader_epoch, offset, -1, max_bytes)
    index, offset, max_bytes = values[0], values[1], values[-1]
    return FetchPartition(index, -1, offset, -1, max_bytes)


_HEAD = struct.Struct(">ihi")
_PARTITION_HEAD = struct.Struct(">ihqq")
_I64 = struct.Struct(">q")
_ABORTED = struct.Struct(">qq")
_NO_READ_REPLICA = b"\xff\xff\xff\xff"


def write_response(
    topics: Sequence[FetchTopicResponse | bytes], version: int, isolation: int = 0, error: int = 0
) -> list[Part]:
    """The answer's body in pieces; see `FetchAnswer`."""
    answer = FetchAnswer(len(topics), version, isolation, error)
    for topic in topics:
        answer.add(topic)
    return answer.finish()


class FetchAnswer:
    """An answer that is packed topic by topic; the batches in it are the given objects, not copies."""

    def __init__(self, count: int, version: int, isolation: int = 0, error: int = 0, session_id: int = 0) -> None:
        self._version = version
        self._between = _between(version, isolation)
        self._out = _Pieces()
        self._out.add(_HEAD.pack(0, error, session_id) if version >= _SESSIONS_FROM else bytes(4))
        self._out.add(array_length(count, version >= FLEXIBLE_FROM))

    def add(self, topic: FetchTopicResponse | bytes) -> None:
        """One of the topics. Bytes were packed before, by `pack_topic` for the same version and isolation."""
        if isinstance(topic, bytes):
            self._out.add(topic)
        else:
            _write_topic(self._out, topic, self._version, self._between)

    def finish(self) -> list[Part]:
        """The whole answer."""
        self._out.add(b"\x00" if self._version >= FLEXIBLE_FROM else b"")
        return self._out.finish()


def pack_topic(topic: FetchTopicResponse, version: int, isolation: int) -> bytes:
    """One topic of an answer as `write_response` would write it."""
    out = _Pieces()
    _write_topic(out, topic, version, _between(version, isolation))
    return b"".join(out.finish())


def _between(version: int, isolation: int) -> bytes:
    """What lies between a partition's offsets and its records."""
    aborted = array_length(0 if isolation == READ_COMMITTED else -1, version >= FLEXIBLE_FROM)
    return aborted + (_NO_READ_REPLICA if version >= _READ_REPLICA_FROM else b"")


def _aborted(aborted: Sequence[tuple[int, int, int]], version: int) -> bytes:
    """The same where there are transactions to be named."""
    flexible = version >= FLEXIBLE_FROM
    tags = b"\0" if flexible else b""
    named = b"".join([_ABORTED.pack(producer_id, first) + tags for producer_id, first, _ in aborted])
    after = _NO_READ_REPLICA if version >= _READ_REPLICA_FROM else b""
    return array_length(len(aborted), flexible) + named + after


def _write_topic(out: _Pieces, topic: FetchTopicResponse, version: int, between: bytes) -> None:
    flexible = version >= FLEXIBLE_FROM
    out.add(_topic_key(topic, version) + array_length(len(topic.partitions), flexible))
    for partition in topic.partitions:
        _write_partition(out, partition, version, between)
    out.add(b"\x00" if flexible else b"")


def _write_partition(out: _Pieces, partition: FetchPartitionResponse, version: int, between: bytes) -> None:
    end, stable = partition.high_watermark, partition.stable_end
    out.add(_PARTITION_HEAD.pack(partition.partition, partition.error, end, stable))
    if version >= _LOG_START_FROM:
        out.add(_I64.pack(partition.log_start))
    flexible = version >= FLEXIBLE_FROM
    if partition.aborted:
        between = _aborted(partition.aborted, version)
    size = sum(map(len, partition.batches))
    out.add(between + bytes_length(size, flexible))
    out.carry(partition.batches)
    if flexible:
        out.add(b"\x00")


def _topic_key(topic: FetchTopicResponse, version: int) -> bytes:
    if version >= TOPIC_IDS_FROM:
        if topic.topic_id is None:
            raise Malformed("a topic id is missing")
        return topic.topic_id
    return string(topic.name, version >= FLEXIBLE_FROM)


class _Pieces:
    """Collects pieces: small bytes are joined, batches are kept as they are."""

    def __init__(self) -> None:
        self._small: list[bytes] = []
        self._out: list[Part] = []

    def add(self, data: bytes) -> None:
        self._small.append(data)

    def carry(self, batches: Sequence[Part]) -> None:
        if batches:
            self._out.append(b"".join(self._small))
            self._small = []
            self._out.extend(batches)

    def finish(self) -> list[Part]:
        self._out.append(b"".join(self._small))
        return self._out
