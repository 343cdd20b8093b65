"""Takes objects out of their logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

import numpy as np

from fairlead.model.clock import Randomness
from fairlead.model.errors import CorruptBatch, Damaged, InvalidValue, Missing, StorageUnavailable
from fairlead.model.names import SLICES
from fairlead.storage import names
from fairlead.storage.interface import Put, Storage
from fairlead.streamlog import marks
from fairlead.streamlog.batch_rows import check_batch_row
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.job import MergeJob
from fairlead.streamlog.merging.run_job import segment_entry
from fairlead.streamlog.merging.survivors import control_order, segment_order
from fairlead.streamlog.objects import checkpoint, claim, format, opening
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.manifest import CheckpointEntry, CommitRange, Manifest, SegmentEntry, SegmentKind, order
from fairlead.streamlog.payloads import EntryPayload, TopicPayload
from fairlead.streamlog.reading.index import Tail
from fairlead.streamlog.reading.located import open_object
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.set_aside.evidence import Evidence, Lost
from fairlead.streamlog.set_aside.stand_ins import (
    REASON,
    control_row,
    cut_rows,
    deletion_rows,
    gap_rows,
    mark_rows,
    told,
    topic_name,
)
from fairlead.streamlog.state import effects, snapshot
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Opener
from fairlead.streamlog.writing import recovery


def set_aside(storage: Storage, wanted: Sequence[str], randomness: Randomness, now_ms: int) -> Iterator[str]:
    """Set these objects aside; yields what became of each and what is lost. The server is stopped. Blocking.

    Raises:
        InvalidValue: an object is whole, needed to say what counts, or not the only one that is damaged; nothing
            but a claim has been put into its log.
        Damaged: its log cannot be opened at all.
        StorageFull, StorageUnavailable
    """
    for name in wanted:
        _check_kind(name)
    for prefix, group in groupby(sorted(wanted), lambda name: names.prefix_of(name) or ""):
        yield from _Log(storage, prefix, list(group), randomness, now_ms).without_them()


def _check_kind(name: str) -> None:
    prefix = names.prefix_of(name)
    if prefix is None:
        raise InvalidValue(f"{name} is no object of a log; restore it from a copy")
    if names.parse_manifest(name) is not None:
        raise InvalidValue(f"{name}: nothing else says which objects count; restore it from a copy")
    if prefix == names.META and names.parse_epoch(name) is None and not names.is_checkpoint(name):
        raise InvalidValue(f"{name}: the cluster's own log says which streams there are; restore it from a copy")


class _Log:
    """One log, while objects are taken out of it."""

    def __init__(self, storage: Storage, prefix: str, wanted: list[str], randomness: Randomness, now_ms: int) -> None:
        self._storage = storage
        self._prefix = prefix
        self._wanted = wanted
        self._randomness = randomness
        self._now_ms = now_ms

    def without_them(self) -> Iterator[str]:
        storage, prefix = self._storage, self._prefix
        ruling = manifests.newest(storage, prefix)
        if ruling is None:
            raise Damaged(names.manifests_of(prefix), "no manifest is there; restore it from a copy")
        storage.sync(prefix + "/")
        epoch = opening.claim(storage, prefix, ruling.log, self._randomness, self._opener(), self._now_ms)
        damages: list[Damaged] = []
        manifest = opening.next_manifest(storage, prefix, ruling.log, epoch, damages)
        state, _ = recovery.recover(storage, manifest, ruling.log, Tail(), damages)
        for damage in damages:
            if damage.name not in self._wanted:
                raise InvalidValue(f"{damage.name} is damaged too ({damage.why}); set it aside as well, or restore it")
        lost = [each for name in self._wanted if (each := self._judged(manifest, name)) is not None]
        lost.sort(key=attrgetter("first"))
        yield from self._copied()
        if lost or (manifest.checkpoint is not None and manifest.checkpoint.name in self._wanted):
            manifest, said = self._cured(manifest, state, lost)
            opening.put_manifest(storage, manifest, epoch)
            opening.check_rules(storage, manifest)
            yield from said
        for name in self._wanted:
            storage.delete(name)
            self._claim_again(manifest, name)

    def _copied(self) -> Iterator[str]:
        for name in self._wanted:
            try:
                data = self._storage.get_unchecked(name)
            except Missing:
                yield f"{name}: missing; the log goes on without it"
                continue
            self._put(names.set_aside(name), data)
            yield f"{name}: is now {names.set_aside(name)}"

    def _put(self, name: str, data: bytes) -> None:
        if opening.put_known(self._storage, name, data) is Put.ANOTHER:
            raise StorageUnavailable(f"{name}: another object has that name; move it away and try again")

    def _claim_again(self, manifest: Manifest, name: str) -> None:
        number = names.parse_epoch(name)
        if number is not None:
            id = next((epoch.id for epoch in manifest.epochs if epoch.number == number), self._randomness.id16())
            own = opening.last_claim(self._storage, self._prefix)
            assert own is not None, "ours is there"
            self._put(name, claim.encode(replace(own, epoch=number, id=id)))

    def _opener(self) -> Opener:
        """The log stays with the server that had it."""
        last = opening.last_claim(self._storage, self._prefix)
        return Opener() if last is None else Opener(last.node)

    # What is lost

    def _judged(self, manifest: Manifest, name: str) -> Lost | None:
        """What is lost with an object; None if none of its rows counts."""
        commit = names.parse_commit(name)
        segment = next((segment for segment in manifest.segments if segment.name == name), None)
        if commit is not None:
            number = commit.number
            if not manifest.merged_end <= number < manifest.epochs[-1].first or manifest.commit_name(number) != name:
                raise InvalidValue(f"{name} does not count: the log needs no cure")
            return self._of_rows(name, number, number + 1, frozenset(range(SLICES)))
        if segment is not None:
            slices = frozenset(number for number, counts in enumerate(segment.slices[:-1]) if counts.rows)
            return self._of_rows(name, segment.first, segment.end, slices)
        if names.is_segment(name):
            raise InvalidValue(f"{name} does not count: the log needs no cure")
        self._check_harmed(manifest, name)
        return None

    def _check_harmed(self, manifest: Manifest, name: str) -> None:
        """A claim or checkpoint that is whole stays."""
        entry = manifest.checkpoint
        try:
            data = self._storage.get(name)
            if names.parse_epoch(name) is not None:
                claim.decode(data, name)
            elif entry is None or entry.name != name:
                raise InvalidValue(f"{name} does not count: the log needs no cure")
            else:
                checkpoint.read(data, name, entry.commit)
        except Damaged:
            return
        raise InvalidValue(f"{name} is whole")

    def _of_rows(self, name: str, first: int, end: int, slices: frozenset[int]) -> Lost:
        try:
            columns, control_is_whole = format.read_damaged(self._storage.get_unchecked(name), name)
        except Damaged:
            return Lost(name, first, end, slices, None, np.zeros(0, np.bool_))
        whole = np.array([_is_whole(row, control_is_whole) for row in columns.rows()], np.bool_)
        if whole.all() and self._is_whole(name):
            raise InvalidValue(f"{name} is whole")
        return Lost(name, first, end, slices, columns, whole)

    def _is_whole(self, name: str) -> bool:
        try:
            format.read_whole(self._storage.get(name), name)
        except Damaged:
            return False
        return True

    # What takes its place

    def _cured(self, manifest: Manifest, state: ShardState, lost: Sequence[Lost]) -> tuple[Manifest, list[str]]:
        covering = self._covering(manifest, lost)
        if not lost:
            return replace(manifest, checkpoint=covering), []
        gone = {each.name for each in lost}
        tail = [each for each in lost if each.first >= manifest.merged_end]
        segments = [segment for segment in manifest.segments if segment.name not in gone]
        if tail:
            segments += self._merged(manifest, gone)
        left = [open_object(self._storage, segment.object) for segment in segments]
        if not tail:
            commits = manifest.objects(manifest.merged_end, manifest.epochs[-1].first)
            left += [open_object(self._storage, commit) for commit in commits if not commit.segment]
        kept = [each.columns.take(each.whole) for each in lost if each.columns is not None]
        found = Evidence([*left, *kept], lost, state if covering is not None else None)
        for number, partition in found.unknown_cuts():
            raise InvalidValue(
                f"{lost[0].name}: partition {partition} of topic {topic_name(state, number)} was cut there, and nobody "
                "knows where; restore it from a copy"
            )
        topics, said = self._topics(found, state, manifest.log)
        gaps = found.gaps(state)
        unknown = {} if covering is not None else found.unknown_ends(state)
        said += told(state, gaps, unknown)
        starts = [*gap_rows(gaps, lost, state), *deletion_rows(lost, state)]
        rows = [*topics, *starts, *cut_rows(found.lost_cuts), *mark_rows(unknown, lost)]
        runs = {(s.first, s.end) for s in manifest.segments}
        if tail:
            runs.add((manifest.merged_end, manifest.epochs[-1].first))
        for first, end in sorted(runs):
            here = [each for each in lost if first <= each.first and each.end <= end]
            if here:
                taken = [row for row in rows if first <= row.commit < end]
                empty = not any((s.first, s.end) == (first, end) for s in segments)
                segments += self._stand_ins(first, end, here, taken, empty=empty)
        if covering is not None:
            covering = self._with_gaps(state, starts, manifest.epochs[-1].first)
        return replace(manifest, segments=order(segments), checkpoint=covering), said

    def _covering(self, manifest: Manifest, lost: Sequence[Lost]) -> CheckpointEntry | None:
        """The checkpoint, if it has all that is lost; it could not be used with what takes the place of the rest."""
        entry = manifest.checkpoint
        if entry is None or entry.name in self._wanted:
            return None
        try:
            checkpoint.read(self._storage.get(entry.name), entry.name, entry.commit)
        except Damaged:
            return None
        return entry if all(each.end <= entry.commit for each in lost) else None

    def _with_gaps(self, state: ShardState, starts: Iterable[Row], end: int) -> CheckpointEntry:
        """A checkpoint of the state at the log's end, which knows the gaps too."""
        for row in starts:
            effects.replay(state, row)
        entry = CheckpointEntry(names.checkpoint(self._prefix, self._randomness.id16()), end)
        tables, meta = snapshot.dump(state)
        opening.put_known(self._storage, entry.name, checkpoint.write(tables, meta, name=entry.name, commit=end))
        return entry

    def _merged(self, manifest: Manifest, gone: set[str]) -> Sequence[SegmentEntry]:
        first, end = manifest.merged_end, manifest.epochs[-1].first
        ranges = [
            CommitRange(commits.epoch, number, number + 1)
            for commits in manifest.commit_ranges(first, end)
            for number in range(commits.first, commits.end)
            if names.commit(manifest.prefix, commits.epoch, number) not in gone
        ]
        if not ranges:
            return ()
        job = MergeJob(manifest.prefix, manifest.log, first, end, (), planned_at=self._now_ms, commits=tuple(ranges))
        return run_job.run(self._storage, self._randomness, job).added

    def _stand_ins(
        self, first: int, end: int, lost: Sequence[Lost], rows: Sequence[Row], *, empty: bool
    ) -> Iterator[SegmentEntry]:
        """Segments of what could be kept, and of the rows that say what is lost."""
        control = list(rows)
        for each in lost:
            if each.columns is None:
                continue
            batch = each.columns.kind == Kind.BATCH
            data = each.columns.take(each.whole & batch)
            control += each.columns.take(each.whole & ~batch).rows()
            if len(data):
                data, empty = data.take(segment_order(data)), False
                yield self._segment(first, end, "data", data)
        if control or empty:
            encoded = format.encode(sorted(control, key=control_order), object_kind="segment", first=first, end=end)
            yield self._segment(first, end, "control", format.read_whole(b"".join(map(bytes, encoded))))

    def _segment(self, first: int, end: int, kind: SegmentKind, columns: Columns) -> SegmentEntry:
        name = names.segment(self._prefix, self._randomness.id16())
        buffers = format.encode_columns(columns, columns.runs(), name=name, object_kind="segment", first=first, end=end)
        opening.put_known(self._storage, name, buffers)
        size = sum(memoryview(buffer).nbytes for buffer in buffers)
        return segment_entry(name, kind, columns, size, first=first, end=end)

    def _topics(self, found: Evidence, state: ShardState, log: bytes) -> tuple[list[Row], list[str]]:
        """Rows that make topics of which rows are left and the making is lost."""
        rows, said = [], []
        deleted = {tombstone.number for tombstone in state.tombstones.values()} | state.yielded.keys()
        place = found.lost[0].first
        for number, partitions in found.not_made(state):
            known = state.topic(number)
            if known is not None:
                rows.append(control_row(Kind.TOPIC, place, 0, payload_of(known), topic=number))
            elif number not in deleted:
                name = f"{REASON}-{number}"
                made = TopicPayload(name, self._randomness.id16(), partitions, log, 0, 0)
                mark = EntryPayload(marks.key(number), marks.value(found.lost[0].name, None))
                rows += [control_row(Kind.TOPIC, place, 0, made, topic=number), control_row(Kind.ENTRY, place, 1, mark)]
                said.append(f"the making of topic number {number} is lost: it is now {name} and takes no records")
        return rows, said


def _is_whole(row: Row, control_is_whole: bool) -> bool:
    if row.kind != Kind.BATCH:
        return control_is_whole
    try:
        check_batch_row(row)
    except CorruptBatch:
        return False
    return True
