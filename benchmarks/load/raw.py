"""Kafka's bytes for many topics at once: batches built as arrays, answers read no further than their errors.

Layouts: Produce v9 and Fetch v12, both the first flexible version that names topics, the same for every system; record
batch format v2 (`fairlead.protocol.batch`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import crc32c
import numpy as np
from numba import njit

from benchmarks.load.content import Bytes, WrongContent
from fairlead.protocol.batch import (
    CONTROL,
    CRC_FROM,
    HEADER_BYTES,
    HEADER_DTYPE,
    LENGTH_END,
    build_batch,
    read_header,
    with_crc,
)
from fairlead.protocol.records import decompress, write_varint
from fairlead.protocol.wire import Reader, array_length, bytes_length, string

PRODUCE, PRODUCE_VERSION = 0, 9
FETCH, FETCH_VERSION = 1, 12
METADATA, METADATA_VERSION = 3, 9
VERSIONS, VERSIONS_VERSION = 18, 0
_CLIENT_ID = string("benchmark", False)
_PRODUCED_BYTES = 35
"""Of a topic in an answer to Produce, besides its name: count 1, index 4, error 2, offset 8, time 8, log start 8, no
record errors 1, no message 1, tags 1 and 1."""
_ERROR_FROM_END = -30
_PLACES = (64, 8192, 1 << 20)
"""Offset deltas below these take one, two, three bytes."""


class Refused(Exception):
    """A server answered with an error."""


def frame(api: int, version: int, correlation: int, body: bytes) -> bytes:
    """A whole request: length, header of version 2, body."""
    header = struct.pack(">hhi", api, version, correlation) + _CLIENT_ID + b"\x00"
    return b"".join((struct.pack(">i", len(header) + len(body)), header, body))


# Batches


class BatchForm:
    """Batches of `count` uncompressed records without keys, each of `record_bytes`: all are the same but for values."""

    def __init__(self, count: int, record_bytes: int) -> None:
        if count > _PLACES[-1]:
            raise ValueError(f"{count} records in a batch; at most {_PLACES[-1]}")
        blank = build_batch([(None, bytes(record_bytes))] * min(count, 1))
        blocks, self._blocks = [], []
        position, first = HEADER_BYTES, 0
        for before in _PLACES:
            rows = _rows(range(first, min(count, before)), record_bytes)
            if len(rows):
                self._blocks.append((position, *rows.shape, first))
                blocks.append(rows.ravel())
                position, first = position + rows.size, before
        self.count, self.record_bytes, self.size = count, record_bytes, position
        header = read_header(blank)._replace(
            length=position - LENGTH_END, last_offset_delta=count - 1, record_count=count
        )
        body = np.concatenate([np.empty(0, np.uint8), *blocks]).tobytes()
        self._template = np.frombuffer(with_crc(header, body)[1], np.uint8)

    def build(self, values: Bytes, timestamp_ms: int) -> Bytes:
        """A batch a row, for values of the shape (batches, count, record_bytes)."""
        out = np.tile(self._template, (len(values), 1))
        headers = out[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
        headers["base_timestamp"] = headers["max_timestamp"] = timestamp_ms
        for position, rows, row_bytes, first in self._blocks:
            block = out[:, position : position + rows * row_bytes].reshape(len(values), rows, row_bytes)
            block[:, :, -1 - self.record_bytes : -1] = values[:, first : first + rows]
        headers["crc"] = [crc32c.crc32c(row[CRC_FROM:]) for row in out]
        return out


def _rows(deltas: range, record_bytes: int) -> Bytes:
    """Records with values of zeros; their offset deltas take equally many bytes."""
    found = []
    for delta in deltas:
        body = b"\x00\x00" + write_varint(delta) + write_varint(-1) + write_varint(record_bytes)
        found.append(write_varint(len(body) + record_bytes + 1) + body + bytes(record_bytes + 1))
    return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), -1) if found else np.empty((0, 0), np.uint8)


# Produce


def produce_body(names: Sequence[bytes], batches: Bytes) -> bytes:
    """A request for partition 0 of each topic, one batch a row; acks is all. `names` are as `string` writes them."""
    length = bytes_length(batches.shape[1], True)
    before, after = b"\x02\x00\x00\x00\x00" + length, b"\x00\x00"
    out = [b"\x00" + struct.pack(">hi", -1, 60_000) + array_length(len(names), True)]
    for name, batch in zip(names, batches, strict=True):
        out += (name, before, batch.tobytes(), after)
    return b"".join([*out, b"\x00"])


def check_produce_answer(answer: bytes, names: Sequence[bytes]) -> None:
    """Every topic of the request was acknowledged.

    When all names are equally long and no error has a message, the topics in the answer are equally long too, and the
    error codes are a column. In any other case it is read field by field.

    Raises:
        Refused: a topic has an error, or there are not as many topics as in the request.
    """
    count = array_length(len(names), True)
    head = 5 + len(count)
    size = len(names[0]) + _PRODUCED_BYTES
    plain = len(answer) == head + size * len(names) + 5 and len(set(map(len, names))) == 1
    if plain and answer[5:head] == count:
        rows = np.frombuffer(answer, np.uint8, size * len(names), head).reshape(len(names), size)
        if not rows[:, _ERROR_FROM_END : _ERROR_FROM_END + 2].any():
            return
    _read_produce_answer(answer, len(names))


def _read_produce_answer(answer: bytes, topics: int) -> None:
    reader = Reader(answer, True, 4)
    reader.skip_tags()
    seen = 0
    for _ in reader.items():
        name = reader.string()
        for _ in reader.items():
            reader.int32()
            if error := reader.int16():
                raise Refused(f"{name}: error {error}")
            reader.take(24)
            for _ in reader.items():
                reader.int32()
                reader.nullable_string()
                reader.skip_tags()
            reader.nullable_string()
            reader.skip_tags()
            seen += 1
        reader.skip_tags()
    if seen != topics:
        raise Refused(f"{seen} topics in the answer to {topics}")


# Fetch


class Fetched(NamedTuple):
    """What an answer says of partition 0 of a topic."""

    name: bytes
    high_watermark: int
    records: memoryview


def fetch_body(names: Sequence[bytes], offsets: Sequence[int], partition_bytes: int, total_bytes: int) -> bytes:
    """A request for partition 0 of each topic from its offset on, without a session; answers at once."""
    out = [struct.pack(">iiiibii", -1, 0, 0, total_bytes, 0, 0, -1), array_length(len(names), True)]
    for name, offset in zip(names, offsets, strict=True):
        place = struct.pack(">iiqiqi", 0, -1, offset, -1, -1, partition_bytes)
        out += (name, b"\x02", place, b"\x00\x00")
    return b"".join([*out, b"\x01\x01\x00"])  # nothing forgotten, no rack, no tags


def read_fetch_answer(answer: bytes) -> list[Fetched]:
    """The topics of an answer.

    Raises:
        Refused: there is an error in it.
    """
    reader = Reader(answer, True, 4)
    reader.skip_tags()
    reader.int32()
    if error := reader.int16():
        raise Refused(f"error {error}")
    reader.int32()
    found = []
    for _ in reader.items():
        start = reader.position
        reader.skip_string()
        name = bytes(reader.buffer[start : reader.position])
        for _ in reader.items():
            _, error, high_watermark, _, _ = struct.unpack(">ihqqq", reader.take(30))
            if error:
                raise Refused(f"{name[1:].decode(errors='replace')}: error {error}")
            for _ in reader.items():
                reader.take(16)
                reader.skip_tags()
            reader.int32()
            found.append(Fetched(name, high_watermark, reader.nullable_bytes() or memoryview(b"")))
            reader.skip_tags()
        reader.skip_tags()
    return found


class BatchRecords(NamedTuple):
    """A batch that was read: the offset after its last one, and its records without compression."""

    next_offset: int
    record_count: int
    records: bytes | memoryview


def batches_of(records: memoryview) -> list[BatchRecords]:
    """The whole batches in a partition's part of an answer; Kafka may cut the last one."""
    found = []
    while len(records) >= HEADER_BYTES:
        header = read_header(records)
        batch, records = records[: header.size_bytes], records[header.size_bytes :]
        if len(batch) < header.size_bytes:
            break
        if crc32c.crc32c(batch[CRC_FROM:]) != header.crc:
            raise WrongContent(f"CRC of the batch at offset {header.base_offset}")
        if header.attributes & CONTROL:
            found.append(BatchRecords(header.last_offset + 1, 0, b""))
            continue
        data = batch[HEADER_BYTES:]
        plain = data if header.codec == 0 else decompress(header.codec, data)
        found.append(BatchRecords(header.last_offset + 1, header.record_count, plain))
    return found


