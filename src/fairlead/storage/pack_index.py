"""What lies in the packs of a directory, as far as they have been looked through."""

from __future__ import annotations

import itertools
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.storage import files, pack_file
from fairlead.storage.pack_file import NOWHERE, Place, Record
from fairlead.storage.pack_register import End

_ROW: Final = np.dtype([("number", "<i8"), ("pack", "<i8"), ("start", "<i8"), ("length", "<i8")])
_FEW: Final = 64
"""So many new commits are put in their places one by one, more are sorted together."""


class PackPlace(NamedTuple):
    """Where an object lies."""

    path: str
    pack: str
    start: int
    """Place of its record in the pack."""
    length: int
    """Of the data."""


@dataclass(slots=True)
class Pack:
    """A pack as it is known here."""

    name: str
    path: str
    number: int
    """It stands for the pack in the rows of commits; no other has it, not even a later one of this name."""
    end: int = pack_file.FIRST
    """Up to here its records are known."""
    last: Place = NOWHERE
    """The last of them."""
    there: int = 0
    """How many of these are not deleted."""
    descriptor: int | None = None
    """While this process appends to it."""
    whole: bool = False
    """Nothing is appended any more, and all of its records are known."""
    gone: bool = False
    """It was removed, or is to be."""
    marked: bool = False
    """Marks of deletion in it may not be durable."""


_New = tuple[int, int, int, int]
"""Number, pack, start and length."""


class _Commits:
    """The packed commits of one writer epoch of one shard, by number: 32 bytes each, for there may be many."""

    def __init__(self) -> None:
        self._rows = np.empty(0, _ROW)
        self._count = 0
        self._gone = 0
        """How many of them are removed: their length is -1."""
        self._last = -1
        """No number is above it; almost every new one is."""

    def add(self, new: list[_New]) -> None:
        """Note some; numbers mostly grow."""
        if len(new) > _FEW:
            rows = np.concatenate((self._there(), np.array(new, _ROW)))
            self._rows = rows[np.argsort(rows["number"], kind="stable")]
            self._count, self._gone = len(self._rows), 0
            self._last = int(self._rows["number"][-1])
            return
        for each in new:
            self._insert(each)
            self._last = max(self._last, each[0])

    def _insert(self, new: _New) -> None:
        """Few packs are written to at a time, so few commits must make room."""
        if self._count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros(max(64, self._count), _ROW)))
        rows, place = self._rows, self._count
        if new[0] < self._last:
            place = int(np.searchsorted(rows["number"][:place], new[0], side="right"))
            rows[place + 1 : self._count + 1] = rows[place : self._count].copy()
        rows[place] = new
        self._count += 1

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

    def drop(self, packs: Sequence[int]) -> None:
        """Forget all that lay in these packs."""
        rows = self._there()
        self._rows = rows[~np.isin(rows["pack"], packs)]
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
        if number > self._last:
            return None
        numbers = self._rows["number"][: self._count]
        place = int(np.searchsorted(numbers, number))
        if place == self._count or numbers[place] != number or self._rows["length"][place] < 0:
            return None
        return place


