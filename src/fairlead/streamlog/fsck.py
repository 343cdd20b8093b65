"""Checks every object of a data directory: what is damaged, missing or not ours. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fairlead.model.errors import CorruptBatch, Damaged, FairleadError
from fairlead.protocol.batch import check_stored
from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.streamlog import payloads
from fairlead.streamlog.merging.garbage import unreferenced
from fairlead.streamlog.objects import checkpoint, format, opening
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.manifest import Manifest
from fairlead.streamlog.rows import Kind, Row


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    name: str
    """Name of the object."""
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(slots=True)
class Checked:
    """How much was looked at."""

    objects: int = 0
    bytes: int = 0
    left_over: int = 0
    """Objects that no manifest names: harmless, the server sweeps them."""


def fsck(storage: Storage, checked: Checked | None = None) -> Iterator[Problem]:
    """Look at every log of the storage; yields problems as they are found.

    Every object that counts is read in full: columns, control rows, and each record batch with its CRC. The cluster's
    own description is not looked at here.
    """
    checked = checked or Checked()
    for prefix in prefixes(storage):
        yield from _check_log(storage, prefix, checked)


def prefixes(storage: Storage) -> list[str]:
    """Prefixes of all logs in the storage."""
    found = (names.prefix_of(name) for name in storage.list(""))
    return sorted({prefix for prefix in found if prefix is not None})


def _check_log(storage: Storage, prefix: str, checked: Checked) -> Iterator[Problem]:
    try:
        manifest = manifests.newest(storage, prefix)
    except FairleadError as error:
        yield _problem(prefix, error)
        return
    if manifest is None:
        return
    checked.objects += 1
    checked.left_over += len(unreferenced(storage, manifest))
    yield from _check_epochs(storage, manifest)
    yield from _check_end(storage, manifest)
    for name in _names(storage, manifest):
        checked.objects += 1
        yield from _check_rows(storage, name, checked)
    if manifest.checkpoint is not None:
        checked.objects += 1
        yield from _check_checkpoint(storage, manifest.checkpoint.name, checked)


def _check_epochs(storage: Storage, manifest: Manifest) -> Iterator[Problem]:
    for epoch in manifest.epochs:
        name = names.epoch(manifest.prefix, epoch.number)
        if storage.size(name) is None:
            yield Problem(name, "the claim of a writer epoch is missing")


def _check_end(storage: Storage, manifest: Manifest) -> Iterator[Problem]:
    try:
        opening.end_of(storage, manifest)
    except Damaged as error:
        yield _problem(error.name, error)


def _names(storage: Storage, manifest: Manifest) -> Iterator[str]:
    """All objects of rows that count, including those that the last writer wrote after its manifest."""
    yield from (segment.name for segment in manifest.segments)
    last = manifest.epochs[-1]
    end = max(last.first, manifest.merged_end)
    for number in range(manifest.merged_end, end):
        yield manifest.commit_name(number)
    while storage.size(names.commit(manifest.prefix, last.number, end)) is not None:
        yield names.commit(manifest.prefix, last.number, end)
        end += 1


def _check_rows(storage: Storage, name: str, checked: Checked) -> Iterator[Problem]:
    try:
        data = storage.get(name)
        checked.bytes += len(data)
        columns = format.read_whole(data, name)
    except FairleadError as error:
        yield _problem(name, error)
        return
    yield from _check_batches(columns)


def _check_batches(columns: Columns) -> Iterator[Problem]:
    """The first row that does not hold together; further ones of the same object say nothing new."""
    for row in columns.rows():
        try:
            _check_row(row)
        except CorruptBatch as error:
            where = f"commit {row.commit}, row {row.row}, topic number {row.topic}, partition {row.partition}"
            yield Problem(columns.name, f"{where}: {error}")
            return


def _check_row(row: Row) -> None:
    if row.kind == Kind.BATCH:
        check_stored(row.batch, row.base_offset, row.last_offset)
    else:
        payloads.control_key(row.kind, row.topic, row.partition, row.batch)


def _check_checkpoint(storage: Storage, name: str, checked: Checked) -> Iterable[Problem]:
    try:
        data = storage.get(name)
        checked.bytes += len(data)
        checkpoint.read(data, name)
    except FairleadError as error:
        return [_problem(name, error)]
    return []


def _problem(name: str, error: FairleadError) -> Problem:
    return Problem(error.name, error.why) if isinstance(error, Damaged) else Problem(name, str(error))


def check_all(storage: Storage) -> list[Problem]:
    """All problems of a storage; see `fsck`."""
    return list(fsck(storage))
