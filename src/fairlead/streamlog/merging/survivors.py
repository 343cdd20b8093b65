"""What stays of a run of commits when it is merged: a pure function of its rows.

In: rows of a run [first, end), the cut-off of expiry, topics that are deleted or exempt, partitions whose first records
are deleted. Out: the record batches that stay, sorted by (slice, topic, partition, base_offset), and the control rows,
with a `start` row for each partition that lost records. Always true: replaying what stays gives the state that
replaying everything gave, except that expired and deleted records are gone; a row keeps its commit and its place in it.
What a cut made dead goes before the cut's own row is merged: until that is replayed, the partition ends lower.

Why each rule: `docs/formats/stream-log.md`, merging; cases F5 and F8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.model.names import SLICES
from fairlead.storage.interface import Storage
from fairlead.streamlog import payloads
from fairlead.streamlog.merging.job import MergeJob
from fairlead.streamlog.numbers import slice_of_number, slices_of_numbers
from fairlead.streamlog.objects.by_partition import Offsets, last_of_groups, packed_keys
from fairlead.streamlog.objects.columns import Columns, start_in_place
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.payloads import DELETED_RECORDS, History, PositionPayload, StartPayload
from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.reading.located import LocatedRows, load
from fairlead.streamlog.rows import KEPT_KINDS, NO_TOPIC, PASSED_ON_KINDS, Kind, Row
from fairlead.streamlog.values import DeadFrom, PartitionKey

EXPIRED = "ttl"
"""Reason in the `start` rows that merging makes."""

_NEVER_FORGOTTEN = frozenset({Kind.EXPIRED, Kind.CURSOR, Kind.COMMITTED, *PASSED_ON_KINDS})
"""Of a cursor that was deleted the version stays: who commits again must be newer than what other sites have."""
_FOLDED_APART = frozenset({Kind.POSITION, Kind.TRUNCATE})


@dataclass(frozen=True, slots=True)
class Merged:
    """What stays."""

    data: NDArray[np.int64]
    """Places, in the input, of the record batches that stay, in the order of a segment."""
    control: list[Row]
    """All other rows, in the order of a segment, including those made here."""
    starts: list[Row]
    """Those made here, because records before them were dropped."""


def merge(storage: Storage, rows: LocatedRows, job: MergeJob) -> Merged:
    """Decide about every row of the run.

    Raises:
        CorruptBatch: the payload of a control row cannot be read.
        Damaged, Missing, StorageUnavailable: its object cannot.
    """
    columns = rows.columns
    gone = deleted_rows(columns, job.deleted)
    dead = DeadRows(job.cuts, job.kept)
    batch = (columns.kind == Kind.BATCH) & ~gone & ~dead.among(columns)
    deleted = batch & _below(columns, job.deleted_to)
    expired = batch & (_expired(columns, job) | _below(columns, job.expired_below)) | deleted
    control = _control_rows(storage, rows, np.flatnonzero((columns.kind != Kind.BATCH) & ~gone))
    histories = _histories(control, job)
    starts = _starts(columns.take(expired), deleted[expired], histories, job)
    folded = _fold(sorted([*control, *starts], key=_log_order), job)
    data = np.flatnonzero(batch & ~expired | dead.kept(columns) & ~gone)
    return Merged(data[segment_order(columns.take(data))], sorted(folded, key=control_order), starts)


def deleted_rows(columns: Columns, deleted: Iterable[int]) -> NDArray[np.bool_]:
    """Rows of incarnations that `deleted` or these rows say are deleted, except the tombstones. If the tombstone comes
    later, TOPIC rows stay: rows between these and the tombstone may be of the partitions that they made."""
    tombstone = columns.kind == Kind.TOPIC_DELETED
    ended_here = np.isin(columns.topic, columns.topic[tombstone])
    ended_later = np.isin(columns.topic, np.fromiter(deleted, np.uint32)) & (columns.kind != Kind.TOPIC)
    found: NDArray[np.bool_] = (ended_here | ended_later) & ~tombstone & (columns.topic != NO_TOPIC)
    return found


def has_batches(columns: Columns) -> bool:
    """Whether these are rows of a data segment."""
    return bool(np.any(columns.kind == Kind.BATCH))


def loses(columns: Columns, job: MergeJob) -> bool:
    """Whether record batches among these rows do not stay."""
    dead = DeadRows(job.cuts, job.kept)
    below = _below(columns, job.deleted_to) | _below(columns, job.expired_below)
    goes = (_expired(columns, job) | below | dead.among(columns)) & ~dead.kept(columns)
    return bool(np.any((columns.kind == Kind.BATCH) & (goes | deleted_rows(columns, job.deleted))))


def _expired(columns: Columns, job: MergeJob) -> NDArray[np.bool_]:
    if job.cut_off_ms is None:
        return np.zeros(len(columns), np.bool_)
    exempt = np.isin(columns.topic, np.fromiter(job.compact, np.uint32))
    found: NDArray[np.bool_] = (columns.appended_at < job.cut_off_ms) & ~exempt
    return found


def _below(columns: Columns, offsets: Sequence[tuple[int, int, int]]) -> NDArray[np.bool_]:
    """Batches of which every record lies below the offset of its partition, given as (topic number, partition, offset):
    a batch of which some are left stays whole."""
    if not offsets:
        return np.zeros(len(columns), np.bool_)
    bounds = Offsets({(number, partition): offset for number, partition, offset in offsets}, -1)
    found: NDArray[np.bool_] = columns.last_offset < bounds.of(packed_keys(columns.topic, columns.partition))
    return found


def _control_rows(storage: Storage, rows: LocatedRows, places: NDArray[np.int64]) -> list[Row]:
    return list(load(storage, rows.take(places)).rows()) if len(places) else []


def _log_order(row: Row) -> tuple[int, int]:
    return row.commit, row.row


def control_order(row: Row) -> tuple[int, int, int, int, int]:
    """The key by which the rows of a control segment are sorted."""
    slice = SLICES if row.topic == NO_TOPIC else slice_of_number(row.topic)
    return slice, row.topic, row.partition, row.commit, row.row


def segment_order(columns: Columns) -> NDArray[np.int64]:
    """Places of record batches in the order of a data segment."""
    topic = columns.topic
    keys = (columns.row, columns.commit, columns.base_offset, columns.partition, topic, slices_of_numbers(topic))
    return np.lexsort(keys)


# start rows


class _Histories(dict[PartitionKey, History]):
    """Epoch histories as far as the job says; those that are changed stand here."""

    def __init__(self, job: MergeJob) -> None:
        self._told = job.histories

    def __missing__(self, key: PartitionKey) -> History:
        return self._told.of(key)


def _histories(control: Sequence[Row], job: MergeJob) -> _Histories:
    """Epoch histories as far as the job and the run's own `start` rows say, without epochs that were cut."""
    found = _Histories(job)
    cuts: dict[PartitionKey, list[DeadFrom]] = {}
    for cut in job.cuts:
        cuts.setdefault(cut[:2], []).append(cut)
    for row in sorted(control, key=_log_order):
        if row.kind == Kind.START:
            key = (row.topic, row.partition)
            lowest = min([cut[2] for cut in cuts.get(key, ()) if _log_order(row) < cut[3:]], default=OFFSET_MAX)
            told = payloads.decode_start(row.batch).history
            found[key] = _joined(found[key], (entry for entry in told if entry[1] < lowest))
    return found