class PackIndex:
    """What lies in the packs of a directory. Safe to use from several threads; every call may do I/O."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = os.path.join(root, pack_file.FOLDER)
        self.lock = threading.RLock()
        self._numbers = itertools.count()
        self._known: dict[str, Pack] = {}
        """Those that are there, by name, or were a moment ago; so with `_packs`, by number."""
        self._packs: dict[int, Pack] = {}
        self._commits: dict[str, _Commits] = {}
        self._settling = threading.Lock()
        self._unsettled: OSError | None = None
        """Why marks could not be synced: what failed to sync is never synced again."""

    def find(self, name: str) -> PackPlace | None:
        """Where an object lies, as far as the packs have been looked through."""
        with self.lock:
            found = self._find(name)
            if found is None:
                return None
            pack, start, length = found
            return PackPlace(self._packs[pack].path, self._packs[pack].name, start, length)

    def _find(self, name: str) -> tuple[int, int, int] | None:
        folder, number = _split(name)
        commits = self._commits.get(folder)
        return None if commits is None else commits.find(number)

    def list(self, prefix: str) -> Iterator[str]:
        """Names that start with `prefix`, in order."""
        with self.lock:
            found = [
                f"{folder}/{number:020d}"
                for folder, commits in self._commits.items()
                if folder.startswith(prefix) or prefix.startswith(folder)
                for number in commits.numbers()
            ]
        return iter(sorted(name for name in found if name.startswith(prefix)))

    def refresh(self) -> None:
        """Look for packs and records that others have added, and forget the packs that they have removed. A record that
        cannot be read ends its pack: a reader of the log misses what lies behind.

        Raises:
            OSError
        """
        with self.lock:
            there = self.names()
            new: list[tuple[int, Record]] = []
            for name in there:
                new += self._behind(self.pack(name))
            self.note(new)
            self.forget_all_but(there)

    def names(self) -> Sequence[str]:
        """The packs that are there. Raises: OSError."""
        try:
            files = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        return sorted(name for file in files if (name := pack_file.name_of(file)) is not None)

    def pack(self, name: str) -> Pack:
        """The pack of a name, known from now on."""
        found = self._known.get(name)
        if found is None:
            found = Pack(name, pack_file.path_of(self.root, name), next(self._numbers))
            self._known[name] = self._packs[found.number] = found
        return found

    def _behind(self, pack: Pack) -> Sequence[tuple[int, Record]]:
        """The records behind those that are known."""
        if pack.descriptor is not None or pack.gone or pack.whole:
            return []
        with suppress(FileNotFoundError):
            descriptor = os.open(pack.path, os.O_RDONLY)
            try:
                return self.read_on(pack, descriptor)
            finally:
                os.close(descriptor)
        return []

    def lost(self, pack: Pack, place: Place, end: int) -> Sequence[tuple[int, Record]]:
        """The last record of a pack, of which only its name and its `end` are known; for `note`."""
        pack.end, pack.last = end, place
        return [(pack.number, pack_file.lost(place, end))]

    def read_on(self, pack: Pack, descriptor: int, end: End | None = None) -> Sequence[tuple[int, Record]]:
        """The records behind those that are known, up to the first of which nothing is known, or to `end`; for
        `note`."""
        found = list(pack_file.records(descriptor, pack.name, pack.end, None if end is None else end.at))
        if found:
            pack.end, pack.last = found[-1].end, found[-1].place
            pack.marked |= not all(record.there for record in found)
        return [(pack.number, record) for record in found if record.there]

    def note(self, new: Sequence[tuple[int, Record]]) -> None:
        """Records that were found, of any packs: each folder is put in order once."""
        by_folder: dict[str, list[_New]] = defaultdict(list)
        for pack, record in new:
            folder, number = _split(record.name)
            by_folder[folder].append((number, pack, record.start, record.length))
            self._packs[pack].there += 1
        for folder, commits in by_folder.items():
            self._commits.setdefault(folder, _Commits()).add(commits)

    def forget_all_but(self, there: Sequence[str]) -> None:
        """Forget the packs that are not there any more."""
        self.forget([self._known[name] for name in self._known.keys() - set(there)])

    def forget(self, packs: Sequence[Pack]) -> None:
        """Forget packs that were removed, and all that is still known to lie in them. One that this process appends to
        is known until its end."""
        with self.lock:
            for pack in packs:
                pack.gone = True
            self._drop([pack.number for pack in packs if pack.there])
            for pack in packs:
                pack.there = 0
                if pack.descriptor is None:
                    self._known.pop(pack.name, None)
                    self._packs.pop(pack.number, None)

    def _drop(self, numbers: Sequence[int]) -> None:
        for folder, commits in [*self._commits.items()] if numbers else []:
            commits.drop(numbers)
            if not len(commits):
                del self._commits[folder]

    def begin(self, name: str, descriptor: int) -> Pack:
        """A pack that this process appends to."""
        with self.lock:
            pack = self.pack(name)
            pack.descriptor = descriptor
            return pack

    def add(self, pack: Pack, name: str, start: int, length: int) -> None:
        """A record that was just made durable."""
        folder, number = _split(name)
        with self.lock:
            commits = self._commits.get(folder)
            if commits is None:
                commits = self._commits[folder] = _Commits()
            commits.add([(number, pack.number, start, length)])
            pack.there += 1

    def retire(self, pack: Pack, end: int, last: Place) -> None:
        """Nothing more is appended; what lies before `end` is known."""
        with self.lock:
            if pack.descriptor is not None:
                os.close(pack.descriptor)
            pack.descriptor, pack.end, pack.last, pack.whole = None, end, last, True

    def delete(self, name: str) -> Pack | None:
        """Mark an object deleted, not durably; the pack in which it lay, or None.

        Raises:
            OSError
        """
        with self.lock:
            found = self._find(name)
            if found is None:
                return None
            number, start, _ = found
            pack = self._packs[number]
            self._forget(name)
            pack.there -= 1
            if pack.there or not pack.whole:
                pack_file.mark_deleted(pack.path, start)
                pack.marked = True
            return pack

    def settle(self) -> None:
        """Make the marks of deletion durable.

        Raises:
            OSError: they may come undone, and this will be raised until the next start.
        """
        with self._settling:
            if self._unsettled is not None:
                raise OSError(*self._unsettled.args)
            with self.lock:
                marked = [pack for pack in self._known.values() if pack.marked and not pack.gone]
                for pack in marked:
                    pack.marked = False
            for pack in marked:
                try:
                    files.sync_data(pack.path)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._unsettled = error
                    raise

    def _forget(self, name: str) -> None:
        folder, number = _split(name)
        commits = self._commits[folder]
        commits.remove(number)
        if not len(commits):
            del self._commits[folder]

    def empty(self) -> Sequence[Pack]:
        """Packs in which nothing is any more; from now on they count as gone."""
        with self.lock:
            found = [pack for pack in self._known.values() if pack.whole and not pack.there and not pack.gone]
            for pack in found:
                pack.gone = True
            return found

    def keep(self, packs: Sequence[Pack]) -> None:
        """They are not gone after all."""
        with self.lock:
            for pack in packs:
                pack.gone = False


def _split(name: str) -> tuple[str, int]:
    """Folder and number of a commit's name; a number that no commit has for other names."""
    folder, _, number = name.rpartition("/")
    return folder, int(number) if number.isdigit() else -1
