"""The records inside a v2 batch: decompress and iterate, for look-ups by time, tools and tests.

Layout of a record (Kafka `DefaultRecord`; all varints are zigzag):

    length varint | attributes int8 | timestamp delta varint | offset delta varint
    | key length varint, key | value length varint, value | header count varint, (key, value)*
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import lz4.frame
import pyarrow as pa

from fairlead.model.errors import CorruptBatch, OverlargeRecords

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""Largest size of a batch's records, decompressed: more is refused, so that a few hostile bytes cannot fill memory."""

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, key, value and header count, a byte each: no record is shorter."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by the number in the lowest three bits of a batch's attributes."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
"""Of the frame, and the oldest reader that knows it."""
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4 = CODECS.index("lz4")
_LZ4_RATIO_MAX = 256
"""No lz4 decompresses to more times its size."""
_LZ4_FLAGS_AT, _LZ4_SAYS_SIZE = 4, 0x08
"""The library would take as much memory as a frame says it needs."""
_ZSTD_LEVEL = 3
"""Kafka's default, as gzip's 6."""
_PIECE_BYTES = 1 << 20


class Record(NamedTuple):
    """One record with its absolute offset and timestamp (milliseconds)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def decompress(codec: int, data: bytes | memoryview, bytes_max: int | None = None) -> bytes:
    """The records' bytes of a batch whose attributes name `codec` (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd).

    Raises:
        CorruptBatch: unknown codec, or bytes that do not decompress.
        OverlargeRecords: more than `bytes_max` of them (`DECOMPRESSED_BYTES_MAX`).
    """
    if codec == 0:
        return bytes(data)
    most = DECOMPRESSED_BYTES_MAX if bytes_max is None else bytes_max
    if (
        codec == _LZ4
        and _LZ4_FLAGS_AT < len(data) <= most // _LZ4_RATIO_MAX
        and not data[_LZ4_FLAGS_AT] & _LZ4_SAYS_SIZE
    ):
        found = _from_lz4(data)
        if found is not None:
            return found
    return b"".join(pieces(codec, data, most, _PIECE_BYTES))


def _from_lz4(data: bytes | memoryview) -> bytes | None:
    """All of it at once, which takes a fifth of the time for 16 KB; None if it is not exactly one whole frame."""
    try:
        plain, read = lz4.frame.decompress(data, return_bytes_read=True)
    except (RuntimeError, ValueError):
        return None
    return plain if read == len(data) else None


def pieces(codec: int, data: bytes | memoryview, bytes_max: int, piece_bytes: int) -> Iterator[bytes | memoryview]:
    """The same in pieces near `piece_bytes`, each decompressed when it is asked for.

    Snappy is read in both forms in use: xerial's framing (Java), in blocks, and one raw block (librdkafka), at once.

    Raises:
        CorruptBatch, OverlargeRecords: as `decompress`.
    """
    if codec >= len(CODECS):
        raise _unknown(codec)
    if codec == 0:
        view = memoryview(data)
        found: Iterator[bytes | memoryview] = (view[at : at + piece_bytes] for at in range(0, len(view), piece_bytes))
    elif codec == 2:
        found = _snappy(memoryview(data).cast("B"), bytes_max)  # Arrow's buffers have signed bytes
    else:
        found = _stream(CODECS[codec], data, piece_bytes)
    room = bytes_max
    try:
        for piece in found:
            room -= len(piece)
            if room < 0:
                raise _too_large(bytes_max)
            yield piece
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CorruptBatch(f"records do not decompress with {CODECS[codec]}: {error}") from error


def _unknown(codec: int) -> CorruptBatch:
    return CorruptBatch(f"compression codec {codec} is not known; known are 0 to {len(CODECS) - 1}")


def _too_large(bytes_max: int) -> OverlargeRecords:
    return OverlargeRecords(f"records decompress to more than {bytes_max:,} bytes")


def _stream(codec: str, data: bytes | memoryview, piece_bytes: int) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), codec) as stream:
        while piece := stream.read(piece_bytes):
            yield piece


def _snappy(data: memoryview, bytes_max: int) -> Iterator[bytes]:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _snappy_block(data, bytes_max)
        return
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if position + 4 > len(data):
            raise CorruptBatch("snappy frame is cut")
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if length < 0 or position + length > len(data):
            raise CorruptBatch("snappy frame is cut")
        yield _snappy_block(data[position : position + length], bytes_max)
        position += length


def _snappy_block(data: memoryview, bytes_max: int) -> bytes:
    size = _unsigned_varint(data)
    if size > bytes_max:
        raise _too_large(bytes_max)
    return bytes(pa.decompress(data, decompressed_size=size, codec="snappy", asbytes=True))


def _unsigned_varint(data: memoryview) -> int:
    value = 0
    for index, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value
    raise CorruptBatch("snappy block has no length")


def compress(codec: int, data: bytes | memoryview) -> bytes:
    """The opposite of `decompress`, in the forms that Java's client writes and every client reads.

    lz4 has blocks that do not depend on one another: Java refuses others, which Arrow writes. Snappy lies in xerial's
    frame, in blocks of 32 KB.

    Raises:
        CorruptBatch: unknown codec.
    """
    if codec >= len(CODECS):
        raise _unknown(codec)
    return _COMPRESS[codec](data)


def _to_gzip(data: bytes | memoryview) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def _to_snappy(data: bytes | memoryview) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_MAGIC, _XERIAL_VERSIONS]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = pa.compress(view[at : at + _XERIAL_BLOCK_BYTES], codec="snappy", asbytes=True)
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _to_lz4(data: bytes | memoryview) -> bytes:
    return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))


def _to_zstd(data: bytes | memoryview) -> bytes:
    return bytes(pa.Codec("zstd", compression_level=_ZSTD_LEVEL).compress(data, asbytes=True))


_COMPRESS: tuple[Callable[[bytes | memoryview], bytes], ...] = (bytes, _to_gzip, _to_snappy, _to_lz4, _to_zstd)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits and the position after it.

    Raises:
        CorruptBatch: the varint is cut off, or longer than ten bytes.
    """
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), position
            shift += 7
            if shift > 63:
                raise CorruptBatch("a varint in a record is longer than ten bytes")
    except IndexError:
        raise CorruptBatch("a record is cut") from None


