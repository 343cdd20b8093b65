"""Carrying out a merge job: read the inputs, write segments and, if wanted, a checkpoint.

Memory holds the inputs that are commits, the columns and control rows of segments, one output segment, and 8 MB of what
is being gathered. Nothing written here is read before a manifest names it. An attempt that fails removes what it has
written: it may have failed for lack of room, and nothing would be swept before the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from fairlead.model.clock import Randomness
from fairlead.model.errors import CorruptBatch, Damaged, FairleadError, StorageUnavailable
from fairlead.model.names import SLICES
from fairlead.storage import names
from fairlead.storage.interface import Put, Storage
from fairlead.streamlog.merging.job import ROW_BYTES, MergeJob, MergeResult
from fairlead.streamlog.merging.survivors import Merged, deleted_rows, has_batches, loses, merge
from fairlead.streamlog.numbers import slices_of_numbers
from fairlead.streamlog.objects import checkpoint, format
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.manifest import CheckpointEntry, SegmentEntry, SegmentKind, SliceCount
from fairlead.streamlog.reading.lasting import replay_rows, replay_segments
from fairlead.streamlog.reading.located import LocatedRows, load, open_object, together
from fairlead.streamlog.reading.slices import sendable
from fairlead.streamlog.rows import Row
from fairlead.streamlog.state import effects, snapshot
from fairlead.streamlog.state.shard_state import ShardState

GATHER_BYTES: Final = 8 << 20
"""How much of the batches is gathered in memory at a time."""
LARGE_BYTES: Final = 16 << 10
"""Batches of this size or more are written from where they lie; smaller ones cost less if they are copied together."""


def run(storage: Storage, randomness: Randomness, job: MergeJob) -> MergeResult:
    """Do the job. Blocking.

    Raises:
        Damaged, Missing: an input cannot be read.
        StorageFull, StorageUnavailable: an output cannot be written.
    """
    merge = _Merge(storage, randomness, job)
    try:
        return merge.run()
    except Exception:
        _remove(storage, merge.put)
        raise


def remove(storage: Storage, result: MergeResult) -> None:
    """Remove what a job has made. Blocking; only where it is certain that no manifest names it."""
    _remove(storage, [segment.name for segment in result.added])
    if result.checkpoint is not None:
        _remove(storage, [result.checkpoint.name])


def _remove(storage: Storage, found: Iterable[str]) -> None:
    for name in found:
        with suppress(FairleadError):  # it is swept later
            storage.delete(name)


@dataclass(slots=True)
class _Merge:
    storage: Storage
    randomness: Randomness
    job: MergeJob
    put: list[str] = field(default_factory=list)
    """What it has written, or may have."""

    def run(self) -> MergeResult:
        job = self.job
        segments = self._worth_it([open_object(self.storage, item) for item in job.inputs])
        removed = tuple(columns.name for columns in segments)
        kept = tuple(item.name for item in job.inputs if item.name not in removed)
        inputs = [*segments, *self._open_commits()]
        if not inputs:
            return MergeResult(job.first, job.end, job.planned_at, (), (), 0, None, None, kept)
        rows = together(inputs)
        merged = self._merge(rows)
        control = self._write_control(merged, all_inputs=not kept)
        return MergeResult(
            job.first,
            job.end,
            job.planned_at,
            (*self._write_data(rows, merged.data), *control),
            removed,
            len(merged.starts),
            control[0].name if control else None,
            self._checkpoint(rows, merged.starts),
            kept,
        )

    def _open_commits(self) -> Iterator[Columns]:
        """Each commit, read as a whole: its rows go to many places, and reading them singly costs three times more."""
        for commits in self.job.commits:
            for item in commits.objects(self.job.prefix):
                yield format.read_whole(self.storage.get(item.name), item.name)

    def _merge(self, rows: LocatedRows) -> Merged:
        try:
            return merge(self.storage, rows, self.job)
        except CorruptBatch as error:
            raise Damaged(f"{self.job.prefix}, commits [{self.job.first}, {self.job.end})", str(error)) from error

    def _worth_it(self, inputs: list[Columns]) -> list[Columns]:
        """Inputs that are rewritten: all, or those in which enough goes."""
        if self.job.only_losing:
            losing = [columns for columns in inputs if loses(columns, self.job)]
            control = [columns for columns in inputs if not has_batches(columns)]
            return [*control, *losing] if losing else []
        if not self.job.reclaim_share:
            return inputs
        return [columns for columns in inputs if self._deleted_share(columns) >= self.job.reclaim_share]

    def _deleted_share(self, columns: Columns) -> float:
        sizes = columns.size.astype(np.int64) + ROW_BYTES
        total = int(sizes.sum())
        return int(sizes[deleted_rows(columns, self.job.deleted)].sum()) / total if total else 0.0

    def _write_data(self, rows: LocatedRows, places: NDArray[np.int64]) -> Iterator[SegmentEntry]:
        for part in _split(rows.columns.take(places), self.job.segment_bytes_max):
            chosen = rows.take(places[part])
            gathered = [piece for cut in _chunks(chosen.columns) for piece in self._gather(chosen.take(cut))]
            name = self._new_name()
            yield self._write(name, "data", chosen.columns, self._encoded_columns(name, chosen.columns, gathered))

    def _gather(self, rows: LocatedRows) -> Sequence[Buffer]:
        """The batches in order: large ones of commits are left where they lie, all others are put side by side."""
        large = rows.columns.batch_bytes() >= LARGE_BYTES * len(rows.columns)
        if not large or any(rows.objects[place].data is None for place in np.unique(rows.object).tolist()):
            return [_joined(load(self.storage, rows).runs())]
        places = zip(rows.object.tolist(), rows.columns.position.tolist(), rows.columns.size.tolist(), strict=True)
        return [_view(rows.objects[place], position, size) for place, position, size in places]

    def _write_control(self, merged: Merged, *, all_inputs: bool) -> list[SegmentEntry]:
        """Write the control rows. If a run keeps no row at all, an empty segment says that its commits were merged."""
        empty_run = all_inputs and self.job.whole_run and not len(merged.data)
        if not merged.control and not empty_run:
            return []
        name = self._new_name()
        data = b"".join(bytes(memoryview(buffer)) for buffer in self._encoded(name, merged.control))
        return [self._write(name, "control", format.read_whole(data, name), [data])]

    def _new_name(self) -> str:
        return names.segment(self.job.prefix, self.randomness.id16())

    def _encoded(self, name: str, rows: Sequence[Row]) -> list[Buffer]:
        return format.encode(rows, name=name, object_kind="segment", first=self.job.first, end=self.job.end)

    def _encoded_columns(self, name: str, columns: Columns, batches: Sequence[Buffer]) -> list[Buffer]:
        first, end = self.job.first, self.job.end
        return format.encode_columns(columns, batches, name=name, object_kind="segment", first=first, end=end)

    def _write(self, name: str, kind: SegmentKind, columns: Columns, buffers: Sequence[Buffer]) -> SegmentEntry:
        job = self.job
        size = self._put(name, buffers)
        # A topic that was deleted in the very millisecond of the plan was not looked at.
        times = {"cleaned_at": job.planned_at - 1, "expired_to": job.cut_off_ms or 0}
        return segment_entry(name, kind, columns, size, first=job.first, end=job.end, **times)

    def _put(self, name: str, buffers: Sequence[Buffer]) -> int:
        self.put.append(name)
        outcome = self.storage.put_if_absent(name, buffers)
        if outcome not in {Put.WRITTEN, Put.MINE}:
            raise StorageUnavailable(f"{name}: not known to be written; merging tries again under another name")
        return sum(memoryview(buffer).nbytes for buffer in buffers)

    def _checkpoint(self, rows: LocatedRows, starts: Sequence[Row]) -> CheckpointEntry | None:
        """A checkpoint at the run's end, or the old one with the new `start` rows, which lie before its commit."""
        if self.job.make_checkpoint:
            state, commit = self._state_at_end(rows, self._base()), self.job.end
        elif starts and (base := self._base()) is not None:
            state, commit = base
        else:
            return None
        for row in starts:
            if row.commit < commit:
                effects.replay(state, row)
        self._forget_producers(state)
        entry = CheckpointEntry(names.checkpoint(self.job.prefix, self.randomness.id16()), commit)
        self._put(entry.name, checkpoint.write(*snapshot.dump(state), name=entry.name, commit=commit))
        return entry

    def _forget_producers(self, state: ShardState) -> None:
        """Leave out whoever was silent for too long, or wrote to a topic that is gone: what one checkpoint holds goes
        into the next, and nobody else takes it out."""
        if self.job.producers_before_ms is not None:
            state.producers.expire(self.job.producers_before_ms)
        for number, partition in {key[:2] for key in state.producers.known()}:
            if state.topic_table.slot_of(number, partition) < 0:
                state.producers.forget(number, partition)

    def _base(self) -> tuple[ShardState, int] | None:
        """State of the old checkpoint and its commit; None if it is lost or damaged, since it is only a shortcut."""
        entry = self.job.checkpoint
        if entry is None:
            return None
        try:
            tables, meta = checkpoint.read(self.storage.get(entry.name), entry.name, entry.commit)
            return snapshot.load(self.job.stream_id, tables, meta), entry.commit
        except (Damaged, ValueError, KeyError):
            return None

    def _state_at_end(self, rows: LocatedRows, base: tuple[ShardState, int] | None) -> ShardState:
        state, from_commit = base or (ShardState(self.job.stream_id), 0)
        replay_segments(self.storage, state, self.job.replay, from_commit)
        replay_rows(self.storage, state, rows.take(np.flatnonzero(rows.columns.commit >= from_commit)))
        return state


