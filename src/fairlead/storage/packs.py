"""Small commits side by side in preallocated files: a put is one `fdatasync` that changes no metadata.

A file of its own costs a small object two commits of the file system's journal, and each of these waits for whatever
else is being written to the disk. The blocks of a pack were all written before its first use, so its size, extents and
directory never change again until it is removed.

    record     magic, state (1: there, 0: deleted), lengths, crc32c of name and data, crc32c of the numbers, name, data
               padded to 4,096 bytes, so that no block with a durable record is ever written again
    end        the first place without a whole record

Always true: a record is durable before the next one of its pack is begun, so what follows a torn record was never
answered. Only the process that made a pack appends to it; any process that holds the directory may mark a record
deleted. A pack is removed when nothing in it is there any more. What failed to sync is never synced again.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import crc32c
import numpy as np
from numpy.typing import NDArray

from fairlead.model.clock import SystemRandomness
from fairlead.storage import files

FOLDER: Final = ".packs"
OBJECT_BYTES_MAX: Final = 64 * 1024
"""A larger object gets a file of its own: there the two commits of the journal no longer matter."""
_BLOCK: Final = 4096
_MAGIC: Final = b"FLO1"
_HEAD: Final = struct.Struct("<4sB3xHHIII")
"""Magic, state, length of the name, zero, length of the data, crc of both, crc of magic, lengths and crc."""
_HEAD_BYTES_MAX: Final = 512
"""The numbers and the longest name."""
_STATE_AT: Final = 4
_THERE, _DELETED = 1, 0
_ROW: Final = np.dtype([("number", "<i8"), ("pack", "<i8"), ("start", "<i8"), ("length", "<i8")])


class PackPlace(NamedTuple):
    """Where an object's bytes lie."""

    path: str
    start: int
    length: int


@dataclass(slots=True)
class _Pack:
    """A pack as it is known here. `descriptor` only while this process appends to it."""

    path: str
    end: int = 0
    there: int = 0
    descriptor: int | None = None
    gone: bool = False


class _Commits:
    """The packed commits of one writer epoch of one shard, by number: 32 bytes each, for there may be many."""

    def __init__(self) -> None:
        self._rows = np.empty(0, _ROW)
        self._count = 0
        self._gone = 0
        """How many of them are removed: their length is -1."""

    def add(self, number: int, pack: int, start: int, length: int) -> None:
        """Note one; numbers mostly grow."""
        if self._count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros(max(64, self._count), _ROW)))
        self._rows[self._count] = (number, pack, start, length)
        self._count += 1
        if self._count > 1 and self._rows["number"][self._count - 2] > number:
            self._rows[: self._count].sort(order="number", kind="stable")

    def find(self, number: int) -> tuple[int, int, int] | None:
        """Pack, start and length."""
        place = self._place(number)
        if place is None:
            return None
        _, pack, start, length = self._rows[place].tolist()
        return pack, start, length

    def remove(self, number: int) -> None:
        """Forget one that is there."""
        place = self._place(number)
        assert place is not None
        self._rows["length"][place] = -1
        self._gone += 1
        if 2 * self._gone > self._count:
            there = self._there()
            self._rows, self._count, self._gone = there, len(there), 0

    def drop(self, pack: int) -> None:
        """Forget all that lay in a pack."""
        rows = self._there()
        self._rows = rows[rows["pack"] != pack]
        self._count, self._gone = len(self._rows), 0

    def numbers(self) -> list[int]:
        """All, in order."""
        found: list[int] = self._there()["number"].tolist()
        return found

    def __len__(self) -> int:
        return self._count - self._gone

    def _there(self) -> NDArray[np.void]:
        rows = self._rows[: self._count]
        return rows[rows["length"] >= 0]

    def _place(self, number: int) -> int | None:
        numbers = self._rows["number"][: self._count]
        place = int(np.searchsorted(numbers, number))
        if place == self._count or numbers[place] != number or self._rows["length"][place] < 0:
            return None
        return place


