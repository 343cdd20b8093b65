"""New heads for batches whose records stay where they are: other fields, and the CRC that fits them, unread.

CRC-32C is linear: if some of the first bytes of a message become others, its CRC changes by a number that depends on
these bytes and on how many follow, and not on what follows. So a head takes the time of some multiplications of
polynomials (half a microsecond), whatever the batch's size, and damage that the old CRC shows, the new one shows too.
"""

# numba says of its decorators' results neither what they take nor what they give
# mypy: disable-error-code="no-untyped-call, call-arg, var-annotated, import-untyped, untyped-decorator, return-value"

from __future__ import annotations

import struct
from typing import Any

import crc32c
import numpy as np
from numba import types

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER_BYTES,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    PRODUCER_AT,
    TRANSACTIONAL,
    BatchHeader,
)
from fairlead.protocol.loops.memory import compiled

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, its bits reversed, as everywhere in CRC-32C."""
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_START = struct.Struct(">qii")


def for_another_log(header: BatchHeader, head: bytes | memoryview) -> bytes:
    """The head (61 bytes) of a batch that is copied into another log, as it is produced; `head` is its old one.

    Without offset, epoch and producer, in no transaction, and without a delete horizon: Kafka would take the one of
    the log that it was cleaned in for its own, and remove tombstones too early.
    """
    new = bytearray(head[:HEADER_BYTES])
    _START.pack_into(new, 0, 0, header.length, NO_EPOCH)
    _ATTRIBUTES.pack_into(new, ATTRIBUTES_AT, header.attributes & ~(TRANSACTIONAL | DELETE_HORIZON))
    _PRODUCER.pack_into(new, PRODUCER_AT, NO_PRODUCER, -1, NO_SEQUENCE)
    _refit(head, new, header.size_bytes - HEADER_BYTES)
    return bytes(new)


def _refit(old: bytes | memoryview, new: bytearray, body_bytes: int) -> None:
    """Set the CRC of `new`, the head of a batch that had the head `old` before the same `body_bytes` of records."""
    change = crc32c.crc32c(old[CRC_FROM:HEADER_BYTES]) ^ crc32c.crc32c(new[CRC_FROM:HEADER_BYTES])
    if change:
        _CRC.pack_into(new, CRC_AT, _CRC.unpack_from(old, CRC_AT)[0] ^ _moved(change, body_bytes))


def with_producer(
    head: bytes | memoryview,
    body_bytes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    transactional: bool = False,
) -> bytes:
    """The head (61 bytes) of a batch with `body_bytes` of records, for the batch as this producer sends it.

    Raises:
        CorruptBatch: `head` has fewer bytes.
    """
    if len(head) < HEADER_BYTES:
        raise CorruptBatch(f"{len(head)} bytes are no head of a record batch")
    new = bytearray(head[:HEADER_BYTES])
    (attributes,) = _ATTRIBUTES.unpack_from(head, ATTRIBUTES_AT)
    attributes = attributes | TRANSACTIONAL if transactional else attributes & ~TRANSACTIONAL
    _ATTRIBUTES.pack_into(new, ATTRIBUTES_AT, attributes)
    _PRODUCER.pack_into(new, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _refit(head, new, body_bytes)
    return bytes(new)


def _powers() -> Any:
    """x to the powers 8 · 2^k: what a CRC is multiplied by for 2^k bytes that follow."""
    power = 1 << (31 - 8)
    powers = []
    for _ in range(32):
        powers.append(power)
        power = _plain_product(power, power)
    return np.array(powers, np.uint32)


def _plain_product(left: int, right: int) -> int:
    product = 0
    for bit in range(31, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product


_POWERS = _powers()


@compiled(types.uint32(types.uint32, types.int64))
def _moved(change: Any, byte_count: Any) -> Any:
    """How the CRC of a message changes, if it differed by `change` before the last `byte_count` bytes."""
    product = np.uint32(change)
    k = 0
    while byte_count > 0:
        if byte_count & 1:
            left, right, product = _POWERS[k], product, np.uint32(0)
            while left != 0:
                if left & np.uint32(0x80000000):
                    product ^= right
                left <<= np.uint32(1)
                right = right >> np.uint32(1) ^ (np.uint32(0x82F63B78) if right & np.uint32(1) else np.uint32(0))
        byte_count >>= 1
        k += 1
    return product
