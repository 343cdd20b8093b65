"""What is lost with objects, as far as the rest of the log says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog import payloads
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.rows import NO_OFFSET, Kind
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Cut

LAST_ROW: Final = 2**31 - 1
"""A place in a commit behind all its rows."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A segment or commit that is set aside."""

    name: str
    first: int
    end: int
    slices: frozenset[int]
    """It may hold rows of these slices."""
    columns: Columns | None
    """Its rows; None if nobody knows them."""
    whole: NDArray[np.bool_]
    """Which of them can be kept."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [start, end) of a partition that are lost."""

    topic: int
    partition: int
    start: int
    end: int
    commit: int
    row: int
    """The place before which it is declared."""


class Evidence:
    """What the rows that are left say of those that are not."""

    def __init__(self, left: Sequence[Columns], lost: Sequence[Lost], covering: ShardState | None) -> None:
        self.lost = lost
        self._left = left
        self._covering = covering
        self._made_at: dict[int, int] = {}
        for columns in left:
            made = columns.take(columns.kind == Kind.TOPIC)
            for number, commit in zip(made.topic.tolist(), made.commit.tolist(), strict=True):
                self._made_at[number] = min(commit, self._made_at.get(number, commit))
        self.lost_cuts = list(_lost_cuts(left, lost, covering))
        """Cuts that a checkpoint knows, and no row that is left."""
        known = [_cut_events(self.lost_cuts), *map(_events, left), *map(_lost_events, lost)]
        self._events = np.concatenate([*known, np.zeros(0, _EVENT)])
        self._events.sort(order=["topic", "partition", "commit", "row"])

    def not_made(self, state: ShardState) -> Iterator[tuple[int, int]]:
        """Numbers of topics of which no TOPIC row is left, with the number of their partitions, or of those that have
        rows: topics that the state knows from a checkpoint, and topics that nobody knows."""
        seen = {topic.number: topic.partitions for topic in state.topics()}
        for columns in self._left:
            rows = columns.take((columns.kind == Kind.BATCH) | (columns.kind == Kind.START))
            for number in np.unique(rows.topic).tolist():
                partitions = int(rows.partition[rows.topic == number].max()) + 1
                seen[number] = max(seen.get(number, 0), partitions)
        yield from ((number, count) for number, count in sorted(seen.items()) if number not in self._made_at)

    def unknown_cuts(self) -> list[tuple[int, int]]:
        """Partitions, with their topic's number, that were cut by a row that nobody knows: a batch follows an offset
        below the end of those before it. Which of them are dead cannot be said."""
        events = self._events
        ends = np.maximum(events["end"], events["previous_end"])
        same = (events["topic"][1:] == events["topic"][:-1]) & (events["partition"][1:] == events["partition"][:-1])
        back = np.flatnonzero(same & events["batch"][1:] & (events["previous_end"][1:] < ends[:-1])) + 1
        return sorted({(int(events["topic"][at]), int(events["partition"][at])) for at in back})

    def gaps(self, state: ShardState) -> list[Gap]:
        """Offsets that rows say were given, and that no row that is left has."""
        events = self._events
        if not len(events):
            return self._ends_of_checkpoint({}, state)
        same = (events["topic"][1:] == events["topic"][:-1]) & (events["partition"][1:] == events["partition"][:-1])
        ends = np.maximum(events["end"], events["previous_end"])
        before = np.maximum(np.concatenate(([0], np.where(same, ends[:-1], 0))), events["gone_to"])
        jumps = np.flatnonzero(events["previous_end"] > before)
        found = [
            Gap(
                int(e["topic"]),
                int(e["partition"]),
                int(start),
                int(e["previous_end"]),
                int(e["commit"]),
                int(e["row"]),
            )
            for e, start in zip(events[jumps], before[jumps], strict=True)
        ]
        last = np.flatnonzero(np.concatenate((~same, [True])))
        reached = {(int(events["topic"][at]), int(events["partition"][at])): int(ends[at]) for at in last}
        return [*found, *self._ends_of_checkpoint(reached, state)]

    def _ends_of_checkpoint(self, reached: dict[tuple[int, int], int], state: ShardState) -> list[Gap]:
        """Gaps at the ends of partitions, which only a checkpoint knows."""
        if self._covering is None:
            return []
        place = self.lost[-1].end - 1
        return [
            Gap(topic.number, partition, max(end, known.start), known.end, place, LAST_ROW)
            for topic in state.topics()
            for partition in range(topic.partitions)
            if (end := reached.get((topic.number, partition), 0))
            < (known := state.partition(topic.number, partition)).end
            and known.start < known.end
        ]

    def unknown_ends(self, state: ShardState) -> dict[int, list[int]]:
        """Partitions, by topic number, of which an object may have had the last rows that nobody knows."""
        found: dict[int, list[int]] = {}
        hidden = [each for each in self.lost if each.columns is None]
        events = self._events
        newest: dict[tuple[int, int], int] = {}
        for topic, partition, commit in zip(
            *(events[n].tolist() for n in ("topic", "partition", "commit")), strict=True
        ):
            newest[topic, partition] = commit
        for topic_ in state.topics():
            slice = slice_of_number(topic_.number)
            until = max((each.end for each in hidden if slice in each.slices), default=-1)
            if self._made_at.get(topic_.number, -1) >= until:
                continue
            unknown = [p for p in range(topic_.partitions) if newest.get((topic_.number, p), -1) < until]
            if unknown:
                found[topic_.number] = unknown
        return found