def _view(source: Columns, position: int, size: int) -> memoryview:
    assert source.data is not None
    start = position - source.data_position
    return source.data[start : start + size]


def _joined(pieces: Sequence[memoryview]) -> Buffer:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def segment_entry(
    name: str,
    kind: SegmentKind,
    columns: Columns,
    size: int,
    *,
    first: int,
    end: int,
    cleaned_at: int = 0,
    expired_to: int = 0,
) -> SegmentEntry:
    """What a manifest says of a segment with these rows and this length, which stands for commits [first, end)."""
    times = columns.appended_at if len(columns) else np.zeros(1, np.int64)
    stamps = columns.max_timestamp[columns.max_timestamp >= 0]
    return SegmentEntry(
        name,
        kind,
        first,
        end,
        len(columns),
        size,
        int(times.min()),
        int(times.max()),
        cleaned_at,
        expired_to,
        int(stamps.min()) if len(stamps) else -1,
        int(stamps.max()) if len(stamps) else -1,
        count_slices(columns),
    )


def count_slices(columns: Columns) -> tuple[SliceCount, ...]:
    """Rows, bytes and records by slice; rows that are never sent come last."""
    slices = np.where(sendable(columns), slices_of_numbers(columns.topic), SLICES).astype(np.int64)
    counts = [
        np.bincount(slices, weights, SLICES + 1).astype(np.int64).tolist()
        for weights in (np.ones(len(columns)), columns.size, columns.records)
    ]
    return tuple(SliceCount(*numbers) for numbers in zip(*counts, strict=True))


def _split(columns: Columns, bytes_max: int) -> list[slice]:
    """Stretches of rows that each make a segment of at most `bytes_max` (or of one row)."""
    return _cut(columns.size.astype(np.int64) + ROW_BYTES, bytes_max)


def _chunks(columns: Columns) -> Iterator[NDArray[np.int64]]:
    for part in _cut(columns.size.astype(np.int64), GATHER_BYTES):
        yield np.arange(part.start, part.stop)


def _cut(sizes: NDArray[np.int64], bytes_max: int) -> list[slice]:
    totals = np.cumsum(sizes)
    cuts: list[slice] = []
    start, done = 0, 0
    while start < len(sizes):
        stop = max(start + 1, int(np.searchsorted(totals, done + bytes_max, side="right")))
        cuts.append(slice(start, stop))
        start, done = stop, int(totals[stop - 1])
    return cuts
