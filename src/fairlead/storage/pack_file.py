"""The bytes of a pack: a header that holds the pack's own name, then records side by side.

    header     the first 4,096 bytes: magic, size of the file, name of the pack, crc32c, zeros
    record     magic, state, lengths, place of the record before, crc32c of the data, crc32c of all but state and data,
               name, name of the record before, data
               padded with zeros to 4,096 bytes, so that no block with a durable record is ever written again, except
               for its mark of deletion
    rest       zeros, written before the first use

The crc of a record's head covers its place and the name of its pack, so a block that stands elsewhere is no record,
and neither is what somebody puts into the data of one. The state is not covered, since it changes; it is one of two
words that no single wrong byte turns into each other. Since a record names the one before, a record that cannot be read
is still known by name: it is a damaged object, of one log.
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
OBJECT_BYTES_MAX: Final = 256 * 1024
"""A larger object gets a file of its own, which is written past the page cache (`direct.py`): there what a file costs,
0.4 ms of processor time and two commits of the journal, matters less than a second copy of its bytes."""
BLOCK: Final = 4096
FIRST: Final = BLOCK
"""Place of the first record."""
NAME_BYTES_MAX: Final = 400
_HEADER: Final = struct.Struct("<4sIQ")
"""Magic, length of the name, size of the file."""
_PACK_MAGIC: Final = b"FLP2"
_RECORD_MAGIC: Final = b"FLR2"
_HEAD: Final = struct.Struct("<4s4sHHHHQIII")
"""Magic, state, length of the name; of the name before: how many bytes it shares with this name, and how many follow;
zero, place of the record before, length of the data, crc of the data, crc of the head."""
_PLACE: Final = struct.Struct("<HHHHQIIQ")
_RECORD_BYTES_MAX: Final = BLOCK + OBJECT_BYTES_MAX + BLOCK
_WINDOW: Final = _RECORD_BYTES_MAX + BLOCK
"""The longest record and the head behind it."""
_UNWRITTEN: Final = bytes(_WINDOW)
"""What lies behind the last record: whoever reads a log looks there each time, so it is compared at once."""
_STATE_AT: Final = 4
_THERE, _DELETED = b"HERE", b"GONE"


class Place(NamedTuple):
    """A record of a pack."""

    name: str
    start: int


NOWHERE: Final = Place("", 0)
"""Before the first record."""


class Record(NamedTuple):
    """What the head of a record says, or what the record behind it says of one that cannot be read."""

    name: str
    there: bool
    """It is not marked deleted, as far as is known."""
    start: int
    """Place of the head in the pack."""
    skip: int
    """Bytes before the data."""
    length: int
    """Of the data; at most this, if it cannot be read."""
    checksum: int
    """Of the data."""
    before: Place = NOWHERE

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.start + padded(self.skip + self.length)

    @property
    def place(self) -> Place:
        return Place(self.name, self.start)


def lost(place: Place, end: int) -> Record:
    """A record that cannot be read, and is known by what others say of it."""
    return Record(place.name, there=True, start=place.start, skip=0, length=end - place.start, checksum=0)


def file_of(pack: str) -> str:
    """The file of the pack of that name, below the data directory."""
    return f"{FOLDER}/{pack}{_SUFFIX}"


def path_of(root: str, pack: str) -> str:
    """Where the pack of that name lies."""
    return os.path.join(root, file_of(pack))


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


def head(pack: str, place: Place, before: Place, parts: Sequence[memoryview], length: int) -> bytes:
    """What comes before the data of a record that is put at a place of a pack, behind another one."""
    name, other = place.name.encode(), before.name.encode()
    checksum = 0
    for part in parts:
        checksum = crc32c.crc32c(part, checksum)
    shared = _shared(name, other)
    names = name + other[shared:]
    numbers = (len(name), shared, len(other) - shared, 0, before.start, length, checksum)
    own = _own_checksum(pack, place.start, numbers, names)
    return _HEAD.pack(_RECORD_MAGIC, _THERE, *numbers, own) + names


def _shared(name: bytes, other: bytes) -> int:
    """How many bytes two names have in common, from the first on; of names of one length, as almost all are."""
    if len(name) != len(other):
        return 0
    differing = int.from_bytes(name, "big") ^ int.from_bytes(other, "big")
    return len(name) - (differing.bit_length() + 7) // 8


def _own_checksum(pack: str, start: int, numbers: tuple[int, ...], names: bytes) -> int:
    return crc32c.crc32c(names, crc32c.crc32c(_PLACE.pack(*numbers, start), _checksum_of(pack)))


@lru_cache(maxsize=64)
def _checksum_of(pack: str) -> int:
    return crc32c.crc32c(pack.encode())


def _record_in(data: bytes, pack: str, start: int, at: int = 0) -> Record | None:
    """The record of that place whose head stands in these bytes, if one does."""
    if len(data) - at < _HEAD.size:
        return None
    magic, state, *numbers, own = _HEAD.unpack_from(data, at)
    if magic != _RECORD_MAGIC or state not in {_THERE, _DELETED}:
        return None
    name_length, shared, rest, _, before, length, checksum = numbers
    skip = _HEAD.size + name_length + rest
    names = data[at + _HEAD.size : at + skip]
    if own != _own_checksum(pack, start, tuple(numbers), names):
        return None
    name = names[:name_length]
    other = Place((name[:shared] + names[name_length:]).decode(errors="replace"), before)
    return Record(name.decode(errors="replace"), state == _THERE, start, skip, length, checksum, other)


def record_at(descriptor: int, pack: str, start: int) -> Record | None:
    """The record that begins at a place, as far as its head says."""
    return _record_in(os.pread(descriptor, _HEAD.size + 2 * NAME_BYTES_MAX, start), pack, start)


def _behind(descriptor: int, pack: str, start: int) -> Record | None:
    """The first record behind a place at which none can be read, as far as one record reaches."""
    data = os.pread(descriptor, _WINDOW, start)
    if _UNWRITTEN.startswith(data):
        return None
    places = range(BLOCK, len(data), BLOCK)
    return next((record for at in places if (record := _record_in(data, pack, start + at, at)) is not None), None)


def records(descriptor: int, pack: str, start: int, end: int | None = None) -> Iterator[Record]:
    """The records from `start` on, up to the first of which nothing is known, or to `end`.

    Of the last one its data is checked too. When it was begun those before it were durable, so only it can be torn.
    Another process may put records meanwhile: one that was not there at the first look, and is followed by another one
    at the second, is looked at again before it counts as lost.
    """
    place, record = start, record_at(descriptor, pack, start)
    while end is None or place < end:
        if record is None:
            following = _behind(descriptor, pack, place)
            if following is None or following.before.start != place:
                return
            record = record_at(descriptor, pack, place) or lost(following.before, following.start)
        else:
            following = record_at(descriptor, pack, record.end)
            if following is None and not _may_be_followed(descriptor, pack, record):
                return
        yield record
        place, record = record.end, following


def _may_be_followed(descriptor: int, pack: str, record: Record) -> bool:
    """Whether a record is not the last one, which would be torn."""
    data = os.pread(descriptor, record.length, record.start + record.skip)
    if len(data) == record.length and crc32c.crc32c(data) == record.checksum:
        return True
    return _behind(descriptor, pack, record.end) is not None


def data_of(descriptor: int, pack: str, start: int, name: str, length: int) -> bytes | None:
    """The data of the record of that name and length at a place; None if that is not what is there."""
    found = os.pread(descriptor, _HEAD.size + 2 * NAME_BYTES_MAX + length, start)
    record = _record_in(found, pack, start)
    if record is None or record.name != name or record.length != length:
        return None
    data = found[record.skip : record.skip + length]
    return data if len(data) == length and crc32c.crc32c(data) == record.checksum else None


def raw_data_of(descriptor: int, pack: str, start: int, length: int) -> bytes:
    """What lies where the record at a place has its data; all of the record if its head cannot be read."""
    record = _record_in(files.read_left(descriptor, _HEAD.size + 2 * NAME_BYTES_MAX, start), pack, start)
    return files.read_left(descriptor, length, start + (0 if record is None else record.skip))


def is_rest(descriptor: int, pack: str, start: int) -> bool:
    """Whether no record that was ever acknowledged can lie at `start` or behind it: after one record that was torn, of
    which any block may have been written, everything is as it was before the first use."""
    torn = record_at(descriptor, pack, start)
    end = start + _RECORD_BYTES_MAX if torn is None else torn.end
    return _behind(descriptor, pack, start) is None and is_untouched(descriptor, end)


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


class NothingWrittenError(OSError):
    """The file system had no room, and has taken no byte."""


def write(descriptor: int, parts: Sequence[memoryview], start: int) -> None:
    """Write all parts one after the other. Raises: NothingWrittenError, OSError."""
    data = b"".join(parts)
    written = 0
    try:
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], start + written)
    except OSError as error:
        if written or error.errno not in files.FULL:
            raise
        raise NothingWrittenError(*error.args) from error


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
