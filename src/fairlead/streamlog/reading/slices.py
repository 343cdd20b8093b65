"""Rows of slices and partitions out of objects that the server named, in the order of the log; for links.

In: names of objects, and the commit from which each slice is wanted. Out: rows in commit order, cut only between
commits, with their batches. A reader never lists. A segment's rows are sorted by (slice, topic, partition, offset), so
its columns are read first, then the byte ranges of the wanted batches; for a frame that another process will read
(`refer_bytes`) those ranges are only named. Work is done on arrays, not row by row.

Raises everywhere: `Missing` (ask the server again), `Damaged`, `StorageUnavailable`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.limits import FRAME_BYTES_MAX
from fairlead.model.names import SLICES
from fairlead.storage.interface import Storage
from fairlead.streamlog.numbers import masks_alike, slices_of_mask, slices_of_numbers
from fairlead.streamlog.objects.by_partition import Offsets, packed_keys
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.dead import NOTHING_DEAD, DeadRows
from fairlead.streamlog.reading.located import LOAD_BYTES, LocatedRows, has_control, load, open_object, together
from fairlead.streamlog.reading.past import without_past
from fairlead.streamlog.reading.told_groups import ALL, told
from fairlead.streamlog.rows import LOCAL_KINDS, NO_TOPIC, NO_TOPIC_SENT, PASSED_ON_KINDS, Kind
from fairlead.streamlog.values import LogObject

FRAME_BYTES: Final = 1 << 20
"""Parts are cut near this size unless the caller says otherwise."""
COMMITS_AT_ONCE: Final = 256
"""How many single commits are looked at before frames of them are handed out."""
PART_BYTES_MAX: Final = FRAME_BYTES_MAX // 2
"""Only a part that is a single commit is larger."""
ROW_BYTES: Final = 96
"""What a row costs in a frame besides its batch."""
_SENT: Final = np.isin(np.arange(256), sorted(LOCAL_KINDS), invert=True)
"""Whether rows may be sent, by their kind."""


@dataclass(frozen=True, slots=True)
class Route:
    """Which rows go to a destination."""

    destination: bytes
    """Id of the replica stream: rows that were first written there or came from there are not sent to it."""
    own_of: bytes | None = None
    """`-forward own`: id of the source, of which go only rows that no link brought there, and what has become of the
    topics that were its own."""
    cursors: str = ALL
    """Of which consumer groups cursors go: all, none, or those that a regular expression matches."""
    begin: int = 0
    """Of batches of commits below this one goes only where they end."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Between two parts: which of these topics pass is to be noted before the next one is asked for."""

    numbers: tuple[int, ...]


class PassingTopics:
    """Which topics go over a link that leaves some out, as far as that was told; by their numbers."""

    def __init__(self) -> None:
        self._passes: dict[int, bool] = {}

    def note(self, asked: Iterable[int], passing: Iterable[int]) -> None:
        """Of the numbers that were `asked`, those that pass."""
        self._passes.update(dict.fromkeys(asked, False))
        self._passes.update(dict.fromkeys(passing, True))

    def unknown(self, columns: Columns) -> tuple[int, ...]:
        """The topics of rows of which it is to be asked: those that are new, and those of which rows say what became of
        them, since such a row may give a topic another name."""
        told = np.isin(columns.kind, (Kind.TOPIC, Kind.TOPIC_DELETED))
        again = set(np.unique(columns.topic[told]).tolist())
        numbers = np.unique(columns.topic[columns.topic < NO_TOPIC_SENT]).tolist()
        return tuple(each for each in numbers if each in again or each not in self._passes)

    def of(self, columns: Columns) -> NDArray[np.bool_]:
        """Which rows go: those of the topics that pass, and those of no topic."""
        numbers, place = np.unique(columns.topic, return_inverse=True)
        passes = [each >= NO_TOPIC_SENT or self._passes.get(each, False) for each in numbers.tolist()]
        found: NDArray[np.bool_] = np.array(passes, np.bool_)[place]
        return found