def _on_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="pack", daemon=True).start()


@dataclass(frozen=True, slots=True)
class PackSettings:
    """When a process makes packs, and of what size."""

    pack_bytes: int = 16 * 1024 * 1024
    packs_max: int = 4
    """Packs that are written to at a time; who finds none free writes a file."""
    free_packs_min: int = 16
    """No pack is made where there is not room for this many."""
    files_first: int = 16
    """A process writes this many small commits as files before it makes its first pack: most never need one."""
    aside: Callable[[Callable[[], None]], None] = _on_a_thread
    """How the making of a pack is started, which takes tens of milliseconds."""


class PackIndex:
    """What lies in the packs of a directory. Safe to use from several threads; every call may do I/O."""

    def __init__(self, root: str) -> None:
        self.folder = os.path.join(root, FOLDER)
        self._lock = threading.Lock()
        self._packs: list[_Pack] = []
        self._known: dict[str, int] = {}
        self._commits: dict[str, _Commits] = {}

    def find(self, name: str) -> PackPlace | None:
        """Where an object lies, as far as the packs have been looked through."""
        with self._lock:
            found = self._find(name)
            if found is None:
                return None
            pack, start, length = found
            return PackPlace(self._packs[pack].path, start, length)

    def _find(self, name: str) -> tuple[int, int, int] | None:
        folder, number = _split(name)
        commits = self._commits.get(folder)
        return None if commits is None else commits.find(number)

    def list(self, prefix: str) -> Iterator[str]:
        """Names that start with `prefix`, in order."""
        with self._lock:
            found = [
                f"{folder}/{number:020d}"
                for folder, commits in self._commits.items()
                if folder.startswith(prefix) or prefix.startswith(folder)
                for number in commits.numbers()
            ]
        return iter(sorted(name for name in found if name.startswith(prefix)))

    def refresh(self) -> None:
        """Look for packs and records that others have added, and forget the packs that they have removed.

        Raises:
            OSError
        """
        with self._lock:
            paths = self._paths()
            for path in paths:
                self._read_on(self._pack_of(path))
            for path in self._known.keys() - set(paths):
                self._drop(self._known[path])

    def _paths(self) -> Sequence[str]:
        try:
            there = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            there = []
        return [os.path.join(self.folder, file) for file in there if file.endswith(".pack")]

    def _drop(self, number: int) -> None:
        pack = self._packs[number]
        if pack.gone:
            return
        pack.gone = True
        for folder, commits in list(self._commits.items()):
            commits.drop(number)
            if not len(commits):
                del self._commits[folder]

    def _pack_of(self, path: str) -> int:
        if path not in self._known:
            self._known[path] = len(self._packs)
            self._packs.append(_Pack(path))
        return self._known[path]

    def _read_on(self, number: int) -> None:
        """Note the records behind those that are known."""
        pack = self._packs[number]
        if pack.descriptor is not None or pack.gone:
            return
        with suppress(FileNotFoundError):
            descriptor = os.open(pack.path, os.O_RDONLY)
            try:
                for start, record in _records(descriptor, pack.end):
                    if record.there:
                        self._note(number, record.name, start + record.skip, record.length)
                    pack.end = start + record.size
            finally:
                os.close(descriptor)

    def _note(self, pack: int, name: str, start: int, length: int) -> None:
        folder, number = _split(name)
        self._commits.setdefault(folder, _Commits()).add(number, pack, start, length)
        self._packs[pack].there += 1

    def begin(self, path: str, descriptor: int) -> int:
        """A pack that this process appends to."""
        with self._lock:
            number = self._pack_of(path)
            self._packs[number].descriptor = descriptor
            return number

    def note(self, pack: int, name: str, start: int, length: int) -> None:
        """A record that was just made durable."""
        with self._lock:
            self._note(pack, name, start, length)

    def retire(self, pack: int, end: int) -> None:
        """Nothing more is appended; what lies before `end` is known."""
        with self._lock:
            found = self._packs[pack]
            if found.descriptor is not None:
                os.close(found.descriptor)
                found.descriptor = None
                found.end = end
            self._remove_if_empty(found)

    def delete(self, name: str) -> bool:
        """Mark an object deleted; False if it is not in a pack. Not durable at once.

        Raises:
            OSError
        """
        with self._lock:
            found = self._find(name)
            if found is None:
                return False
            number, start, _ = found
            pack = self._packs[number]
            self._forget(name)
            pack.there -= 1
            if pack.there or pack.descriptor is not None:
                self._mark(pack.path, start - _HEAD.size - len(name.encode()))
            self._remove_if_empty(pack)
            return True

    @staticmethod
    def _mark(path: str, record: int) -> None:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, bytes([_DELETED]), record + _STATE_AT)
        finally:
            os.close(descriptor)

    def _forget(self, name: str) -> None:
        folder, number = _split(name)
        commits = self._commits[folder]
        commits.remove(number)
        if not len(commits):
            del self._commits[folder]

    def _remove_if_empty(self, pack: _Pack) -> None:
        if pack.there == 0 and pack.descriptor is None and not pack.gone:
            pack.gone = True
            with suppress(FileNotFoundError):
                os.unlink(pack.path)

    def adopt(self) -> None:
        """At the start of the process that holds the directory: make durable what lies in the packs of others, take in
        what the disk has of it, and remove packs of which nothing is there.

        Raises:
            OSError: a pack cannot be synced; what it holds is then not known to be durable.
        """
        for path in self._paths():
            files.sync_and_forget(path)
        self.refresh()
        with self._lock:
            for pack in self._packs:
                self._remove_if_empty(pack)