def _joined(own: History, other: Iterable[tuple[int, int]]) -> History:
    newest = own[-1][0] if own else -1
    return (*own, *(entry for entry in other if entry[0] > newest))


def _starts(
    expired: Columns,
    deleted: NDArray[np.bool_],
    histories: _Histories,
    job: MergeJob,
) -> list[Row]:
    """One row for each partition with rows that expire or were `deleted`, in the place of the last of them. It has that
    row's origin and way: where batches like that one are not sent, a `start` row would declare a gap that another link
    fills. (What the epochs were before a cut among them, the row of the cut says.) What a later owner has deleted only
    that one's own row says: it reaches the owner before, to whom rows of its own are not sent."""
    if not len(expired):
        return []
    order = np.lexsort((expired.row, expired.commit, expired.partition, expired.topic))
    expired, deleted = expired.take(order), deleted[order]
    deletions = _Deletions(job)
    lasts = np.flatnonzero(last_of_groups(expired.topic, expired.partition))
    firsts = np.concatenate(([0], lasts[:-1] + 1))
    found: list[Row] = []
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        key = int(expired.topic[last]), int(expired.partition[last])
        history = _joined(histories[key], _epochs(expired, first, last))
        # Rows go by offsets in the order of the log: if the last was deleted, all were.
        reason = DELETED_RECORDS if deleted[last] else EXPIRED
        found.append(_start(expired, last, reason, history, deletions.told_in(key, int(expired.epoch[last]))))
    return found


