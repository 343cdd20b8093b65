"""Messages of formats v0 and v1, which a log may still hold, as record batches of v2.

Layout (big-endian; Kafka `LegacyRecord`), the CRC-32 (zlib's) over everything behind it:

    offset int64 | size int32 (of what follows) | CRC uint32 | magic int8 | attributes int8 | time int64 (v1 only)
    | key length int32, key | value length int32, value          (-1: null)

A compressed message has messages as its value. Their offsets are the log's in v0; in v1 they count from any number,
and the last one's is that of the message around them. Such logs are old and small; no compiled loop reads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import lz4.frame

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import CODEC_MASK, LENGTH_END, LOG_APPEND_TIME, NO_TIMESTAMP, build_batch
from fairlead.protocol.records import CODECS, Record, decompress

MESSAGE_BYTES_MIN: Final = 26
"""A v0 message with null key and null value."""
_HEAD = struct.Struct(">qiIbb")
_CRC_END = 16
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_LZ4 = CODECS.index("lz4")
_LZ4_HEAD: Final[bytes] = lz4.frame.compress(b"", block_linked=False, store_size=False)[:7]
"""Magic, flags and block size as Java writes them, and the checksum of these two bytes."""


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def converted(data: memoryview) -> tuple[bytes, int]:
    """A v2 batch with the records of exactly one message, and the message's offset, the last that it stands for.

    Records of a log with LogAppendTime get the append time as theirs.

    Raises:
        CorruptBatch: the message, or one inside it, does not hold together.
    """
    outer = _read(data)
    codec = outer.attributes & CODEC_MASK
    messages = list(_inside(outer, codec)) if codec else [outer]
    records = [Record(m.offset, m.timestamp, m.key, m.value) for m in messages]
    offsets = [record.offset for record in records]
    if not offsets or offsets[0] < 0 or any(a >= b for a, b in pairwise(offsets)):
        raise CorruptBatch("the offsets of its messages do not rise")
    if offsets[-1] - offsets[0] >= 2**31 or offsets[-1] > outer.offset:
        raise CorruptBatch(f"its messages have offsets up to {offsets[-1]}, its own is {outer.offset}")
    return build_batch(records, base_offset=offsets[0], leader_epoch=-1, codec=codec), outer.offset


def _inside(outer: _Message, codec: int) -> Iterator[_Message]:
    data = memoryview(decompress(codec, _value_of(outer, codec)))
    inner = list(_messages(data))
    if not inner:
        raise CorruptBatch("a compressed message holds none")
    shift = 0 if outer.magic == 0 else outer.offset - inner[-1].offset
    for message in inner:
        if message.magic != outer.magic or message.attributes & CODEC_MASK:
            raise CorruptBatch("a compressed message holds one of another kind")
        time = outer.timestamp if outer.attributes & LOG_APPEND_TIME else message.timestamp
        yield message._replace(offset=message.offset + shift, timestamp=time)


def _value_of(outer: _Message, codec: int) -> bytes:
    """What is compressed. Kafka's old clients wrote wrong checksums into lz4's head, in v0 only."""
    value = outer.value or b""
    if codec == _LZ4 and outer.magic == 0 and value[:6] == _LZ4_HEAD[:6]:
        return _LZ4_HEAD + value[7:]
    return value


def _messages(data: memoryview) -> Iterator[_Message]:
    at = 0
    while at < len(data):
        if len(data) - at < MESSAGE_BYTES_MIN:
            raise CorruptBatch("a message is cut")
        size = _HEAD.unpack_from(data, at)[1] + LENGTH_END
        if not MESSAGE_BYTES_MIN <= size <= len(data) - at:
            raise CorruptBatch("a message is cut")
        yield _read(data[at : at + size])
        at += size


def _read(data: memoryview) -> _Message:
    offset, _, crc, magic, attributes = _HEAD.unpack_from(data)
    if magic not in (0, 1):
        raise CorruptBatch(f"format v{magic} is not served, only v0 to v2")
    if zlib.crc32(data[_CRC_END:]) != crc:
        raise CorruptBatch("its CRC-32 is wrong")
    at, timestamp = _HEAD.size, NO_TIMESTAMP
    try:
        if magic == 1:
            (timestamp,) = _TIME.unpack_from(data, at)
            at += _TIME.size
        key, at = _field(data, at)
        value, at = _field(data, at)
    except struct.error:
        raise CorruptBatch("a message is cut") from None
    if at != len(data):
        raise CorruptBatch("a message's length does not fit its fields")
    return _Message(offset, magic, attributes, timestamp, key, value)


def _field(data: memoryview, at: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if length < 0:
        return None, at
    if length > len(data) - at:
        raise CorruptBatch("a message is cut")
    return bytes(data[at : at + length]), at + length