@dataclass(frozen=True, slots=True)
class SlicePart:
    """All rows of a mask of slices in the commits [from_commit, to_commit); perhaps none."""

    slices: int
    from_commit: int
    to_commit: int
    columns: Columns
    """The rows, with their batches unless these are `referred`."""
    referred: LocatedRows | None = None
    """The same rows, and where their batches lie."""


def sendable(columns: Columns, route: Route | None = None) -> NDArray[np.bool_]:
    """Which rows may go over a link; without a `route`, all but the local ones."""
    wanted: NDArray[np.bool_] = _SENT[columns.kind] & (columns.topic != NO_TOPIC)
    if route is not None:
        wanted &= ~columns.has_id("origin", route.destination) & ~columns.has_id("via", route.destination)
        if route.own_of is not None:
            wanted &= ~columns.via_set | columns.has_id("origin", route.own_of)
    return wanted


def read_slices(
    storage: Storage,
    objects: Sequence[LogObject],
    from_commits: Mapping[int, int],
    *,
    framed: Mapping[int, int] | None = None,
    route: Route | None = None,
    frame_bytes: int = FRAME_BYTES,
    refer_bytes: int | None = None,
    dead: DeadRows = NOTHING_DEAD,
) -> Iterator[SlicePart]:
    """Rows of these slices, each from its own commit on, in parts near `frame_bytes`; none that is `dead`.

    A part of `refer_bytes` or more is not loaded but referred to; a part with control rows is cut near that size and
    loaded. With None all are loaded.

    Parts of a slice come in commit order and touch: each begins where the one before ended, and the first where
    `framed` says (if not given, where reading begins; nothing to send lies in between). A part has slices that stand
    alike. As soon as there is a row to send, all of them are brought to the end of the objects that are read together,
    so that the parts after that are of all slices. A commit is never cut, so a part can be larger.
    """
    for part in _read(storage, objects, from_commits, framed, route, frame_bytes, refer_bytes, dead, None):
        assert isinstance(part, SlicePart)
        yield part


def read_routes(
    storage: Storage,
    objects: Sequence[LogObject],
    from_commits: Mapping[int, int],
    routes: Sequence[Route],
    *,
    framed: Mapping[int, int],
    frame_bytes: int,
    refer_bytes: int,
    dead: DeadRows,
) -> list[Sequence[SlicePart]]:
    """The same for several routes, each object read once. Routes by which the same rows go have the very same parts."""
    lowest = min(from_commits.values(), default=0)
    groups = [
        group._replace(rows=_live(group.rows, dead))
        for group in _groups(storage, (o for o in objects if o.end > lowest))
    ]
    by_rows: dict[bytes, Sequence[SlicePart]] = {}
    by_route: dict[Route, Sequence[SlicePart]] = {}
    for route in routes:
        if route in by_route:
            continue
        begin = route.begin if route.begin > lowest else 0
        rows = f"{begin} {route.cursors}\0".encode()
        rows += b"\0".join(sendable(group.rows.columns, route).tobytes() for group in groups)
        if rows not in by_rows:
            reader = _SliceReader(storage, from_commits, framed, route, frame_bytes, refer_bytes, None)
            parts = [part for group in groups for part in reader.read(group)]
            by_rows[rows] = [part for part in parts if isinstance(part, SlicePart)]
        by_route[route] = by_rows[rows]
    return [by_route[route] for route in routes]


def read_passing(
    storage: Storage,
    objects: Sequence[LogObject],
    from_commits: Mapping[int, int],
    passing: PassingTopics,
    *,
    framed: Mapping[int, int] | None = None,
    route: Route | None = None,
    frame_bytes: int = FRAME_BYTES,
    refer_bytes: int | None = None,
    dead: DeadRows = NOTHING_DEAD,
) -> Iterator[SlicePart | Asked]:
    """The same of the topics that pass alone; where topics are met of which nothing is noted in `passing`, it asks."""
    yield from _read(storage, objects, from_commits, framed, route, frame_bytes, refer_bytes, dead, passing)


