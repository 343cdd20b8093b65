"""Where a partition's batches lie on disk, by the columns of commits and segments, which are kept for a while.

An object that cannot be read hides some of them. Then a batch that begins beyond the offset that was asked for is given
only if it says that nothing came before it from there on.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairlead.model.errors import Damaged, Missing, another
from fairlead.streamlog.numbers import slice_of_number, slices_of_numbers
from fairlead.streamlog.objects import format
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.reading.index import first_at
from fairlead.streamlog.reading.kept_columns import Indexed, KeptColumns
from fairlead.streamlog.reading.passed import Passed

N = TypeVar("N", int, NDArray[np.int64])


class BatchPlace(NamedTuple):
    """A batch in an object."""

    name: str
    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    epoch: int
    origin: bytes | None
    crc: int


_Choice = Callable[[Columns, range], Iterable[int]]
"""Which of neighbouring rows of an object are wanted."""


def _all_of(_: Columns, places: range) -> Iterable[int]:
    return places


def _sort_key(slice: N, number: N, partition: N) -> N:
    """The key by which a data segment is sorted (then by offset); of one batch, or of each batch in arrays."""
    return slice << 48 | number << 16 | partition


class _Run(NamedTuple):
    """Segments that stand together for commits."""

    end: int
    names: tuple[str, ...]


class BatchPlaces:
    """Finds the batches of one log. Any thread may call it."""

    def __init__(self, log: AnnouncedLog, on_damage: Callable[[Damaged], None]) -> None:
        self._log = log
        self._on_damage = on_damage
        self._passed = Passed()
        self._kept = KeptColumns()

    @property
    def columns_bytes(self) -> int:
        """Size of the columns that are kept."""
        return self._kept.size_bytes()

    def close(self) -> None:
        """Nobody looks any more."""
        self._kept.close()

    def from_offset(self, number: int, partition: int, offset: int) -> Iterator[BatchPlace]:
        """Batches of a partition from the one that ends at or after `offset`, in order."""
        return self._from(number, partition, offset, _all_of)

    def since(self, number: int, partition: int, offset: int, timestamp_ms: int) -> Iterator[BatchPlace]:
        """Those of them that say that they have a record of that time or later, or do not say how late their records
        are."""

        def chosen(columns: Columns, places: range) -> Iterable[int]:
            times = columns.max_timestamp[places.start : places.stop]
            return [places[at] for at in np.flatnonzero((times >= timestamp_ms) | (times < 0)).tolist()]

        return self._from(number, partition, offset, chosen)

    def newest(self, number: int, partition: int, offset: int) -> Iterator[BatchPlace]:
        """A few of them, among them the first that says that it has the newest record."""

        def chosen(columns: Columns, places: range) -> Iterable[int]:
            return (places[int(np.argmax(columns.max_timestamp[places.start : places.stop]))],)

        return self._from(number, partition, offset, chosen)

    def _from(self, number: int, partition: int, offset: int, chosen: _Choice) -> Iterator[BatchPlace]:
        for columns, places in self.rows_from(number, partition, offset):
            yield from (_piece(columns, place) for place in chosen(columns, places))

    def rows_from(self, number: int, partition: int, offset: int) -> Iterator[tuple[Columns, range]]:
        """Rows of the partition's batches from the one that ends at or after `offset`, in order: an object's columns,
        and neighbouring rows there.

        Raises:
            Damaged: what cannot be read may hold the next one.
        """
        damage = self._log.damage
        for found in self._stretches(number, partition, offset):
            if isinstance(found, Damaged):
                damage = damage or found
                continue
            columns, places = found
            if damage is not None and columns.base_offset[places[0]] > offset < columns.previous_end[places[0]]:
                raise another(damage)
            yield columns, places
            offset = int(columns.last_offset[places[-1]]) + 1
        if damage is not None and not self._is_end(number, partition, offset):
            raise another(damage)

    def _is_end(self, number: int, partition: int, offset: int) -> bool:
        """Whether no record from the offset on was ever here."""
        state = self._log.state
        gaps = [gap for gap in state.gaps_of(number, partition) if gap.start <= offset]
        return max([offset, *(gap.end for gap in gaps)]) >= state.partition(number, partition).end

    def _stretches(self, number: int, partition: int, offset: int) -> Iterator[tuple[Columns, range] | Damaged]:
        """Neighbouring rows of the partition, in order, and objects that cannot be read where there may be more. Who
        takes his time may find that objects were merged and are deleted: the look goes on in what replaced them."""
        while True:
            try:
                for found in self._stretches_of_now(number, partition, offset):
                    yield found
                    if not isinstance(found, Damaged):
                        offset = int(found[0].last_offset[found[1][-1]]) + 1
            except Missing:
                continue
            return

    def _stretches_of_now(self, number: int, partition: int, offset: int) -> Iterator[tuple[Columns, range] | Damaged]:
        """Those of the objects that are needed when the look begins.

        Raises:
            Missing: one of them is needed no more.
        """
        entries = list(self._log.tail.entries(number, partition))
        first_in_tail = entries[0].base_offset if entries else None
        if first_in_tail is None or offset < first_in_tail:
            for found in self._in_segments(number, partition, offset):
                yield found
                if not isinstance(found, Damaged):
                    offset = int(found[0].last_offset[found[1][-1]]) + 1
        for entry in entries[first_at(entries, offset) :]:
            columns = self._indexed(self._log.manifest.commit_name(entry.commit))
            yield columns if isinstance(columns, Damaged) else (columns.columns, range(entry.place, entry.place + 1))

    def _in_segments(self, number: int, partition: int, offset: int) -> Iterator[tuple[Columns, range] | Damaged]:
        """Where they lie in segments."""
        runs = self._runs(number)
        for run in runs[self._first_run(runs, number, partition, offset) :]:
            damaged, stretches = self._in_run(run, number, partition)
            yield from damaged
            for columns, places in stretches:
                low = places.start + int(np.searchsorted(columns.last_offset[places.start : places.stop], offset))
                if low < places.stop:
                    yield columns, range(low, places.stop)

    def _runs(self, number: int) -> list[_Run]:
        """The runs that may have batches of a topic, in the order of commits: a partition's offsets rise."""
        slice = slice_of_number(number)
        wanted = (s for s in self._log.manifest.segments if s.kind == "data" and s.slices[slice].rows)
        grouped = itertools.groupby(wanted, lambda segment: (segment.first, segment.end))
        return [_Run(end, tuple(segment.name for segment in run)) for (_, end), run in grouped]

    def _first_run(self, runs: Sequence[_Run], number: int, partition: int, offset: int) -> int:
        """Place of a run before which nothing ends at the offset or after it: the first that has the partition's next
        batch, unless that may be in one that cannot be read.

        It is looked for from where a look ended before, in steps that double, and between the last two by halves. A run
        without the partition tells nothing: then it goes on with one step. If rows of the log are hidden, a cut may be
        among them, so that offsets need not rise.
        """
        if self._log.damage is not None:
            return 0
        key = number, partition
        low, high, step = bisect_right(runs, self._passed.below(key, offset), key=attrgetter("end")), len(runs), 1
        while low < high:
            at = low + step - 1
            damaged, stretches = self._in_run(runs[at], number, partition)
            if damaged:
                return low
            if not stretches:
                low, step = low + (at == low), 1
                continue
            if _end_of(stretches) <= offset:
                low = at + 1
            else:
                high = at
            step = max(1, min(2 * step, (high - low) // 2))
        if low:
            self._passed.add(key, offset, runs[low - 1].end)
        return low

    def _in_run(self, run: _Run, number: int, partition: int) -> tuple[list[Damaged], list[tuple[Columns, range]]]:
        """Where the partition's batches lie in a run, in the order of offsets: its segments are in that of their names.
        Which of them cannot be read comes first."""
        key = _sort_key(slice_of_number(number), number, partition)
        damaged: list[Damaged] = []
        stretches: list[tuple[Columns, range]] = []
        for name in run.names:
            found = self._indexed(name)
            if isinstance(found, Damaged):
                damaged.append(found)
                continue
            columns, keys = found
            stretches += [
                (columns, places) for places in self._live(columns, *np.searchsorted(keys, [key, key + 1]).tolist())
            ]
        stretches.sort(key=_begin_of)
        if stretches and not damaged and self._log.damage is None:
            self._passed.add((number, partition), _end_of(stretches), run.end)
        return damaged, stretches

    def _live(self, columns: Columns, low: int, high: int) -> Iterable[range]:
        """Neighbouring rows of one partition at [low, high), without those that a cut has made dead."""
        if low == high:
            return
        number, partition = int(columns.topic[low]), int(columns.partition[low])
        dead = DeadRows(self._log.state.dead_in(number, partition))
        if not dead:
            yield range(low, high)
            return
        live = low + np.flatnonzero(~dead.among(columns.take(slice(low, high))))
        for run in np.split(live, np.flatnonzero(np.diff(live) != 1) + 1):
            if len(run):
                yield range(int(run[0]), int(run[-1]) + 1)

    def _indexed(self, name: str) -> Indexed | Damaged:
        """An object's columns, or why they cannot be read. Raises: Missing, a merge has replaced it."""
        known = self._kept.find(name)
        if known is not None:
            return known
        try:
            columns = format.read_columns(self._log.storage, name)
        except Damaged as error:
            if isinstance(error, Missing) and not self._log.needs(name):
                raise
            self._on_damage(error)
            return error
        numbers = columns.topic.astype(np.int64)
        found = Indexed(columns, _sort_key(slices_of_numbers(numbers), numbers, columns.partition.astype(np.int64)))
        self._kept.keep(name, found)
        return found


def _begin_of(stretch: tuple[Columns, range]) -> int:
    columns, places = stretch
    return int(columns.base_offset[places.start])


def _end_of(stretches: Sequence[tuple[Columns, range]]) -> int:
    """Where the last of them ends, which are in order."""
    columns, places = stretches[-1]
    return int(columns.last_offset[places[-1]]) + 1


def _piece(columns: Columns, place: int) -> BatchPlace:
    origin = bytes(columns.origin[place]) if columns.origin_set[place] else None
    return BatchPlace(
        columns.name,
        int(columns.position[place]),
        int(columns.size[place]),
        int(columns.base_offset[place]),
        int(columns.last_offset[place]),
        int(columns.max_timestamp[place]),
        int(columns.epoch[place]),
        origin,
        int(columns.crc[place]),
    )