class _Deletions:
    """Up to where records were deleted."""

    def __init__(self, job: MergeJob) -> None:
        self._to = {(number, partition): offset for number, partition, offset in job.deleted_to}
        self._before = {(number, partition): told for number, partition, *told in job.deleted_before}

    def told_in(self, key: PartitionKey, epoch: int) -> int:
        """The offset that a row of a topic epoch may tell."""
        since, before = self._before.get(key, (0, 0))
        return before if epoch < since else self._to.get(key, 0)


def _start(expired: Columns, last: int, reason: str, history: History, deleted_to: int) -> Row:
    """The row in the place of the batch `last`."""
    offset, epoch = int(expired.last_offset[last]) + 1, int(expired.epoch[last])
    before = tuple(entry for entry in history if entry[1] < offset)
    payload = StartPayload(reason, max(offset, deleted_to), before, deleted_to=deleted_to, epoch=epoch)
    return start_in_place(expired, last, payload)


def _epochs(rows: Columns, first: int, last: int) -> list[tuple[int, int]]:
    """(topic epoch, its first offset) of one partition's rows. Epoch 0 is a topic's first, so it begins at 0."""
    epochs, places = np.unique(rows.epoch[first : last + 1], return_index=True)
    offsets = rows.base_offset[first + places]
    return [
        (epoch, 0 if epoch == 0 else offset) for epoch, offset in zip(epochs.tolist(), offsets.tolist(), strict=True)
    ]


# Control rows


def _fold(rows: Sequence[Row], job: MergeJob) -> list[Row]:
    """Control rows, given in the order of the log, that still say something."""
    return [
        *_fold_starts([row for row in rows if row.kind in {Kind.START, Kind.TRUNCATE}]),
        *_fold_topics([row for row in rows if row.kind == Kind.TOPIC]),
        *_fold_tombstones([row for row in rows if row.kind == Kind.TOPIC_DELETED], job),
        *_fold_positions([row for row in rows if row.kind == Kind.POSITION], job),
        *_fold_values([row for row in rows if row.kind > Kind.TOPIC_DELETED and row.kind not in _FOLDED_APART], job),
    ]


def _groups(rows: Iterable[Row]) -> Iterable[list[Row]]:
    """Rows by topic and partition."""
    found: dict[PartitionKey, list[Row]] = {}
    for row in rows:
        found.setdefault((row.topic, row.partition), []).append(row)
    return found.values()


def _fold_starts(rows: Iterable[Row]) -> Iterator[Row]:
    """All TRUNCATE rows, which are few: each may be the only one that says what older rows are; and what is left
    of the START rows between two of them."""
    for group in _groups(rows):
        between: list[Row] = []
        for row in group:
            if row.kind == Kind.START:
                between.append(row)
            else:
                yield from _fold_uncut(between)
                between = []
                yield row
        yield from _fold_uncut(between)