def _read(
    storage: Storage,
    objects: Sequence[LogObject],
    from_commits: Mapping[int, int],
    framed: Mapping[int, int] | None,
    route: Route | None,
    frame_bytes: int,
    refer_bytes: int | None,
    dead: DeadRows,
    passing: PassingTopics | None,
) -> Iterator[SlicePart | Asked]:
    reader = _SliceReader(storage, from_commits, framed or from_commits, route, frame_bytes, refer_bytes, passing)
    lowest = min(from_commits.values(), default=0)
    for group in _groups(storage, (o for o in objects if o.end > lowest)):
        yield from reader.read(group._replace(rows=_live(group.rows, dead)))


def read_partition(
    storage: Storage,
    objects: Sequence[LogObject],
    number: int,
    partition: int,
    from_offset: int,
    *,
    frame_bytes: int = FRAME_BYTES,
    dead: DeadRows = NOTHING_DEAD,
    cursors: str = ALL,
    begin: int = 0,
) -> Iterator[Columns]:
    """Rows of one partition about offsets from `from_offset` on, and the rows of its topic, for a repair; none that is
    `dead`. `begin` as for a `Route`.

    Its START rows are all among them: one may have deleted records that the replica holds, and was refused there. So
    are its cursors, and rows that only others know.
    """
    for group in _groups(storage, objects):
        found = _live(group.rows, dead)
        columns = found.columns
        mine = (columns.topic == number) & (columns.partition == partition)
        batch = mine & (columns.kind == Kind.BATCH) & (columns.last_offset >= from_offset)
        start = mine & (columns.kind == Kind.START)
        topic = (columns.topic == number) & np.isin(columns.kind, (Kind.TOPIC, Kind.TOPIC_DELETED))
        kept = (columns.topic == number) & ((columns.partition == partition) | (columns.partition == -1))
        kept &= np.isin(columns.kind, sorted(PASSED_ON_KINDS))
        cursor = mine & (columns.kind == Kind.CURSOR)
        wanted = (batch | start | topic | kept | cursor) & sendable(columns)
        places = told(storage, found, np.flatnonzero(wanted), cursors)
        yield from _parts(storage, _in_order(without_past(storage, found.take(places), begin)), frame_bytes)


def read_kept(
    storage: Storage, objects: Sequence[LogObject], dead: DeadRows, copied: Offsets, part_bytes: int
) -> Iterator[Columns]:
    """The dead batches that are kept, without those that end below where their partition is `copied`. Of objects that
    are read together, partition by partition, as they lie in segments; each partition in the order of the log."""
    for group in _groups(storage, objects):
        columns = group.rows.columns
        keys = packed_keys(columns.topic, columns.partition)
        wanted = np.flatnonzero(dead.kept(columns) & (columns.last_offset >= copied.of(keys)))
        order = np.lexsort((columns.row[wanted], columns.commit[wanted], keys[wanted]))
        yield from _parts(storage, group.rows.take(wanted[order]), part_bytes)


def _live(found: LocatedRows, dead: DeadRows) -> LocatedRows:
    if not dead:
        return found
    columns = dead.cut_back(found.columns)
    return LocatedRows(columns, found.objects, found.object).take(np.flatnonzero(~dead.among(columns)))


