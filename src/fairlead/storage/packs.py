"""Small commits side by side in preallocated files: a put is one `fdatasync` that changes no metadata.

A file of its own costs a small object two commits of the file system's journal, and each of these waits for whatever
else is being written to the disk. The blocks of a pack were all written before its first use, so its size, extents and
directory never change again until it is removed.

    pack_file      the bytes of a pack
    pack_index     what lies where
    pack_register  which packs there are, and where they end
    here           the process that holds the directory: it takes over what others left, and makes packs of its own

Always true: a record is durable before the next one of its pack is begun, so only the last can be torn and was never
answered. A pack is registered durably before its first record. Only the process that made a pack appends to it, and has
it locked as long as it lives; any process that holds the directory may mark a record deleted. A pack is removed when
nothing in it is there any more. What failed to sync is never synced again, and what was put into a pack that somebody
else has removed, as whoever puts a backup beneath a running server, is not called durable.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from fairlead.model.clock import SystemRandomness
from fairlead.model.errors import Damaged
from fairlead.storage import files, pack_file
from fairlead.storage.pack_file import BLOCK, FIRST, NOWHERE, OBJECT_BYTES_MAX, Place, Record, padded
from fairlead.storage.pack_index import Pack, PackIndex
from fairlead.storage.pack_register import End, PackRegister


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
    """How the making of a pack is started, which takes tens of milliseconds, and the registering of its end."""

    @property
    def object_bytes_max(self) -> int:
        """A larger object gets a file of its own; so does one of which few would fit into a pack."""
        return min(OBJECT_BYTES_MAX, self.pack_bytes // 4)


class PackKeeper:
    """The packs of others, for the process that holds the directory."""

    def __init__(self, index: PackIndex, register: PackRegister) -> None:
        self._index = index
        self._register = register
        self._removing = threading.Lock()

    def remove_unmade(self) -> None:
        """Remove what processes left that ended while they made a pack. Raises: OSError."""
        folder = self._index.folder
        for file in os.listdir(folder) if os.path.isdir(folder) else ():
            if file.endswith(pack_file.NEW):
                files.unlink_unlocked(os.path.join(folder, file))

    def refresh(self) -> None:
        """Take over the packs whose makers have ended, and look for new records in those of others that live.

        What lies in them is made durable first, and is read as the disk has it.

        Raises:
            Damaged: a pack is missing, or not as it was written.
            OSError: a pack cannot be synced; what it holds is then not known to be durable.
        """
        index = self._index
        with index.lock:
            there = index.names()
            entry = self._register.read()
            taken: dict[str, End | None] = {}
            new: list[tuple[int, Record]] = []
            for name in there:
                pack = index.pack(name)
                if name in entry.removed:
                    self._unlink(pack)
                elif pack.descriptor is None and not pack.whole and not pack.gone:
                    new += self._read(pack, entry.packs, taken)
            index.note(new)
            self._check_missing(entry.packs, there)
            index.forget_all_but(there)
        if taken:
            self._register.change(taken)
        self.remove_empty()

    def _read(
        self, pack: Pack, registered: Mapping[str, End | None], taken: dict[str, End | None]
    ) -> Sequence[tuple[int, Record]]:
        try:
            descriptor = os.open(pack.path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        try:
            end = registered.get(pack.name)
            # With an end it has ended, whoever looks at it with a lock just now.
            if end is None and not files.lock(descriptor):
                os.fdatasync(descriptor)
                return self._index.read_on(pack, descriptor)
            if pack.name not in registered:
                check_unregistered(pack, descriptor)
                self._unlink(pack)
                return []
            if end is None:
                files.sync_and_forget(pack.path)
            found = read_whole(self._index, pack, descriptor, end)
            if end is None:
                taken[pack.name] = End(pack.end, *pack.last)
            return found
        finally:
            os.close(descriptor)

    def _check_missing(self, registered: Mapping[str, End | None], there: Sequence[str]) -> None:
        """A pack may have come, or gone, between the two looks at the directory and at the register."""
        for name in registered.keys() - set(there):
            if not os.path.lexists(pack_file.path_of(self._index.root, name)) and name in self._register.read().packs:
                raise missing(name)

    def remove_empty(self) -> None:
        """Remove the packs in which nothing is any more, durably: those too that another thread has found.

        Raises:
            Damaged, OSError: they stay until it is tried again.
        """
        with self._removing:
            gone = self._index.empty()
            if not gone:
                return
            try:
                self._register.change({}, remove=[pack.name for pack in gone])
            except (Damaged, OSError):
                self._index.keep(gone)
                raise
            for pack in gone:
                self._unlink(pack)

    def _unlink(self, pack: Pack) -> None:
        pack.gone = True
        with suppress(FileNotFoundError):
            os.unlink(pack.path)
        self._index.forget([pack])


def check_unregistered(pack: Pack, descriptor: int) -> None:
    """Check that a pack that is not registered was never used: its maker ended while it made it. Raises: Damaged."""
    if not pack_file.is_untouched(descriptor, FIRST):
        raise Damaged(pack_file.file_of(pack.name), "is not in the register of packs, and there are records in it")


def read_whole(index: PackIndex, pack: Pack, descriptor: int, end: End | None) -> Sequence[tuple[int, Record]]:
    """All records of a pack whose maker has ended, up to its registered `end`. One that cannot be read, and whose name
    is known, is among them: whoever reads it meets the damage.

    Raises:
        Damaged: it is not as it was written.
    """
    file = pack_file.file_of(pack.name)
    if not pack_file.is_whole(descriptor, pack.name):
        raise Damaged(file, "has not the header of a pack of this name and size")
    found = index.read_on(pack, descriptor, end)
    if end is not None and pack.end == end.start and pack.end != end.at:
        found = [*found, *index.lost(pack, Place(end.last, end.start), end.at)]
    if end is not None and pack.end != end.at:
        raise Damaged(file, f"the record at {pack.end} cannot be read; by the register the pack ends at {end.at}")
    if end is None and not pack_file.is_rest(descriptor, pack.name, pack.end):
        raise Damaged(file, f"the record at {pack.end} cannot be read, and it is not the last")
    pack.whole = True
    return found


def missing(name: str) -> Damaged:
    """What is said of a registered pack that is not there."""
    return Damaged(pack_file.file_of(name), "the pack is missing")


class _Free(NamedTuple):
    """A pack that nobody is writing to."""

    pack: Pack
    descriptor: int
    end: int = FIRST
    last: Place = NOWHERE


class PackWriter:
    """Puts small commits into packs of this process, and makes packs ahead of their use."""

    def __init__(self, index: PackIndex, register: PackRegister, settings: PackSettings) -> None:
        self._index = index
        self._register = register
        self._settings = settings
        self._lock = threading.Lock()
        self._keeper = PackKeeper(index, register)
        self._files = 0
        self._free: list[_Free] = []
        self._open = 0
        self._making = False
        self._closed = False
        self.failed: set[str] = set()
        """Names of which it is not known whether they are durable."""

    def open(self) -> None:
        """Take over what others left. Raises: Damaged, OSError."""
        self._keeper.remove_unmade()
        self._register.sync()
        self._keeper.refresh()

    def refresh(self) -> None:
        """See what other processes have put, and take over what they left. Raises: Damaged, OSError."""
        self._keeper.refresh()

    def put(self, name: str, parts: Sequence[memoryview]) -> bool | None:
        """Append an object whose name nobody has. True: it is durable; False: that is not known; None: it is too large,
        no pack is free, or the disk is full, and nothing was written."""
        length = sum(part.nbytes for part in parts)
        fits = len(name) <= pack_file.NAME_BYTES_MAX and length <= self._settings.object_bytes_max
        taken = self._take() if fits else None
        if taken is None:
            return None
        pack, descriptor, start, before = taken
        head = pack_file.head(pack.name, Place(name, start), before, parts, length)
        try:
            pack_file.write(descriptor, [memoryview(head), *parts], start)
            os.fdatasync(descriptor)
            files.check_linked(descriptor)
        except pack_file.NothingWrittenError:
            self._give_back(taken)
            return None
        except OSError:
            self.failed.add(name)
            self._done(taken)
            return False
        self._index.add(pack, name, start, length)
        self._give_back(_Free(pack, descriptor, start + padded(len(head) + length), Place(name, start)))
        return True

    def _take(self) -> _Free | None:
        settings = self._settings
        with self._lock:
            self._files += 1
            if self._closed or self._files <= settings.files_first:
                return None
            if len(self._free) > 1 or self._open >= settings.packs_max or self._making:
                return self._free.pop() if self._free else None
            self._making = True
        settings.aside(self._prepare)
        with self._lock:
            return self._free.pop() if self._free else None

    def _give_back(self, free: _Free) -> None:
        if free.end + self._settings.object_bytes_max + 2 * BLOCK <= self._settings.pack_bytes:
            with self._lock:
                if not self._closed:
                    self._free.append(free)
                    return
        self._done(free)

    def _done(self, free: _Free) -> None:
        """Nothing more goes into that pack."""
        with self._lock:
            self._open -= 1
        self._index.retire(free.pack, free.end, free.last)
        self._settings.aside(lambda: self._register_ends([free]))

    def _register_ends(self, done: Sequence[_Free]) -> None:
        """The next process does it, where this fails."""
        with suppress(OSError, Damaged):
            self._register.change({free.pack.name: End(free.end, *free.last) for free in done})
            self._keeper.remove_empty()

    def _prepare(self) -> None:
        """Make a pack ahead of its use. One that cannot be made leaves the puts to files, which say what is wrong; one
        of which it is not known whether it is registered is the last one that is tried."""
        settings = self._settings
        try:
            room = files.free_bytes(self._index.root)
            if room < settings.free_packs_min * settings.pack_bytes:
                self._making = False
                return
            name = f"{os.getpid()}-{SystemRandomness().id16().hex()[:12]}"
            descriptor = pack_file.make(pack_file.path_of(self._index.root, name), name, settings.pack_bytes)
        except OSError:
            self._making = False
            return
        free = _Free(self._index.begin(name, descriptor), descriptor)
        with suppress(OSError, Damaged):
            self._register.change({name: None})
            with self._lock:
                self._open += 1
                self._making = False
                if not self._closed:
                    self._free.insert(0, free)
                    return
            self._done(free)

    def delete(self, name: str) -> bool:
        """Mark an object deleted; False if it is not in a pack. Not durable at once.

        Raises:
            Damaged, OSError
        """
        pack = self._index.delete(name)
        if pack is not None and pack.whole and not pack.there:
            self._keeper.remove_empty()
        return pack is not None

    def settle(self) -> None:
        """Make all deletions durable. Raises: Damaged, OSError: they may come undone."""
        self._keeper.remove_empty()
        self._index.settle()

    def close(self) -> None:
        """Register where the packs of this process end; what is put from now on are files."""
        with self._lock:
            self._closed = True
            done, self._free = self._free, []
            self._open -= len(done)
        for free in done:
            self._index.retire(free.pack, free.end, free.last)
        if done:
            self._register_ends(done)
