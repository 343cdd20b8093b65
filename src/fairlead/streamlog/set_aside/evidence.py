"""What is lost with objects, as far as the rest of the log says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog import payloads
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.shard_state import ShardState

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
        self._events = np.concatenate([*map(_events, left), *map(_lost_events, lost), np.zeros(0, _EVENT)])
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
    ]
)
"""A row that says where its partition ended before it and after it, and below which offset all is gone anyway."""


def _events(columns: Columns) -> NDArray[np.void]:
    rows = columns.take((columns.kind == Kind.BATCH) | (columns.kind == Kind.START))
    found = np.zeros(len(rows), _EVENT)
    for name in ("topic", "partition", "commit", "row", "previous_end"):
        found[name] = getattr(rows, name)
    start = rows.kind == Kind.START
    found["end"] = np.where(start, rows.base_offset, rows.last_offset + 1)
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
    for name in ("topic", "partition", "commit", "row"):
        found[name] = getattr(rows, name)
    found["previous_end"] = found["end"] = rows.last_offset + 1
    return found