class PackWriter:
    """Puts small commits into packs of this process, and makes packs ahead of their use."""

    def __init__(self, index: PackIndex, settings: PackSettings) -> None:
        self._index = index
        self._settings = settings
        self._lock = threading.Lock()
        self._files = 0
        self._free: list[tuple[int, int, int]] = []
        """(number in the index, descriptor, end) of packs that nobody is writing to."""
        self._open = 0
        self._making = False
        self.failed: set[str] = set()
        """Names of which it is not known whether they are durable."""

    def put(self, name: str, parts: Sequence[memoryview]) -> bool | None:
        """Append an object whose name nobody has. True: it is durable; False: that is not known; None: no pack is
        free, and nothing was written."""
        taken = self._take()
        if taken is None:
            return None
        number, descriptor, end = taken
        length = sum(part.nbytes for part in parts)
        head = _head(name, parts, length)
        try:
            _pwrite_all(descriptor, [memoryview(head), *parts], end)
            os.fdatasync(descriptor)
        except OSError:
            self.failed.add(name)
            self._done(number)
            return False
        self._index.note(number, name, end + len(head), length)
        self._give_back(number, descriptor, end + _padded(len(head) + length))
        return True

    def _take(self) -> tuple[int, int, int] | None:
        settings = self._settings
        with self._lock:
            self._files += 1
            if self._files <= settings.files_first:
                return None
            if len(self._free) > 1 or self._open >= settings.packs_max or self._making:
                return self._free.pop() if self._free else None
            self._making = True
        settings.aside(self._prepare)
        with self._lock:
            return self._free.pop() if self._free else None

    def _give_back(self, number: int, descriptor: int, end: int) -> None:
        if end + OBJECT_BYTES_MAX + 2 * _BLOCK > self._settings.pack_bytes:
            self._done(number)
            return
        with self._lock:
            self._free.append((number, descriptor, end))

    def _done(self, number: int) -> None:
        with self._lock:
            self._open -= 1
        self._index.retire(number, self._settings.pack_bytes)

    def _prepare(self) -> None:
        """Make a pack ahead of its use. One that cannot be made leaves the puts to files, which say what is wrong."""
        settings = self._settings
        path = os.path.join(self._index.folder, f"{os.getpid()}-{SystemRandomness().id16().hex()[:12]}.pack")
        try:
            with suppress(OSError):
                room = files.free_bytes(os.path.dirname(self._index.folder))
                if room < settings.free_packs_min * settings.pack_bytes:
                    return
                descriptor = _new_pack(path, settings.pack_bytes)
                number = self._index.begin(path, descriptor)
                with self._lock:
                    self._open += 1
                    self._free.insert(0, (number, descriptor, 0))
        finally:
            with self._lock:
                self._making = False


