"""The bytes of a pack: a header that holds the pack's own name, then records side by side.

    header     the first 4,096 bytes: magic, size of the file, name of the pack, crc32c, zeros
    record     magic, state, lengths, crc32c of name and data, crc32c of these numbers, name, data
               padded with zeros to 4,096 bytes, so that no block with a durable record is ever written again, except
               for its mark of deletion
    rest       zeros, written before the first use

The crc of a record's numbers covers its place and the name of its pack, so a block that stands elsewhere is no record,
and neither is what somebody puts into the data of one. The state is not covered, since it changes; it is one of two
words that no single wrong byte turns into each other.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

import crc32c

from fairlead.storage import files

FOLDER: Final = ".packs"
_SUFFIX: Final = ".pack"
NEW: Final = ".new"
"""Behind the name of a pack that is being made."""
OBJECT_BYTES_MAX: Final = 64 * 1024
"""A larger object gets a file of its own: there the two commits of the journal no longer matter."""
BLOCK: Final = 4096
FIRST: Final = BLOCK
"""Place of the first record."""
NAME_BYTES_MAX: Final = 400
_HEADER: Final = struct.Struct("<4sIQ")
"""Magic, length of the name, size of the file."""
_PACK_MAGIC: Final = b"FLP2"
_RECORD_MAGIC: Final = b"FLR2"
_HEAD: Final = struct.Struct("<4s4sIIII")
"""Magic, state, length of the name, length of the data, crc of both, crc of the other numbers."""
_PLACE: Final = struct.Struct("<4sIIIQ")
_STATE_AT: Final = 4
_THERE, _DELETED = b"HERE", b"GONE"
_RECORD_BYTES_MAX: Final = BLOCK + OBJECT_BYTES_MAX + BLOCK


class Record(NamedTuple):
    """What the head of a record says."""

    name: str
    there: bool
    """It is not marked deleted."""
    start: int
    """Place of the head in the pack."""
    skip: int
    """Bytes before the data."""
    length: int
    """Of the data."""
    checksum: int
    """Of name and data."""

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.start + padded(self.skip + self.length)


def path_of(root: str, pack: str) -> str:
    """Where the pack of that name lies."""
    return os.path.join(root, FOLDER, pack + _SUFFIX)


def name_of(file: str) -> str | None:
    """The pack whose file has that name, None if it is no pack."""
    return file.removesuffix(_SUFFIX) if file.endswith(_SUFFIX) else None


def padded(size: int) -> int:
    """Rounded up to whole blocks."""
    return size + -size % BLOCK


def header(pack: str, size_bytes: int) -> bytes:
    """The first block of a pack of that name and size."""
    name = pack.encode()
    content = _HEADER.pack(_PACK_MAGIC, len(name), size_bytes) + name
    return (content + crc32c.crc32c(content).to_bytes(4, "little")).ljust(BLOCK, b"\0")


def is_whole(descriptor: int, pack: str) -> bool:
    """Whether the file has the header of a pack of that name and of its size."""
    return os.pread(descriptor, BLOCK, 0) == header(pack, os.fstat(descriptor).st_size)


def head(pack: str, name: bytes, parts: Sequence[memoryview], length: int, start: int) -> bytes:
    """What comes before the data of a record that is put at a place of a pack, the name included."""
    checksum = crc32c.crc32c(name)
    for part in parts:
        checksum = crc32c.crc32c(part, checksum)
    own = _own_checksum(pack, start, len(name), length, checksum)
    return _HEAD.pack(_RECORD_MAGIC, _THERE, len(name), length, checksum, own) + name


def _own_checksum(pack: str, start: int, name_length: int, length: int, checksum: int) -> int:
    return crc32c.crc32c(_PLACE.pack(_RECORD_MAGIC, name_length, length, checksum, start), _checksum_of(pack))


@lru_cache(maxsize=64)
def _checksum_of(pack: str) -> int:
    return crc32c.crc32c(pack.encode())


def _record_in(data: bytes, pack: str, start: int) -> Record | None:
    """The record whose head these bytes begin with, if they do."""
    if len(data) < _HEAD.size:
        return None
    magic, state, name_length, length, checksum, own = _HEAD.unpack_from(data)
    if magic != _RECORD_MAGIC or own != _own_checksum(pack, start, name_length, length, checksum):
        return None
    if state not in {_THERE, _DELETED}:
        return None
    skip = _HEAD.size + name_length
    return Record(data[_HEAD.size : skip].decode(errors="replace"), state == _THERE, start, skip, length, checksum)


def record_at(descriptor: int, pack: str, start: int) -> Record | None:
    """The record that begins at a place, as far as its head says."""
    return _record_in(os.pread(descriptor, _HEAD.size + NAME_BYTES_MAX, start), pack, start)


def records(descriptor: int, pack: str, start: int, end: int | None = None) -> Iterator[Record]:
    """The whole records from `start` on, up to the first that cannot be read, or to `end`.

    Of the last one its data is checked too. When it was begun those before it were durable, so only it can be torn.
    """
    record = record_at(descriptor, pack, start)
    while record is not None and (end is None or record.end <= end):
        following = record_at(descriptor, pack, record.end)
        if following is None and not _has_its_data(descriptor, record):
            return
        yield record
        record = following


def _has_its_data(descriptor: int, record: Record) -> bool:
    wanted = record.skip + record.length - _HEAD.size
    body = os.pread(descriptor, wanted, record.start + _HEAD.size)
    return len(body) == wanted and crc32c.crc32c(body) == record.checksum


def data_of(descriptor: int, pack: str, start: int, name: str, length: int) -> bytes | None:
    """The data of the record of that name and length at a place; None if that is not what is there."""
    encoded = name.encode()
    wanted = _HEAD.size + len(encoded) + length
    found = os.pread(descriptor, wanted, start)
    record = _record_in(found, pack, start)
    if record is None or len(found) != wanted or record.name != name or record.length != length:
        return None
    return found[record.skip :] if crc32c.crc32c(found[_HEAD.size :]) == record.checksum else None


def is_rest(descriptor: int, pack: str, start: int) -> bool:
    """Whether no record that was ever acknowledged can lie at `start` or behind it: after one record that was torn, of
    which any block may have been written, everything is as it was before the first use."""
    torn = record_at(descriptor, pack, start)
    end = start + _RECORD_BYTES_MAX if torn is None else torn.end
    if any(record_at(descriptor, pack, place) for place in range(start + BLOCK, end, BLOCK)):
        return False
    return is_untouched(descriptor, end)


def is_untouched(descriptor: int, start: int) -> bool:
    """Whether nothing was written at `start` or behind it."""
    zeros = bytes(1 << 20)
    place = start
    while found := os.pread(descriptor, len(zeros), place):
        if found != zeros[: len(found)]:
            return False
        place += len(found)
    return True


def mark_deleted(path: str, start: int) -> None:
    """Mark the record at a place deleted. Not durable at once. Raises: OSError."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, _DELETED, start + _STATE_AT)
    finally:
        os.close(descriptor)


def write(descriptor: int, parts: Sequence[memoryview], start: int) -> None:
    """Write all parts one after the other. Raises: OSError."""
    data = b"".join(parts)
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], start + written)


def make(path: str, pack: str, size_bytes: int) -> int:
    """A new pack, durable with its name and locked by us: its descriptor. It gets its name once it is whole.

    Raises:
        OSError: nothing is left then.
    """
    folder, fresh = os.path.dirname(path), path + NEW
    files.make_directories(folder)
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.FILE_MODE)
    try:
        files.lock(descriptor)
        zeros = memoryview(bytes(1 << 20))
        for start in range(0, size_bytes, len(zeros)):
            write(descriptor, [zeros[: size_bytes - start]], start)
            # In turns: puts into other packs wait for the disk together with what is synced here, 8 ms for 16 MB.
            os.fdatasync(descriptor)
        write(descriptor, [memoryview(header(pack, size_bytes))], 0)
        os.fsync(descriptor)
        os.rename(fresh, path)
        for each in (folder, os.path.dirname(folder)):
            files.sync_directory(each)
    except OSError:
        os.close(descriptor)
        for each in (fresh, path):
            with suppress(OSError):
                os.unlink(each)
        raise
    return descriptor
