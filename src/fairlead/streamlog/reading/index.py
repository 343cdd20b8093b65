"""Where the batches of the commits that wait for merging are.

Each partition has a list of entries in offset order. Work per batch is constant: one entry when it is announced, and
the entry's removal after merging.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.rows import BATCH, LOCAL_KINDS, NO_TOPIC, Kind, Row
from fairlead.streamlog.values import PartitionKey

ENTRY_BYTES: Final = 300
"""Of memory for an entry: the tuple and its numbers."""
LIST_BYTES: Final = 250
"""Of memory for a partition that has some: its key, its list and its place in the table."""


class Entry(NamedTuple):
    """One batch that is not yet merged. Its last offset comes first, since entries are searched by it."""

    last_offset: int
    base_offset: int
    previous_end: int
    commit: int
    place: int
    """Place of the row in its commit."""
    size: int


_ENTRY: Final[Callable[[Any], Entry]] = partial(tuple.__new__, Entry)
"""An entry of all its fields, in half the time of `Entry._make`."""
_KEY: Final[Callable[[Row], PartitionKey]] = itemgetter(*map(Row._fields.index, ("topic", "partition")))
_KIND: Final[Callable[[Row], int]] = itemgetter(Row._fields.index("kind"))
_TOPIC: Final[Callable[[Row], int]] = itemgetter(Row._fields.index("topic"))
_RECORDS: Final[Callable[[Row], int]] = itemgetter(Row._fields.index("records"))
_BATCH: Final[Callable[[Row], bytes | memoryview]] = itemgetter(Row._fields.index("batch"))
_PLACED: Final[Sequence[Callable[[Row], int]]] = [
    itemgetter(Row._fields.index(field)) for field in ("last_offset", "base_offset", "previous_end", "commit", "row")
]
"""An entry's fields, but its size."""
_NONE: Final = (0, 0)
_ONLY_BATCHES: Final = {BATCH}
C = TypeVar("C", Entry, Row)


class Live(NamedTuple):
    """What a commit changes of what can be read, once it is announced. It is made of the rows alone."""

    others: Sequence[Row]
    """Its rows that are no batches."""
    cuts: Sequence[Row]
    """Those that make dead what stood from their offset on."""
    batches: Sequence[Row]
    """Those that the commit does not cut itself."""
    keys: Sequence[PartitionKey]
    """The partition of each of them."""
    partitions: tuple[PartitionKey, ...]
    """Each of these once."""
    entries: Sequence[Entry]
    """Of each batch what the index keeps."""
    stats: CommitStats


class SliceStats(NamedTuple):
    """What one commit holds of one slice: rows that a link may send, records and bytes."""

    slice: int
    records: int
    size_bytes: int


class CommitStats(NamedTuple):
    """What `pending` and the merging policy need of one commit."""

    commit: int
    appended_at: int
    rows: int
    size_bytes: int
    slices: tuple[SliceStats, ...]
    keys: tuple[PartitionKey, ...]


FORGOTTEN_AT_ONCE = 2000
"""A step of forgetting ends once it has this many commits and partitions, so that others have their turn."""


class Tail:
    """Index of the announced commits above the merged ones. Changed on one thread, read by any."""

    def __init__(self) -> None:
        self._entries: dict[PartitionKey, list[Entry]] = {}
        self.commits: deque[CommitStats] = deque()
        """Unmerged commits in order; commit numbers that were never used are not in it."""

    def add(self, live: Live) -> None:
        """Take in an announced commit."""
        for row in live.cuts:
            cut_lists(self._entries, (row.topic, row.partition), row.base_offset)
        add_to_lists(self._entries, live.keys, live.entries)
        self.commits.append(live.stats)

    def forget(self, below_commit: int) -> Iterator[int]:
        """Drop the commits that segments stand for now, in steps of some milliseconds; yields each step's commits.

        Until the last step some commits are in both places, so whoever looks at both skips the commits here that are
        below the manifest's `merged_end`.
        """
        while self.commits and self.commits[0].commit < below_commit:
            keys: set[PartitionKey] = set()
            step = 0
            last = self.commits[0].commit
            while self.commits and self.commits[0].commit < below_commit and len(keys) + step < FORGOTTEN_AT_ONCE:
                stats = self.commits.popleft()
                keys.update(stats.keys)
                last, step = stats.commit, step + 1
            for key in keys:
                drop_below(self._entries, key, last + 1)
            yield step

    def entries(self, number: int, partition: int) -> Sequence[Entry]:
        """Entries of a partition in offset order. The list may grow while it is read."""
        return self._entries.get((number, partition), ())

    @property
    def size_bytes(self) -> int:
        """About what it takes up."""
        lists = list(self._entries.values())
        return LIST_BYTES * len(lists) + ENTRY_BYTES * sum(map(len, lists))

    def all(self) -> list[tuple[PartitionKey, Sequence[Entry]]]:
        """The entries of every partition. Any thread may ask."""
        return list(self._entries.items())


