"""Which packs a directory has: `.register/<n>`, of which the highest *n* rules.

A pack is named here before its first record, again with its end once nothing more is appended, and a last time before
it is removed. So a pack that is missing, is an older version of itself or lost its last records is noticed. Every entry
says all; older entries are removed. It is JSON with a checksum, read strictly: only the exact bytes that its values
give are an entry.

Several processes may change it: an entry is put under a number that nobody has.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from fairlead.model.errors import Damaged
from fairlead.model.strict_json import JsonForm, Unreadable
from fairlead.storage import files, pack_file
from fairlead.storage.sealed_json import sealed

FOLDER: Final = ".register"


@dataclass(frozen=True, slots=True)
class End:
    """Where the records of a pack end."""

    at: int
    last: str
    """Name of the last record; empty if there is none."""
    start: int
    """Its place."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the register says."""

    number: int
    packs: Mapping[str, End | None] = field(default_factory=dict)
    """Names of packs, with their ends; None while their makers may append to them."""
    removed: tuple[str, ...] = ()
    """Names of packs that are removed, and may still be there or come back after a power failure."""

    @property
    def name(self) -> str:
        """Path below the data directory."""
        return f"{FOLDER}/{self.number:020d}"


_FORM: Final = JsonForm(Entry, head={"version": 1})


def encode(entry: Entry) -> bytes:
    """The bytes of an entry."""
    return sealed(_FORM.write(entry))


def decode(data: bytes, name: str) -> Entry:
    """The entry in a file. Raises: Damaged."""
    try:
        entry = _FORM.read(data)
    except Unreadable as error:
        raise Damaged(name, f"not an entry of the register of packs ({error})") from error
    if data != encode(entry):
        raise Damaged(name, "not an entry of the register of packs (the checksum does not fit)")
    if name != entry.name:
        raise Damaged(name, f"is the entry {entry.name} of the register of packs")
    return entry


class PackRegister:
    """The register of a data directory."""

    def __init__(self, root: str, temporary: Callable[[], str]) -> None:
        """`temporary`: paths for files that are being written."""
        self._root = root
        self._folder = os.path.join(root, FOLDER)
        self._temporary = temporary
        self._lock = threading.Lock()

    def sync(self) -> None:
        """Make durable what can be read: a process that was killed may have put an entry and not come to that. Packs
        are removed because of it from now on.

        Raises:
            OSError
        """
        if os.path.isdir(self._folder):
            for directory in (self._folder, self._root):
                files.sync_directory(directory)

    def read(self) -> Entry:
        """What is registered; nothing if there is no entry.

        Raises:
            Damaged: the newest entry cannot be read.
            OSError
        """
        while True:
            name = max(self._names(), default=None)
            if name is None:
                return Entry(0)
            try:
                with open(os.path.join(self._folder, name), "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue  # another process has put the next one
            return decode(data, f"{FOLDER}/{name}")

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except FileNotFoundError:
            return []

    def change(self, packs: Mapping[str, End | None], remove: Collection[str] = ()) -> None:
        """Register packs, or their ends, and remove others, durably.

        Raises:
            Damaged: the newest entry cannot be read.
            OSError: it is not known whether that is registered.
        """
        with self._lock:
            while not self._put(self._changed(self.read(), packs, remove)):
                pass

    def _changed(self, entry: Entry, packs: Mapping[str, End | None], remove: Collection[str]) -> Entry:
        # Where a pack ends may be told after another thread has removed it: it stays removed.
        news = {name: end for name, end in packs.items() if end is None or name in entry.packs}
        kept = {name: end for name, end in {**entry.packs, **news}.items() if name not in remove}
        # Looked at before the sync: only what is gone by then is gone durably after it.
        removed = [name for name in entry.removed if os.path.lexists(pack_file.path_of(self._root, name))]
        if len(removed) < len(entry.removed):
            files.sync_directory(os.path.join(self._root, pack_file.FOLDER))
        return Entry(entry.number + 1, dict(sorted(kept.items())), tuple(sorted({*removed, *remove})))

    def _put(self, entry: Entry) -> bool:
        """Put an entry and remove the older ones; False if its number is taken, or was: the entry that had it may be
        removed already, and then a later one is there."""
        path = os.path.join(self._root, entry.name)
        files.make_directories(self._folder)
        if not files.put(self._temporary(), path, encode(entry)) or max(self._names()) != os.path.basename(path):
            return False
        for directory in (self._folder, self._root):
            files.sync_directory(directory)
        for name in self._names():
            if name < os.path.basename(path):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._folder, name))
        return True