_EVENT: Final = np.dtype(
    [
        ("topic", np.int64),
        ("partition", np.int64),
        ("commit", np.int64),
        ("row", np.int64),
        ("previous_end", np.int64),
        ("end", np.int64),
        ("gone_to", np.int64),
        ("batch", np.bool_),
    ]
)
"""A row that says where its partition ended before it and after it, and below which offset all is gone anyway. A cut
says only where it ended after it."""
_PLACE: Final = ("topic", "partition", "commit", "row")


def _events(columns: Columns) -> NDArray[np.void]:
    cut = (columns.kind == Kind.TRUNCATE) & (columns.base_offset != NO_OFFSET)
    rows = columns.take((columns.kind == Kind.BATCH) | (columns.kind == Kind.START) | cut)
    found = np.zeros(len(rows), _EVENT)
    for name in _PLACE:
        found[name] = getattr(rows, name)
    found["batch"] = rows.kind == Kind.BATCH
    found["end"] = np.where(found["batch"], rows.last_offset + 1, rows.base_offset)
    found["previous_end"] = np.where(rows.kind == Kind.TRUNCATE, 0, rows.previous_end)
    start = rows.kind == Kind.START
    for place in np.flatnonzero(start).tolist():
        if payloads.decode_start(rows.batch(place)).gap_from is None:
            found["gone_to"][place] = rows.base_offset[place]
    return found


def _lost_events(lost: Lost) -> NDArray[np.void]:
    """A lost batch of which the columns are left shows where its partition ended after it."""
    if lost.columns is None:
        return np.zeros(0, _EVENT)
    rows = lost.columns.take(~lost.whole & (lost.columns.kind == Kind.BATCH))
    found = np.zeros(len(rows), _EVENT)
    for name in _PLACE:
        found[name] = getattr(rows, name)
    found["previous_end"] = found["end"] = rows.last_offset + 1
    return found


class LostCut(NamedTuple):
    """A cut of a partition whose row is lost."""

    topic: int
    partition: int
    cut: Cut


def _lost_cuts(left: Sequence[Columns], lost: Sequence[Lost], covering: ShardState | None) -> Iterator[LostCut]:
    if covering is None:
        return
    rows = [columns.take(columns.kind == Kind.TRUNCATE) for columns in left]
    told = {place for each in rows for place in zip(*(getattr(each, name).tolist() for name in _PLACE), strict=True)}
    for (topic, partition), cuts in covering.cut_items():
        for cut in cuts:
            is_lost = any(each.first <= cut.commit < each.end for each in lost)
            if is_lost and (topic, partition, cut.commit, cut.row) not in told:
                yield LostCut(topic, partition, cut)


def _cut_events(cuts: Sequence[LostCut]) -> NDArray[np.void]:
    found = np.zeros(len(cuts), _EVENT)
    for place, each in enumerate(cuts):
        found[place] = (each.topic, each.partition, each.cut.commit, each.cut.row, 0, each.cut.offset, 0, False)
    return found
