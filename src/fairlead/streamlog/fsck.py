"""Checks every object of a data directory: what is damaged, missing or not ours. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from fairlead.model.errors import CorruptBatch, Damaged, FairleadError
from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.streamlog import payloads
from fairlead.streamlog.batch_rows import check_batch_row
from fairlead.streamlog.merging.garbage import unreferenced
from fairlead.streamlog.objects import checkpoint, claim, format, opening
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.manifest import CheckpointEntry, Manifest, SegmentEntry
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
    yield from _check_meta(storage)
    for prefix in prefixes(storage):
        yield from _check_log(storage, prefix, checked)


def _check_meta(storage: Storage) -> Iterator[Problem]:
    """A stream is in the cluster's own log before its first object is there."""
    own, stream = (next(iter(storage.list(kind + "/")), None) for kind in (names.META, names.STREAMS))
    if own is None and stream is not None:
        yield Problem(names.META, f"the cluster's own log is missing, and streams are there ({stream})")


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
    doubts = [_problem(doubt.name, doubt) for doubt in opening.doubts(storage, prefix, manifest)]
    if doubts and manifests.newest_name(storage, prefix) != (manifest and manifest.name):
        yield from _check_log(storage, prefix, checked)  # a server has put another one, and may have merged
        return
    yield from doubts
    if manifest is None:
        return
    checked.objects += 1
    checked.left_over += len(unreferenced(storage, manifest))
    yield from _check_claims(storage, manifest)
    for problem in _check_objects(storage, manifest, checked):
        if storage.size(problem.name) is not None or _is_named(storage, prefix, problem.name):
            yield problem


def _is_named(storage: Storage, prefix: str, name: str) -> bool:
    """Whether the log needs the object still: a server that runs may have merged it meanwhile, and deleted it."""
    try:
        manifest = manifests.newest(storage, prefix)
    except FairleadError:
        return True
    if manifest is None:
        return True
    if (commit := names.parse_commit(name)) is not None:
        return commit.number >= manifest.merged_end
    checkpoint_name = None if manifest.checkpoint is None else manifest.checkpoint.name
    return name in {checkpoint_name, *(segment.name for segment in manifest.segments)}


def _check_objects(storage: Storage, manifest: Manifest, checked: Checked) -> Iterator[Problem]:
    """Every object that a manifest names, and the commits behind them."""
    for segment in manifest.segments:
        if segment.kind not in manifests.READABLE:
            continue  # has been named
        yield from _check_rows(storage, segment.name, checked, partial(_other_than, segment))
    for number in _commits(storage, manifest):
        epoch_id = manifest.epoch_id(number)
        yield from _check_rows(storage, manifest.commit_name(number), checked, partial(_of_another_epoch, epoch_id))
    if manifest.checkpoint is not None:
        checked.objects += 1
        yield from _check_checkpoint(storage, manifest.checkpoint, checked)


def _check_claims(storage: Storage, manifest: Manifest) -> Iterator[Problem]:
    """Every claim that is there, and those of the epochs that the manifest names. None is needed to open the log."""
    expected = {names.epoch(manifest.prefix, epoch.number): epoch.id for epoch in manifest.epochs}
    for name in sorted({*expected, *storage.list(names.epochs_of(manifest.prefix))}):
        try:
            found = claim.decode(storage.get(name), name)
        except FairleadError as error:
            yield _problem(name, error)
            continue
        if (expected.get(name, found.id), manifest.log) != (found.id, found.log):
            yield Problem(name, "is the claim of another epoch of this number, or of another log")


def _commits(storage: Storage, manifest: Manifest) -> Iterator[int]:
    """Commits that count, including those that the last writer wrote after its manifest; of these, what is missing has
    been named."""
    missing: list[Damaged] = []
    end = opening.end_of(storage, manifest, opening.commits_there(storage, manifest.prefix), missing)
    named = {damage.name for damage in missing}
    yield from (number for number in range(manifest.merged_end, end) if manifest.commit_name(number) not in named)


def _other_than(entry: SegmentEntry, columns: Columns) -> str:
    """What is otherwise in a segment than the manifest says; empty if nothing."""
    expected = (entry.first, entry.end, entry.rows)
    found = (columns.first, columns.end, len(columns))
    return "" if found == expected else f"has (first commit, end, rows) {found}, and its manifest says {expected}"


def _of_another_epoch(epoch_id: bytes, columns: Columns) -> str:
    same = columns.epoch_id == epoch_id
    return "" if same else "was written in another epoch of this number: it is of a copy of the log"


def _check_rows(storage: Storage, name: str, checked: Checked, judge: Callable[[Columns], str]) -> Iterator[Problem]:
    checked.objects += 1
    try:
        data = storage.get(name)
        checked.bytes += len(data)
        columns = format.read_whole(data, name)
    except FairleadError as error:
        yield _problem(name, error)
        return
    if why := judge(columns):
        yield Problem(name, why)
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
        check_batch_row(row)
    else:
        payloads.control_key(row.kind, row.topic, row.partition, row.batch, came=row.via is not None)


def _check_checkpoint(storage: Storage, entry: CheckpointEntry, checked: Checked) -> Iterable[Problem]:
    try:
        data = storage.get(entry.name)
        checked.bytes += len(data)
        checkpoint.read(data, entry.name, entry.commit)
    except FairleadError as error:
        return [_problem(entry.name, error)]
    return []


def _problem(name: str, error: FairleadError) -> Problem:
    return Problem(error.name, error.why) if isinstance(error, Damaged) else Problem(name, str(error))


def check_all(storage: Storage) -> list[Problem]:
    """All problems of a storage; see `fsck`."""
    return list(fsck(storage))