class _Record(NamedTuple):
    name: str
    there: bool
    skip: int
    length: int
    size: int
    """With the padding."""
    checksum: int
    """Of name and data."""


def _split(name: str) -> tuple[str, int]:
    """Folder and number of a commit's name; a number that no commit has for other names."""
    folder, _, number = name.rpartition("/")
    return folder, int(number) if number.isdigit() else -1


def _head(name: str, parts: Sequence[memoryview], length: int) -> bytes:
    encoded = name.encode()
    checksum = crc32c.crc32c(encoded)
    for part in parts:
        checksum = crc32c.crc32c(part, checksum)
    return _numbers(_THERE, len(encoded), length, checksum) + encoded


def _numbers(state: int, name_length: int, length: int, checksum: int) -> bytes:
    own = crc32c.crc32c(_HEAD.pack(_MAGIC, 0, name_length, 0, length, checksum, 0))
    return _HEAD.pack(_MAGIC, state, name_length, 0, length, checksum, own)


def _records(descriptor: int, start: int) -> Iterator[tuple[int, _Record]]:
    """The whole records from this place on. Only the last can be torn: when it was begun those before were durable."""
    record = _record_at(descriptor, start)
    while record is not None:
        following = _record_at(descriptor, start + record.size)
        if following is None and not _is_whole(descriptor, start, record):
            return
        yield start, record
        start, record = start + record.size, following


def _record_at(descriptor: int, start: int) -> _Record | None:
    """What the head of a record says, if there is one."""
    head = os.pread(descriptor, _HEAD_BYTES_MAX, start)
    if len(head) < _HEAD.size:
        return None
    magic, state, name_length, _, length, checksum, _ = _HEAD.unpack_from(head)
    if magic != _MAGIC or head[: _HEAD.size] != _numbers(state, name_length, length, checksum):
        return None
    skip = _HEAD.size + name_length
    name = head[_HEAD.size : skip].decode(errors="replace")
    return _Record(name, state == _THERE, skip, length, _padded(skip + length), checksum)


def _is_whole(descriptor: int, start: int, record: _Record) -> bool:
    body = os.pread(descriptor, record.skip + record.length - _HEAD.size, start + _HEAD.size)
    return len(body) == record.skip + record.length - _HEAD.size and crc32c.crc32c(body) == record.checksum


def _padded(size: int) -> int:
    return size + -size % _BLOCK


def _pwrite_all(descriptor: int, parts: Sequence[memoryview], start: int) -> None:
    data = b"".join(parts)
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], start + written)


def _new_pack(path: str, size_bytes: int) -> int:
    """A file of zeros, durable with its name. Raises OSError; nothing is left then."""
    folder = os.path.dirname(path)
    files.make_directories(folder)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, files.FILE_MODE)
    try:
        zeros = memoryview(bytes(1 << 20))
        for start in range(0, size_bytes, len(zeros)):
            _pwrite_all(descriptor, [zeros[: size_bytes - start]], start)
            # In turns: puts into other packs wait for the disk together with what is synced here, 8 ms for 16 MB.
            os.fdatasync(descriptor)
        os.fsync(descriptor)
        for each in (folder, os.path.dirname(folder)):
            files.sync_directory(each)
    except OSError:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(path)
        raise
    return descriptor
