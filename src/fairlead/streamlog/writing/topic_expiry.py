"""Expiry by the settings of topics: `retention.ms` and `retention.bytes` where they allow less than the stream.

    begin     once a minute: which topics say so, and which times have expired; CPU only
    find      how far each partition has expired; blocking
    expire    a request: EXPIRED rows raise the starts of partitions

Always true: of a partition a prefix expires, by the time of its append in this cluster or by its bytes, and nothing
while the clock is not believed. The rows are local: no link wakes, and a batch is sent until it is gone from disk. Most
of a segment may live on, so merging drops what has expired when it rewrites the segment, at the latest when more than
half of it is `dead`. What a partition has in a segment is remembered as a few marks, so a partition expires late by a
32nd of its life or size. Topics without such settings, and topics that hold nothing, cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.clock import Clock
from fairlead.model.names import SLICES
from fairlead.model.settings import Settings
from fairlead.streamlog.numbers import slice_of_number, slices_of_numbers
from fairlead.streamlog.objects.by_partition import last_of_groups, packed_key, packed_keys, unpacked_key
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.objects.format import read_columns
from fairlead.streamlog.objects.manifest import SegmentEntry
from fairlead.streamlog.payloads import ExpiredPayload
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.reading.slices import ROW_BYTES
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.topic_policy import Life
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.retention import ExpiryGuard

EXPIRED_AT_ONCE: Final = 500
"""Partitions whose start one request raises: evaluating them takes some milliseconds."""
MARKS: Final = 32
"""A mark spans at most this part of a topic's life, and of its size."""
_ANY: Final = 2**62
_NEVER: Final = -(2**62)


class Limit(NamedTuple):
    """What may be left of a topic's partitions."""

    ms: int | None
    bytes: int | None


NO_LIMIT: Final = Limit(None, None)
"""Of topics whose owner has deleted records: what is dead of them is looked for like the rest."""


class Round(NamedTuple):
    """What to look for."""

    limits: Mapping[int, Limit]
    """By topic number."""
    cut_offs_ms: Mapping[int, int]
    """Life in milliseconds → records appended before this have expired."""

    def cut_off_ms(self, limit: Limit) -> int:
        """Records of a topic that were appended before this have expired."""
        return _NEVER if limit.ms is None else self.cut_offs_ms.get(limit.ms, _NEVER)


class Expired(NamedTuple):
    """Records of a partition below an offset have expired."""

    number: int
    partition: int
    offset: int


class Dead(NamedTuple):
    """What has expired and is still on disk."""

    partitions: tuple[Expired, ...]
    segments: frozenset[str]
    """Those of which it is more than half."""


NOTHING: Final = Dead((), frozenset())


@dataclass(frozen=True, slots=True)
class Marks:
    """Batches of limited topics, a few stretches for each partition: by partition in the order of offsets."""

    key: NDArray[np.uint64]
    """Packed keys."""
    last_offset: NDArray[np.int64]
    newest_at: NDArray[np.int64]
    bytes: NDArray[np.int64]
    rows: NDArray[np.int64]


class _Summary(NamedTuple):
    """The marks of a segment, and the highest topic number that it has of each slice."""

    marks: Marks
    highest: NDArray[np.int64]