def values_of(batches: Sequence[BatchRecords], record_bytes: int) -> Bytes:
    """The values of all records, a row each.

    Raises:
        WrongContent: a value has another length, or the records do not hold together.
    """
    data = np.frombuffer(b"".join([batch.records for batch in batches]), np.uint8)
    out = np.empty((sum(batch.record_count for batch in batches), record_bytes), np.uint8)
    if not _copy_values(data, out):
        raise WrongContent(f"records without keys and headers, with values of {record_bytes} bytes, were expected")
    return out


@njit(cache=True)
def _copy_values(data: Any, out: Any) -> bool:  # pragma: no cover - compiled
    position = 0
    for row in range(len(out)):
        length, position = _varint(data, position)
        end = position + length
        if length < 1 or end > len(data):
            return False
        position += 1
        for _ in range(2):
            _, position = _varint(data, position)
        key_bytes, position = _varint(data, position)
        value_bytes, position = _varint(data, position)
        if key_bytes != -1 or value_bytes != out.shape[1] or position + value_bytes + 1 != end:
            return False
        out[row] = data[position : position + value_bytes]
        position = end
    return position == len(data)


@njit(cache=True)
def _varint(data: Any, position: int) -> tuple[int, int]:  # pragma: no cover - compiled
    value = shift = 0
    while position < len(data) and shift < 64:
        byte: Any = np.int64(data[position])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return (value >> 1) ^ -(value & 1), position