def write_varint(value: int) -> bytes:
    """`value` as a zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_record(data: bytes, position: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """The record at `position` of a batch's decompressed records, and the position after it.

    Raises:
        CorruptBatch: the record does not hold together.
    """
    length, position = read_varint(data, position)
    end = position + length
    if length < 1 or end > len(data):
        raise CorruptBatch("a record is cut")
    timestamp, at = read_varint(data, position + 1)
    offset, at = read_varint(data, at)
    key, at = _read_bytes(data, at, end)
    value, at = _read_bytes(data, at, end)
    headers, at = _read_headers(data, at, end)
    if at != end:
        raise CorruptBatch("a record's length does not fit its fields")
    return Record(base_offset + offset, base_timestamp + timestamp, key, value, headers), end


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    if position + length > end:
        raise CorruptBatch("a record is cut")
    return data[position : position + length], position + length


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(data, position)
    if count < 0 or count > end - position:
        raise CorruptBatch("a record's header count does not fit its length")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        headers.append(((key or b"").decode(errors="replace"), value))
    return tuple(headers), position


def write_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The records of a batch, uncompressed."""
    return b"".join(_write_record(record, base_offset, base_timestamp) for record in records)


def _write_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    body = b"".join(
        [
            b"\x00",
            write_varint(record.timestamp - base_timestamp),
            write_varint(record.offset - base_offset),
            _write_bytes(record.key),
            _write_bytes(record.value),
            write_varint(len(record.headers)),
            *(_write_bytes(key.encode()) + _write_bytes(value) for key, value in record.headers),
        ]
    )
    return write_varint(len(body)) + body


def _write_bytes(value: bytes | None) -> bytes:
    return write_varint(-1) if value is None else write_varint(len(value)) + value


def iterate(data: bytes, count: int, base_offset: int, base_timestamp: int) -> Iterator[Record]:
    """Each of `count` records in decompressed `data`.

    Raises:
        CorruptBatch: `data` does not hold exactly that many.
    """
    position = 0
    for _ in range(count):
        record, position = read_record(data, position, base_offset, base_timestamp)
        yield record
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes follow the last record of a batch")