class _SliceReader:
    """Reads slices, and knows how far each has been read."""

    def __init__(
        self,
        storage: Storage,
        from_commits: Mapping[int, int],
        framed: Mapping[int, int],
        route: Route | None,
        frame_bytes: int,
        refer_bytes: int | None,
        passing: PassingTopics | None,
    ) -> None:
        self._storage = storage
        self._passing = passing
        self._route = route
        self._frame_bytes = frame_bytes
        self._refer_bytes = sys.maxsize if refer_bytes is None else refer_bytes
        self._next = dict(framed)
        self._from = np.full(SLICES, np.iinfo(np.int64).max, np.int64)
        self._from[list(from_commits)] = list(from_commits.values())

    def read(self, group: _Group) -> Iterator[SlicePart | Asked]:
        columns = group.rows.columns
        slices = slices_of_numbers(columns.topic)
        wanted = sendable(columns, self._route) & (columns.commit >= self._from[slices])
        places = np.flatnonzero(wanted)
        if self._passing is not None and len(places):
            found = columns.take(places)
            if unknown := self._passing.unknown(found):
                yield Asked(unknown)
            places = places[self._passing.of(found)]
        if self._route is not None:
            places = told(self._storage, group.rows, places, self._route.cursors)
        if not len(places):
            return
        begin = 0 if self._route is None else self._route.begin
        if begin > int(columns.commit.min()):
            rows = without_past(self._storage, group.rows.take(places), begin)
            group, slices = group._replace(rows=rows), slices_of_numbers(rows.columns.topic)
            places = np.arange(len(rows.columns))
        yield from self._send(group, slices, places)

    def _send(self, group: _Group, slices: NDArray[np.uint32], places: NDArray[np.intp]) -> Iterator[SlicePart]:
        columns = group.rows.columns
        found = _Rows(slices[places], columns.size[places])
        for mask in self._masks(found, group):
            mine = places[found.of(mask)]
            rows = group.rows if len(mine) == len(columns) else group.rows.take(mine)
            yield from self._parts(mask, _in_order(rows), group.end)

    def _masks(self, found: _Rows, group: _Group) -> Iterator[int]:
        """The slices that stand before the group's end, those together that stand alike. A run of segments is sorted by
        slice, so if it is large, its parts are neighbouring slices: parts in commit order would each be gathered from
        all of its bytes."""
        standing = sorted((at, each) for each, at in self._next.items() if at < group.end)
        for mask in masks_alike(standing).values():
            if group.is_run:
                yield from found.groups(mask, self._frame_bytes)
            else:
                yield mask

    def _parts(self, mask: int, rows: LocatedRows, end: int) -> Iterator[SlicePart]:
        """The last one goes to `end`, also where no row does."""
        ready: LocatedRows | None = None
        for part in self._pieces(rows):
            if ready is not None:
                yield self._part(mask, int(ready.columns.commit[-1]) + 1, ready)
            ready = part
        yield self._part(mask, end, rows if ready is None else ready)

    def _pieces(self, of_slice: LocatedRows) -> Iterator[LocatedRows]:
        """Cut near `frame_bytes`, or near `refer_bytes` if there are control rows. These are never referred to, since
        only the reader has seen their object's checksum; so few bytes of batches are loaded because of them."""
        for part in _cut(of_slice, self._frame_bytes):
            if self._is_large(part.columns) and has_control(part.columns):
                yield from _cut(part, self._refer_bytes)
            else:
                yield part

    def _is_large(self, columns: Columns) -> bool:
        return bytes_in_frame(columns) >= self._refer_bytes

    def _part(self, mask: int, to_commit: int, rows: LocatedRows) -> SlicePart:
        slices = slices_of_mask(mask)
        from_commit = self._next[slices[0]]
        self._next.update(dict.fromkeys(slices, to_commit))
        if not len(rows.columns):
            return SlicePart(mask, from_commit, to_commit, rows.columns)
        if self._is_large(rows.columns) and not has_control(rows.columns):
            return SlicePart(mask, from_commit, to_commit, rows.columns, rows)
        return SlicePart(mask, from_commit, to_commit, load(self._storage, rows))


class _Rows:
    """In which slices some rows lie, and how large they are."""

    def __init__(self, slices: NDArray[np.uint32], size: NDArray[np.uint32]) -> None:
        self._masks = np.left_shift(1, slices.astype(np.int64))
        self._bytes = np.bincount(slices, size.astype(np.int64) + ROW_BYTES, SLICES)

    def of(self, mask: int) -> NDArray[np.bool_]:
        """Which rows lie in a mask of slices."""
        found: NDArray[np.bool_] = (self._masks & mask) != 0
        return found

    def groups(self, mask: int, most_bytes: int) -> Iterator[int]:
        """The mask in parts of neighbouring slices that have at most so many bytes, or one slice."""
        part, part_bytes = 0, 0.0
        for each in slices_of_mask(mask):
            size_bytes = float(self._bytes[each])
            if part and part_bytes + size_bytes > most_bytes:
                yield part
                part, part_bytes = 0, 0.0
            part, part_bytes = part | 1 << each, part_bytes + size_bytes
        yield part