def first_at(entries: Sequence[Entry], offset: int) -> int:
    """Place of the first entry that ends at or after the offset."""
    return bisect_left(entries, (offset,))


def drop_below(lists: dict[PartitionKey, list[C]], key: PartitionKey, commit: int) -> None:
    """Drop a partition's entries of commits below `commit`. Its list is replaced, never cut: others may read it."""
    found = lists.get(key)
    if found is None:
        return
    kept = found[bisect_left(found, commit, key=attrgetter("commit")) :]
    if kept:
        lists[key] = kept
    else:
        del lists[key]


def add_to_lists(lists: dict[PartitionKey, list[C]], keys: Iterable[PartitionKey], entries: Iterable[C]) -> None:
    """Append what is kept of each batch to the list of its partition."""
    for key, entry in zip(keys, entries, strict=True):
        found = lists.get(key)
        if found is None:
            lists[key] = [entry]
        else:
            found.append(entry)


def live_of(rows: Sequence[Row]) -> Live:
    """What can be read of a commit, of which these are the rows. Most have nothing but batches."""
    if set(map(_KIND, rows)) == _ONLY_BATCHES:
        return _live(rows, (), (), rows)
    others = [row for row in rows if row.kind != BATCH]
    batches = [row for row in rows if row.kind == BATCH]
    cuts = [row for row in others if _is_cut(row)]
    for cut in cuts:
        batches = [row for row in batches if row.row > cut.row or not _cuts(cut, row)]
    return _live(rows, others, cuts, batches)


def _live(rows: Sequence[Row], others: Sequence[Row], cuts: Sequence[Row], batches: Sequence[Row]) -> Live:
    keys = list(map(_KEY, batches))
    partitions = tuple(dict.fromkeys(keys))
    fields = [map(field, batches) for field in _PLACED]
    entries = list(map(_ENTRY, zip(*fields, map(len, map(_BATCH, batches)), strict=True)))
    # What the commit cuts itself is sent too.
    sent = batches if not cuts else [row for row in rows if row.kind == BATCH]
    stats = _stats(rows, [*sent, *filter(_is_sent, others)], partitions)
    return Live(others, cuts, batches, keys, partitions, entries, stats)


def _is_sent(row: Row) -> bool:
    """Whether a link may send the row, which is no batch."""
    return row.kind not in LOCAL_KINDS and row.topic != NO_TOPIC


def _is_cut(row: Row) -> bool:
    """Whether the row makes dead what stood from its offset on; a TRUNCATE row without an offset does not."""
    return row.kind == Kind.TRUNCATE and row.base_offset >= 0


def _cuts(cut: Row, row: Row) -> bool:
    return (cut.topic, cut.partition) == (row.topic, row.partition) and row.base_offset >= cut.base_offset


def cut_lists(lists: dict[PartitionKey, list[C]], key: PartitionKey, offset: int) -> None:
    """Drop a partition's entries from an offset on. Its list is replaced, never cut: others may read it."""
    found = lists.get(key)
    if found is None:
        return
    kept = [entry for entry in found if entry.base_offset < offset]
    if kept:
        lists[key] = kept
    else:
        del lists[key]


def _stats(rows: Sequence[Row], sent: Sequence[Row], partitions: tuple[PartitionKey, ...]) -> CommitStats:
    by_slice: dict[int, tuple[int, int]] = {}
    for topic, count, size in zip(map(_TOPIC, sent), map(_RECORDS, sent), map(len, map(_BATCH, sent)), strict=True):
        slice = slice_of_number(topic)
        records, size_bytes = by_slice.get(slice, _NONE)
        by_slice[slice] = records + count, size_bytes + size
    slices = tuple(SliceStats(slice, *sums) for slice, sums in by_slice.items())
    size_bytes = sum(map(len, map(_BATCH, rows)))
    return CommitStats(rows[-1].commit, rows[-1].appended_at, len(rows), size_bytes, slices, partitions)
