"""The folder in which a query keeps what its tasks have left, and which of its batches the cluster has.

    <folder>/<query>/<batch>/<part>      what a task has left
    <folder>/<query>/<batch>/manifest    which parts count, and under which sequence numbers they go
    <folder>/<query>/done-<batch>        the cluster has that batch whole, and those before it

A manifest is put once: whoever comes second goes by the first. It is durable before anything of the batch is sent, and
removed only once a `done` says that the batch is there. The newest `done` counts, so a driver that was suspended and
says late that an older batch is there takes nothing back. The one before it stays too: whoever lists them while the
newest is made finds one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from fairlead.model.clock import SystemRandomness
from fairlead.model.errors import InvalidValue, StorageUnavailable
from fairlead.model.strict_json import JsonForm, Unreadable
from fairlead.records.writing.encoding import Encoded
from fairlead.records.writing.parts import NOTHING, PartInfo, Place, write_part
from fairlead.storage.files import put, sync_directory

T = TypeVar("T")
VERSION: Final = 1
_DONE: Final = "done-"
_MANIFEST: Final = "manifest"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What of a batch is sent."""

    version: int
    query: str
    batch: int
    made_ms: int
    remembered_ms: int
    """The cluster forgets a producer that sends nothing for so long."""
    parts: tuple[tuple[str, int], ...]
    """Names of files and their sizes, in the order in which they are sent."""
    first: dict[str, dict[int, int]]
    """Topic → partition → sequence number of its first record."""
    epochs: dict[str, dict[int, int]] = field(default_factory=dict)
    """Topic → partition → leader epoch when the manifest was made. It grows when the topic gets another owner."""

    @property
    def places(self) -> Mapping[Place, int]:
        """The same by partition."""
        return {Place(topic, number): first for topic, of in self.first.items() for number, first in of.items()}


_MANIFEST_FORM: Final = JsonForm(Manifest)


class Staging:
    """Of one query."""

    def __init__(self, folder: Path, query: str) -> None:
        self.query = query
        self._of_query = folder / _folder_name(query)

    def write(self, batch: int, batches: Iterable[Encoded]) -> PartInfo:
        """Leave what a task has, under a name that no other attempt has; nothing, if it fails.

        Raises:
            StorageUnavailable: the folder takes no more.
        """
        coming = iter(batches)
        first = next(coming, None)
        if first is None:
            return NOTHING
        folder = self._of_batch(batch)
        with writing_into(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            info = write_part(folder / f"part-{_random_name()}", chain((first,), coming))
            sync_directory(str(folder))
        return info

    def part(self, batch: int, name: str) -> Path:
        """The file of a part."""
        return self._of_batch(batch) / name

    def discard(self, batch: int, names: Iterable[str]) -> None:
        """Remove parts of tasks whose batch failed, unless a manifest names them."""
        if self.manifest(batch) is None:
            for name in filter(None, names):
                self.part(batch, name).unlink(missing_ok=True)

    def done(self) -> int:
        """The newest batch that is there whole; -1: none."""
        return max(self._all_done(), default=-1)

    def _all_done(self) -> list[int]:
        try:
            names = os.listdir(self._of_query)
        except FileNotFoundError:
            return []
        numbers = (name.removeprefix(_DONE) for name in names if name.startswith(_DONE))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def manifest(self, batch: int) -> Manifest | None:
        """What of the batch is sent, if that is settled. Raises: InvalidValue."""
        file = self._of_batch(batch) / _MANIFEST
        found = _read(file)
        return None if found is None else _parsed(_MANIFEST_FORM, found, file)

    def settle(self, manifest: Manifest) -> Manifest:
        """Put the batch's manifest; answers the one that is there from now on.

        Raises:
            InvalidValue, StorageUnavailable
        """
        folder = self._of_batch(manifest.batch)
        with writing_into(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            put(str(folder / f".{_random_name()}"), str(folder / _MANIFEST), _MANIFEST_FORM.write(manifest))
            for each in (folder, *list(folder.parents)[:3]):  # each of them may be new
                sync_directory(str(each))
        found = self.manifest(manifest.batch)
        assert found is not None
        return found

    def finish(self, batch: int) -> None:
        """Say that the batch is there whole, and remove what is not needed any more. Raises: StorageUnavailable."""
        with writing_into(self._of_query):
            self._of_query.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self._of_query / f"{_DONE}{batch}").touch()
            sync_directory(str(self._of_query))
        for each in self._of_query.iterdir():
            if each.name.isdecimal() and int(each.name) <= batch:
                shutil.rmtree(each, ignore_errors=True)
        for old in self._all_done()[:-2]:
            (self._of_query / f"{_DONE}{old}").unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all that is kept of the query."""
        shutil.rmtree(self._of_query, ignore_errors=True)

    def _of_batch(self, batch: int) -> Path:
        return self._of_query / str(batch)


def _folder_name(query: str) -> str:
    """Spark's ids are fit for a name of a folder; what users choose need not be."""
    plain = "".join(
        character for character in query if character.isascii() and (character.isalnum() or character in "-_")
    )
    return (
        query if query == plain and 0 < len(query) <= 64 else f"{plain[:32]}-{sha256(query.encode()).hexdigest()[:16]}"
    )


def _random_name() -> str:
    return SystemRandomness().id16().hex()


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Names the folder where a write fails, which the system does not. Raises: StorageUnavailable."""
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(f"the query cannot write into {folder}: {error.strerror or error}") from error


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _parsed(form: JsonForm[T], data: bytes, file: Path) -> T:
    try:
        return form.read(data)
    except Unreadable as error:
        raise InvalidValue(f"{file} is not understood: {error}") from error