class _Group(NamedTuple):
    """Objects that are read together."""

    rows: LocatedRows
    end: int
    """Of their commits."""
    is_run: bool
    """They are the segments of a run."""


def bytes_in_frame(columns: Columns) -> int:
    """About how many bytes a frame of these rows has."""
    return columns.batch_bytes() + ROW_BYTES * len(columns)


def _cut(rows: LocatedRows, part_bytes: int) -> Iterator[LocatedRows]:
    """The rows in parts of whole commits; unchanged if they make one part."""
    for cut in _cuts(rows.columns, part_bytes):
        yield rows if cut.stop - cut.start == len(rows.columns) else rows.take(cut)


def _groups(storage: Storage, objects: Iterable[LogObject]) -> Iterator[_Group]:
    """Groups of objects that are read together: all segments of one run, or as many commits as fit well in memory."""
    for run, group in itertools.groupby(objects, lambda o: (o.first, o.end) if o.segment else None):
        if run is not None:
            yield _Group(together([open_object(storage, item) for item in group]), run[1], True)
            continue
        commits = iter(group)
        for first in commits:
            yield _some(storage, first, commits)


def _some(storage: Storage, first: LogObject, more: Iterator[LogObject]) -> _Group:
    found, end, size = [open_object(storage, first)], first.end, 0
    while True:
        data = found[-1].data
        size += 0 if data is None else data.nbytes
        if size >= LOAD_BYTES or len(found) >= COMMITS_AT_ONCE:
            break
        item = next(more, None)
        if item is None:
            break
        found.append(open_object(storage, item))
        end = item.end
    return _Group(together(found), end, False)


def _in_order(found: LocatedRows) -> LocatedRows:
    commit, row = found.columns.commit, found.columns.row
    if len(commit) < 2 or bool(
        np.all((commit[:-1] < commit[1:]) | ((commit[:-1] == commit[1:]) & (row[:-1] < row[1:])))
    ):
        return found
    return found.take(np.lexsort((row, commit)))


def _parts(storage: Storage, found: LocatedRows, part_bytes: int) -> Iterator[Columns]:
    """The rows in parts of whole commits near `part_bytes`, with their batches."""
    cuts = list(_cuts(found.columns, part_bytes))
    if not cuts:
        return
    if found.columns.batch_bytes() <= LOAD_BYTES:
        loaded = load(storage, found)
        yield from (loaded.take(cut) for cut in cuts)
        return
    for cut in cuts:
        yield load(storage, found.take(np.arange(cut.start, cut.stop)))


def _cuts(columns: Columns, part_bytes: int) -> Iterator[slice]:
    """The parts of rows in commit order. A part ends between commits: as soon as `part_bytes` are reached, and before a
    commit that would make it larger than that and `PART_BYTES_MAX`, so frames do not grow from site to site of a
    chain."""
    if bytes_in_frame(columns) <= part_bytes:
        if len(columns):
            yield slice(0, len(columns))
        return
    total = np.cumsum(columns.size.astype(np.int64) + ROW_BYTES)
    ends = np.concatenate((np.flatnonzero(np.diff(columns.commit)) + 1, [len(columns)]))
    totals = total[ends - 1]
    most_bytes = max(part_bytes, PART_BYTES_MAX)
    first = start = done = 0
    while first < len(ends):
        enough = int(np.searchsorted(totals, done + part_bytes))
        fits = int(np.searchsorted(totals, done + most_bytes, side="right")) - 1
        last = max(first, min(enough, fits))
        yield slice(start, int(ends[last]))
        first, start, done = last + 1, int(ends[last]), int(totals[last])
