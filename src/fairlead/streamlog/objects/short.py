"""The short form of a commit, and of a seal: what an Arrow file says of its rows, without its schema and footer.

    magic      8 bytes, FLCOMMIT
    version    uint16, `FORMAT_VERSION`; little endian, as all numbers here
    kind       uint16: 1 commit, 2 seal
    length     uint16, of the name
    zero       uint16
    rows       uint32
    bytes      uint32, of all batches
    first, end uint64 each: the commits that it stands for
    known      uint64: all commits below were known to be durable when this one was put
    epoch id   16 bytes
    control    uint32, crc32c of the payloads of all control rows
    checksum   uint32, crc32c of what stands before it, the name and the columns
    name       of the object
    columns    as in an Arrow file
    batches    one after the other

A lone record's commit is an eighth of its Arrow file, and so one block of a pack.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import crc32c
from typing_extensions import Buffer

from fairlead.model.errors import Damaged
from fairlead.streamlog.objects import layout
from fairlead.streamlog.objects.layout import FileMeta
from fairlead.streamlog.rows import FORMAT_VERSION

MAGIC: Final = b"FLCOMMIT"
BYTES_MAX: Final = 64 * 1024
"""A commit that is no longer than this in the short form has it; a longer one is an Arrow file."""
_HEAD: Final = struct.Struct("<8sHHHHIIQQQ16sI")
_SUM: Final = struct.Struct("<I")
_START: Final = _HEAD.size + _SUM.size
_NUMBERS: Final = {"commit": 1, "seal": 2}
_KINDS: Final = {number: kind for kind, number in _NUMBERS.items()}


class Opened(NamedTuple):
    """An object in the short form, of which all but the batches is as it was written."""

    meta: FileMeta
    start: int
    """Place of the columns."""
    batches: int
    """Place of the batches."""


def is_short(view: memoryview) -> bool:
    """Whether an object's bytes begin as in the short form."""
    return bytes(view[: len(MAGIC)]) == MAGIC


def size_of(name: str, rows: int, batch_bytes: int) -> int:
    """Length of the object."""
    return _START + len(name.encode()) + layout.plan(rows).batches + batch_bytes


def encode(meta: FileMeta, region: Buffer, batches: Sequence[Buffer]) -> list[Buffer]:
    """The object's bytes, as buffers to be stored one after the other; `checksum` of `meta` is not looked at."""
    name = meta.name.encode()
    numbers = (meta.rows, meta.batch_bytes, meta.first, meta.end, meta.known, meta.epoch_id, meta.control)
    head = _HEAD.pack(MAGIC, FORMAT_VERSION, _NUMBERS[meta.kind], len(name), 0, *numbers)
    checksum = crc32c.crc32c(region, crc32c.crc32c(name, crc32c.crc32c(head)))
    return [b"".join((head, _SUM.pack(checksum), name, region)), *batches]


def opened(view: memoryview, name: str) -> Opened:
    """What stands before the batches of an object that begins with the magic.

    Raises:
        Damaged: it is not what was written under this name, or of another version.
    """
    if len(view) < _START:
        raise Damaged(name, f"cut short at {len(view):,} bytes")
    _, version, number, length, zero, rows, batch_bytes, first, end, known, epoch_id, control = _HEAD.unpack_from(view)
    if version != FORMAT_VERSION:
        raise Damaged(name, f"written in format version {version}; this program reads version {FORMAT_VERSION}")
    start = _START + length
    batches = start + (layout.plan(rows).batches if rows <= BYTES_MAX else BYTES_MAX)
    if number not in _KINDS or zero or len(view) != batches + batch_bytes or len(view) > BYTES_MAX:
        raise Damaged(name, f"cut short at {len(view):,} bytes, or not a commit")
    (checksum,) = _SUM.unpack_from(view, _HEAD.size)
    if checksum != crc32c.crc32c(view[_START:batches], crc32c.crc32c(view[: _HEAD.size])):
        raise Damaged(name, "the checksum of its columns does not fit")
    written = bytes(view[_START:start])
    if written != name.encode():
        raise Damaged(name, f"is another object than its name says: {written.decode(errors='backslashreplace')}")
    meta = FileMeta(_KINDS[number], rows, batch_bytes, first, end, checksum, control, name, epoch_id, known)
    return Opened(meta, start, batches)
