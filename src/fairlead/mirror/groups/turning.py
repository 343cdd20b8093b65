"""Whether the partitions of a topic keep their numbers, or the key deals its records, may change with a start of the
mirror: topics grow at both ends, and options change.

What the key has dealt lies in any partition of the destination. So where partitions keep their numbers since, a group
that has not read all of before, of one partition, has unread records in all of them, and nothing is known of its place.

The books tell by a topic's moments (`barriers.py`): one stands there before the key deals anything of it. One without
ends at the destination says from which offsets on partitions keep their numbers. Always true: it is written before
anything is sent so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairlead.mirror.books.book import Book
from fairlead.mirror.books.points import Barrier
from fairlead.mirror.groups.barriers import Barriers
from fairlead.mirror.lanes import Part
from fairlead.mirror.planning.plan import Planned
from fairlead.mirror.ports import Place


class Turn(NamedTuple):
    """How a topic goes on."""

    barriers: Barriers
    since: Sequence[int] = ()
    """By partition: from here on they keep their numbers, and the key has dealt what lies before. Empty: it dealt
    nothing, or deals still."""
    is_new: bool = False
    """Whether partitions keep their numbers from this start on."""


def first_of(part: Part) -> Part:
    """Partition 0 of its topic, which stands for all of it."""
    return part._replace(partition=0)


def turns_of(planned: Iterable[Planned], book: Book, ends: Mapping[Place, int]) -> Mapping[Part, Turn]:
    """How the topics go on of which these partitions begin, by their partitions 0; `ends` are the destination's, and
    `book` says how far all is that was mirrored before."""
    topics: dict[Part, list[Planned]] = {}
    for each in planned:
        topics.setdefault(first_of(each.part), []).append(each)
    offsets: dict[Part, dict[int, int]] = {first: {} for first in topics}
    for part, position in book.positions.items():
        if (first := first_of(part)) in offsets:
            offsets[first][part.partition] = position.offset
    for first, its in topics.items():
        offsets[first] |= {each.part.partition: each.begin.offset for each in its}
    return {first: _turn(first, its, offsets[first], book, ends) for first, its in topics.items()}


def _turn(
    first: Part, planned: Sequence[Planned], offsets: Mapping[int, int], book: Book, ends: Mapping[Place, int]
) -> Turn:
    barriers = Barriers(book.barriers.get(first))
    if any(each.part == first and not each.known for each in planned):
        barriers.clear()
    route, to = planned[0].route, planned[0].to
    assert route is not None
    before, was_dealt = barriers.newest, barriers.newest is not None and bool(barriers.newest.destination)
    # All from these offsets on is sent from now on, also what was sent before and not told.
    now = tuple(offsets.get(number, 0) for number in range(max(offsets) + 1))
    if route.by_key:
        if not was_dealt:
            barriers.add(Barrier(now, tuple(ends.get(Place(to, number), 0) for number in range(route.count))))
        return Turn(barriers)
    if was_dealt:
        barriers.add(Barrier(now, ()))
        return Turn(barriers, now, is_new=True)
    return Turn(barriers, () if before is None else before.source)