def _fold_uncut(rows: Iterable[Row]) -> Iterator[Row]:
    """The row below which most is gone, the gaps above it, and the newest of those that say up to where records were
    deleted: a link that has passed the place of the first may still need the other, whose place is not before that of
    the deletion itself."""
    for group in _groups(rows):
        known = [(row, payloads.decode_start(row.batch)) for row in group]
        whole = [(row, payload) for row, payload in known if payload.gap_from is None]
        if not whole:
            yield from group
            continue
        highest = max(row.base_offset for row, _ in whole)
        furthest = max(payload.deleted_to for _, payload in whole)
        begins = max(_log_order(row) for row, _ in whole if row.base_offset == highest)
        deletes = max(_log_order(row) for row, payload in whole if payload.deleted_to == furthest)
        for row, payload in known:
            is_gap = payload.gap_from is not None and row.base_offset > highest
            if is_gap or _log_order(row) == begins or (furthest and _log_order(row) == deletes):
                yield row


def _fold_topics(rows: Iterable[Row]) -> Iterator[Row]:
    """The first and the newest row of a topic, and those that other rows may depend on: a batch of partition 7 means
    nothing before the row that added the partition."""
    for group in _groups(rows):
        shape: tuple[Any, ...] | None = None
        for row in group[:-1]:
            topic = payloads.decode_topic(row.batch)
            if (topic.partitions, topic.owner, topic.epoch, topic.name) != shape:
                shape = (topic.partitions, topic.owner, topic.epoch, topic.name)
                yield row
        yield group[-1]


def _fold_tombstones(rows: Sequence[Row], job: MergeJob) -> Iterator[Row]:
    """Tombstones that are young or that a link has not passed, and in each slice the one with the highest number, so
    that no number is given out again."""
    newest = {row.topic: row for row in rows}
    highest = {slice_of_number(number): number for number in sorted(newest)}
    for number, row in newest.items():
        if not job.forgets(row) or highest[slice_of_number(number)] == number:
            yield row


def _fold_positions(rows: Sequence[Row], job: MergeJob) -> Iterator[Row]:
    """The rows that speak of a slice of which no newer row speaks: others would lose the slices that newer masks lack.
    A row that forgets positions stays as long as an older one that stays speaks of one of its slices."""
    newer: dict[tuple[bytes, int], int] = {}
    kept: list[tuple[Row, PositionPayload]] = []
    for row in reversed(rows):
        position = payloads.decode_position(row.batch)
        key = position.link, position.shard
        if position.slices & ~newer.get(key, 0):
            newer[key] = newer.get(key, 0) | position.slices
            kept.append((row, position))
    older: dict[tuple[bytes, int], int] = {}
    for row, position in reversed(kept):
        key = position.link, position.shard
        if position.commit is not None or position.slices & older.get(key, 0) or not job.forgets(row):
            older[key] = older.get(key, 0) | position.slices
            yield row


def _fold_values(rows: Iterable[Row], job: MergeJob) -> Iterator[Row]:
    """The newest row of each key of cursors, notes and entries, without deletions that undo nothing."""
    newest = {
        payloads.control_key(row.kind, row.topic, row.partition, row.batch, came=row.via is not None): row
        for row in rows
    }
    for row in newest.values():
        if not (_deletes(row) and job.forgets(row)):
            yield row


def _deletes(row: Row) -> bool:
    if row.kind in _NEVER_FORGOTTEN:
        return False
    if row.kind in KEPT_KINDS:
        return payloads.decode_kept(row.batch, row.kind).gone
    if row.kind == Kind.STATE:
        return payloads.decode_state(row.batch).value is None
    if row.kind == Kind.BEHIND:
        return payloads.decode_behind(row.batch).reason is None
    return payloads.decode_entry(row.batch).value is None