class TopicExpiry:
    """Expiry of one shard's topics by their own settings."""

    def __init__(self, log: AnnouncedLog, guard: ExpiryGuard, clock: Clock, settings: Settings) -> None:
        self._log = log
        self._guard = guard
        self._clock = clock
        self._interval_ms = int(settings.topic_expiry_interval_seconds * 1000)
        self._next_ms = clock.monotonic_ms()
        self._limits: Mapping[int, Limit] = {}
        self._summaries: dict[str, _Summary] = {}
        self._cuts_known = 0
        """The state's `cut_count` when they were made."""
        self.cut_count = 0
        """That of the last `find`."""
        self.dead = NOTHING

    def shortest_ms(self) -> int:
        """The shortest life that a topic has; 0 if none has a life of its own."""
        lives = (life.ms for life in self._log.state.topic_table.lives.values() if life.ms is not None)
        return max(1, found) if (found := min(lives, default=None)) is not None else 0

    def begin(self, ttl_ms: int) -> Round | None:
        """What to look for, if it is time to; `ttl_ms` is the stream's time-to-live, 0: for ever."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms or self._guard.hold is not None:
            return None
        self._next_ms = now_ms + self._interval_ms
        lives = self._log.state.topic_table.lives
        limits = {number: limit for number, life in lives.items() if (limit := _limit(life, ttl_ms)) is not None}
        for number, _ in self._log.state.deleted_to():
            limits.setdefault(number, NO_LIMIT)
        if not limits:
            self._limits, self._summaries, self.dead = {}, {}, NOTHING
            return None
        found = {
            ms: self._guard.cut_off_ms(max(1, ms)) for ms in {limit.ms for limit in limits.values()} if ms is not None
        }
        return Round(limits, {ms: cut_off for ms, cut_off in found.items() if cut_off is not None})

    def find(self, expiry: Round) -> list[Expired]:
        """How far partitions have expired beyond their starts. Blocking: reads the columns of segments, once. If the
        log is cut meanwhile, nothing is found: what is looked at may be dead.

        Raises:
            Damaged, Missing, StorageUnavailable
        """
        self.cut_count = self._log.state.cut_count
        waiting = self._waiting(expiry)  # before the manifest, so that a batch is in one of the two
        segments = [segment for segment in self._log.manifest.segments if segment.kind == "data"]
        self._summarize(segments, expiry.limits)
        summaries = {segment.name: self._summaries[segment.name].marks for segment in segments}
        merged_end = self._log.manifest.merged_end
        tail = _marks_of(row[:4] for row in waiting if row[4] >= merged_end)
        whole = _joined([*summaries.values(), tail])
        partitions = _Partitions.of(whole, expiry, self._log)
        if self._log.state.cut_count != self.cut_count:
            return []
        self.dead = Dead(
            tuple(partitions.with_dead(whole)),
            frozenset(s.name for s in segments if 2 * partitions.dead_bytes(summaries[s.name]) > s.bytes),
        )
        return partitions.expired(whole)

    def _waiting(self, expiry: Round) -> list[tuple[int, int, int, int, int]]:
        """(key, last offset, time, bytes, commit) of the batches in commits that wait for merging."""
        entries = self._log.tail.all()
        times = {stats.commit: stats.appended_at for stats in list(self._log.tail.commits)}
        found: list[tuple[int, int, int, int, int]] = []
        for (number, partition), batches in entries:
            limit = expiry.limits.get(number)
            if limit is None:
                continue
            cut_off_ms = expiry.cut_off_ms(limit)
            key = packed_key(number, partition)
            for entry in batches:
                at = times.get(entry.commit)
                if at is None or (limit.bytes is None and at >= cut_off_ms):
                    break
                found.append((key, entry.last_offset, at, entry.size, entry.commit))
        return found

    def _summarize(self, segments: Sequence[SegmentEntry], limits: Mapping[int, Limit]) -> None:
        """Remember the marks of each segment; anew if it may have batches of a topic whose limits have changed, or of
        which some are dead now."""
        cut_count, cuts = self._log.state.cut_count, self._log.state.dead_from()
        changed = [number for number, limit in limits.items() if self._limits.get(number) != limit]
        if cut_count != self._cuts_known:
            changed += {number for number, *_ in cuts}
        dead = DeadRows(cuts)
        lowest = np.full(SLICES, _ANY, np.int64)
        for number in changed:
            slice = slice_of_number(number)
            lowest[slice] = min(lowest[slice], number)
        columns = _LimitColumns.of(limits)
        found: dict[str, _Summary] = {}
        for segment in segments:
            known = self._summaries.get(segment.name)
            if known is None or bool(np.any(lowest <= known.highest)):
                known = _summary(read_columns(self._log.storage, segment.name), columns, dead)
            found[segment.name] = known
        self._summaries, self._limits, self._cuts_known = found, limits, cut_count


def expire(draft: Draft, found: Iterable[Expired], cut_count: int = 0) -> None:
    """A request: raise the starts of partitions to where their records have expired; nothing if the log has been cut
    since there were so many cuts, as other records may stand there now."""
    if draft.state.cut_count != cut_count:
        return
    for number, partition, offset in found:
        if partition >= draft.state.partition_count(number):
            continue  # the topic was deleted
        state = draft.state.partition(number, partition)
        if state.start < offset <= state.end:
            payload = ExpiredPayload()
            draft.add_control(Kind.EXPIRED, payload, number=number, partition=partition, base_offset=offset)


def _limit(life: Life, ttl_ms: int) -> Limit | None:
    """What a topic's life asks for beyond the stream's."""
    ms = life.ms if life.ms is not None and not 0 < ttl_ms <= life.ms else None
    return None if ms is None and life.bytes is None else Limit(ms, life.bytes)


class _LimitColumns(NamedTuple):
    """The limited topics' numbers in order, and how much time and how many bytes one mark of each may span."""

    numbers: NDArray[np.int64]
    span_ms: NDArray[np.int64]
    span_bytes: NDArray[np.int64]

    @classmethod
    def of(cls, limits: Mapping[int, Limit]) -> _LimitColumns:
        known = sorted(limits.items())
        spans = [
            [_ANY if limit is None else max(1, limit // MARKS) for limit in column]
            for column in zip(*(limit for _, limit in known), strict=True)
        ]
        return cls(np.array([number for number, _ in known], np.int64), *(np.array(span, np.int64) for span in spans))


def _summary(columns: Columns, limits: _LimitColumns, dead: DeadRows) -> _Summary:
    topic = columns.topic.astype(np.int64)
    highest = np.full(SLICES, -1, np.int64)
    np.maximum.at(highest, slices_of_numbers(columns.topic), topic)
    at = np.minimum(np.searchsorted(limits.numbers, topic), len(limits.numbers) - 1)
    live = (columns.kind == Kind.BATCH) & ~dead.among(columns)
    mine = np.flatnonzero(live & (limits.numbers[at] == topic))
    at = at[mine]
    key = packed_keys(columns.topic[mine], columns.partition[mine])
    order = np.lexsort((columns.last_offset[mine], key))
    mine, at, key = mine[order], at[order], key[order]
    times, size = columns.appended_at[mine], columns.size[mine].astype(np.int64)
    ends = np.flatnonzero(last_of_groups(key, times // limits.span_ms[at], np.cumsum(size) // limits.span_bytes[at]))
    first = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64) if len(ends) else ends
    sums = np.add.reduceat(size, first) if len(first) else size
    last_offset = columns.last_offset[mine]
    return _Summary(Marks(key[ends], last_offset[ends], times[ends], sums, ends - first + 1), highest)


def _marks_of(batches: Iterable[tuple[int, int, int, int]]) -> Marks:
    """A mark for each of some batches, given as (key, last offset, time, bytes)."""
    table = np.array(list(batches), np.int64).reshape(-1, 4)
    return Marks(table[:, 0].astype(np.uint64), table[:, 1], table[:, 2], table[:, 3], np.ones(len(table), np.int64))


def _joined(marks: Sequence[Marks]) -> Marks:
    columns: list[NDArray[Any]] = [
        np.concatenate([getattr(each, name) for each in marks])
        for name in ("key", "last_offset", "newest_at", "bytes", "rows")
    ]
    order = np.lexsort((columns[1], columns[0]))
    return Marks(*(column[order] for column in columns))


class _Partitions(NamedTuple):
    """The partitions that marks speak of, in order of their keys."""

    key: NDArray[np.uint64]
    start: NDArray[np.int64]
    cut_off_ms: NDArray[np.int64]
    bytes_max: NDArray[np.int64]

    @classmethod
    def of(cls, marks: Marks, expiry: Round, log: AnnouncedLog) -> _Partitions:
        keys = np.unique(marks.key)
        rows: list[tuple[int, int, int]] = []
        for key in keys.tolist():
            number, partition = unpacked_key(key)
            limit = expiry.limits.get(number, NO_LIMIT)  # its marks outlive the limit, and the topic
            cut_off_ms = expiry.cut_off_ms(limit)
            start = log.state.partition(number, partition).log_start
            rows.append((start, cut_off_ms, _ANY if limit.bytes is None else limit.bytes))
        table = np.array(rows, np.int64).reshape(-1, 3)
        return cls(keys, table[:, 0], table[:, 1], table[:, 2])

    def _dead(self, marks: Marks) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = marks.last_offset < self.start[np.searchsorted(self.key, marks.key)]
        return found

    def with_dead(self, marks: Marks) -> list[Expired]:
        """Partitions of which expired batches are still there."""
        keys = np.unique(marks.key[self._dead(marks)])
        starts = self.start[np.searchsorted(self.key, keys)]
        return [_expired(key, start) for key, start in zip(keys.tolist(), starts.tolist(), strict=True)]

    def dead_bytes(self, marks: Marks) -> int:
        """What the expired batches take up."""
        return int((marks.bytes + ROW_BYTES * marks.rows)[self._dead(marks)].sum())

    def expired(self, marks: Marks) -> list[Expired]:
        """How far partitions have expired beyond their starts. Of `bytes_max` at least so many stay, as in Kafka."""
        of = np.searchsorted(self.key, marks.key)
        alive = ~self._dead(marks)
        size = np.where(alive, marks.bytes, 0)
        up_to = np.cumsum(size)
        totals = np.bincount(of, size, len(self.key)).astype(np.int64)
        left = np.cumsum(totals)[of] - up_to
        gone = alive & ((marks.newest_at < self.cut_off_ms[of]) | (left >= self.bytes_max[of]))
        reached = np.full(len(self.key), -1, np.int64)
        np.maximum.at(reached, of[gone], marks.last_offset[gone] + 1)
        places = np.flatnonzero(reached > self.start)
        return [_expired(int(self.key[place]), int(reached[place])) for place in places.tolist()]


def _expired(key: int, offset: int) -> Expired:
    return Expired(*unpacked_key(key), offset)
