"""The newest record batches of a process in memory, for consumers at the tail and those shortly behind it.

Logs write past the page cache (decision 13), so what Kafka leaves to the kernel is done here. All logs share one limit
and the oldest commit of any of them leaves first; a batch stays when its commit is merged. A log's `LogBatches` is
changed on threads that the log chooses, one at a time, and read by any: a list is appended to or replaced, never cut.

A batch also leaves some time after it came (`turn`, `drop_old`): what nobody has asked for by then is the system's.

Each partition keeps announced batches in offset order. A batch that was left out shows as a gap between `last_offset`
of one and `previous_end` of the next; then the log is read instead.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fairlead.model.settings import Settings
from fairlead.process.machine import memory_part_bytes
from fairlead.streamlog.reading.index import Live, add_to_lists, cut_lists, drop_below
from fairlead.streamlog.rows import Row, row_from
from fairlead.streamlog.values import PartitionKey

ROW_BYTES: Final = 600
"""What a row takes besides its batch: the tuple, its numbers, the objects around the bytes."""
ROWS_MAX: Final = 200_000
"""Most rows that are held: more small ones are worth less than what they cost the garbage collector."""
_BATCH_AT: Final = len(Row._fields) - 1
"""It is the last field."""
_SPARE: Final = 128
"""This fraction (1/128) is freed at once: less would copy lists for each commit, more would be felt as a pause."""


class Compact(NamedTuple):
    """The batches of a commit as they are kept."""

    batches: Sequence[Row]
    size_bytes: int
    """What all this takes."""


class _Held(NamedTuple):
    """A commit of a log."""

    log: LogBatches
    life: object
    """The log's `_life` when this was added; after its `close` the log has another."""
    commit: int
    keys: Sequence[PartitionKey]
    rows: int
    size_bytes: int
    turn: int
    """In which this was added."""


class RecentBatches:
    """The newest batches of all logs of a process."""

    def __init__(self, settings: Settings) -> None:
        self._limit_bytes = settings.cache_bytes or memory_part_bytes()
        self._rows = 0
        self._bytes = 0
        self._turn = 0
        self._order: deque[_Held] = deque()
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Size of what is held, including Python's objects for it."""
        return self._bytes

    def of_log(self) -> LogBatches:
        """A place for one more log."""
        return LogBatches(self)

    def turn(self) -> None:
        """Begin another turn. What came before the last one is old."""
        self._turn += 1

    def drop_old(self) -> bool:
        """Drop a little of what is old, oldest first; True while there is more. Any thread may ask."""
        with self._lock:
            old = self._turn - 1
            to_bytes = self._bytes - max(1, self._limit_bytes // _SPARE)
            to_rows = self._rows - max(1, ROWS_MAX // _SPARE)
            self._free(lambda: self._oldest() < old and self._bytes > to_bytes and self._rows > to_rows)
            return self._oldest() < old

    def _oldest(self) -> int:
        return self._order[0].turn if self._order else self._turn

    def _count(self, log: LogBatches, rows: int, size_bytes: int) -> None:
        self._rows += rows
        self._bytes += size_bytes
        log._row_count += rows
        log._bytes += size_bytes

    def _add(self, held: _Held) -> None:
        self._order.append(held)
        self._count(held.log, held.rows, held.size_bytes)
        if self._bytes > self._limit_bytes or self._rows > ROWS_MAX:
            to_bytes, to_rows = self._limit_bytes - self._limit_bytes // _SPARE, ROWS_MAX - ROWS_MAX // _SPARE
            self._free(lambda: self._bytes > to_bytes or self._rows > to_rows)

    def _free(self, more: Callable[[], bool]) -> None:
        """Drop the oldest while there is `more` to drop."""
        below: dict[LogBatches, dict[PartitionKey, int]] = {}
        while self._order and more():
            oldest = self._order.popleft()
            if oldest.life is oldest.log._life:
                self._count(oldest.log, -oldest.rows, -oldest.size_bytes)
                below.setdefault(oldest.log, {}).update(dict.fromkeys(oldest.keys, oldest.commit + 1))
        for log, keys in below.items():
            log._forget(keys)


class LogBatches:
    """The newest batches of one log; made by `RecentBatches.of_log`, ended by `close`."""

    def __init__(self, shared: RecentBatches) -> None:
        self._shared = shared
        self._rows: dict[PartitionKey, list[Row]] = {}
        self._row_count = 0
        self._bytes = 0
        self._life = object()

    def add(self, commit: int, live: Live, compact: Compact | None = None) -> None:
        """Take in the batches of an announced commit, and drop those that it cuts. Control rows are never fetched.
        `compact` is what `compact_of` makes of them, if somebody has had it made."""
        for row in live.cuts:
            with self._shared._lock:
                cut_lists(self._rows, (row.topic, row.partition), row.base_offset)
        if not live.batches:
            return
        batches, size_bytes = compact or compact_of(live.batches)
        with self._shared._lock:
            add_to_lists(self._rows, live.keys, batches)
            turn = self._shared._turn
            self._shared._add(_Held(self, self._life, commit, live.partitions, len(batches), size_bytes, turn))

    def find(self, number: int, partition: int, offset: int) -> tuple[Sequence[Row], int]:
        """Batches of a partition in offset order, and the place of the first that ends at or after `offset` (the length
        of the list if none does). The list may grow while it is read."""
        rows = self._rows.get((number, partition), ())
        return rows, bisect_left(rows, offset, key=_last_offset)

    def close(self) -> None:
        """Drop everything."""
        with self._shared._lock:
            self._shared._count(self, -self._row_count, -self._bytes)
            self._life = object()
            self._rows = {}

    def _forget(self, below: dict[PartitionKey, int]) -> None:
        """Drop each partition's batches of commits below the given one."""
        for key, commit in below.items():
            drop_below(self._rows, key, commit)


def compact_of(rows: Sequence[Row]) -> Compact:
    """The rows, their batches keeping little else alive: a batch is a view of a whole request or frame, and is copied
    if less than half of that is ours."""
    memories = [row.batch.obj if isinstance(row.batch, memoryview) else row.batch for row in rows]
    ids = list(map(id, memories))
    used = dict.fromkeys(ids, 0)
    for place, row in zip(ids, rows, strict=True):
        used[place] += len(row.batch)
    sizes = {id(memory): memoryview(memory).nbytes for memory in dict(zip(ids, memories, strict=True)).values()}
    wasted = {place for place, size_bytes in sizes.items() if 2 * used[place] < size_bytes}
    taken = sum(used[place] if place in wasted else size_bytes for place, size_bytes in sizes.items())
    if wasted:
        rows = [
            row_from((*row[:_BATCH_AT], bytes(row.batch))) if place in wasted else row
            for row, place in zip(rows, ids, strict=True)
        ]
    return Compact(rows, taken + ROW_BYTES * len(rows))


def _last_offset(row: Row) -> int:
    return row.last_offset