# Metadata


def metadata_body(names: Sequence[bytes] | None) -> bytes:
    """A request for these topics, which a server may make if they are missing, or for all that there are."""
    if names is None:
        return b"\x00" * 5  # no list; nothing made, nothing of grants, no tags
    topics = b"".join([name + b"\x00" for name in names])
    return array_length(len(names), True) + topics + b"\x01\x00\x00\x00"


# Connections


class Connection:
    """A socket to a server, on which the answers come in the order of the requests."""

    def __init__(self, bootstrap: str, deadline_seconds: float) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=deadline_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self, correlation: int) -> bytes:
        """The next answer, from its correlation id on.

        Raises:
            Refused: the server closed, or this answers another request.
        """
        answer = self._exactly(int.from_bytes(self._exactly(4), "big"))
        if int.from_bytes(answer[:4], "big") != correlation:
            raise Refused(f"answer to {int.from_bytes(answer[:4], 'big')} where {correlation} was due")
        return answer

    def skip(self) -> int:
        """Take the next answer without keeping it; its bytes."""
        size = left = int.from_bytes(self._exactly(4), "big")
        buffer = memoryview(bytearray(1 << 20))
        while left:
            taken = self._socket.recv_into(buffer[: min(left, len(buffer))])
            if not taken:
                raise Refused("the server closed the connection")
            left -= taken
        return size

    def close(self) -> None:
        """Also ends a `receive` that waits in another thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        out = bytearray(count)
        view = memoryview(out)
        while view:
            taken = self._socket.recv_into(view)
            if not taken:
                raise Refused("the server closed the connection")
            view = view[taken:]
        return bytes(out)
