"""From an offset that a group has committed at the source to the one that it would have at the destination; pure.

Never skips: every record at or behind the one lies at or behind the other. Exact: nothing before it is read again, as
long as the partition was mirrored whole, and nothing was removed from it by compaction since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.points import Segment
from fairlead.mirror.groups.history import History


class Anchor(NamedTuple):
    """The nearest place below an offset of which both sides are known."""

    source: int
    destination: int
    left: bool
    """Whether records lie between it and the offset, which must be counted."""
    until: int | None = None
    """Up to this offset of the destination more lies behind it than was sent, such as markers of transactions, which
    must be stepped over there. None: nothing does."""


def newest(position: Position) -> Segment | None:
    """The stretch that ends where the partition is mirrored to; None: what belongs to it is not known."""
    if position.at < 0:
        return None
    run = position.offset - position.since
    return Segment(position.since, position.at - run, run, position.sent - run)


def anchor_of(offset: int, position: Position, history: History) -> Anchor | None:
    """The nearest place below an offset; None: nothing is known so far back. What is not mirrored yet lies at or behind
    the end."""
    last = newest(position)
    if last is None:
        return None
    found = last if offset >= last.source else history.below(offset)
    if found is None:
        return None
    if offset <= found.end:
        return Anchor(offset, found.destination + offset - found.source, left=False)
    if found is last:
        return Anchor(found.end, found.destination_end, left=False)
    following = history.after(found) or last
    others = following.destination - found.destination_end > following.sent - found.sent - found.run
    return Anchor(found.end, found.destination_end, left=True, until=following.destination if others else None)


def inverse(offset: int, position: Position, history: History) -> int | None:
    """The other way round: up to which offset of the source all records lie before `offset` of the destination."""
    last = newest(position)
    if last is None:
        return None
    every: list[Segment] = [*history, last]
    for each in reversed(every):
        if each.destination <= offset:
            return each.source + min(each.run, offset - each.destination)
    return None


def bounded(found: int, known: int, position: Position, history: History) -> int:
    """`found`, or less, where others have written to the partition of the destination too: below `known` the group has
    read what they wrote, behind it not."""
    last = newest(position)
    segments = [*history, *([] if last is None else [last])]
    allowed = _of_others(known, segments)
    following: Segment | None = None
    for each in reversed(segments):
        if each.destination <= found:
            before = each.destination - each.sent
            if before <= allowed:
                whole = following is None or following.destination - following.sent <= allowed
                return found if whole else min(found, each.destination_end)
        following = each
    return min(found, allowed)


def _of_others(offset: int, segments: Sequence[Segment]) -> int:
    """How many records below an offset of the destination others have written, at least."""
    for each in reversed(segments):
        if each.destination <= offset:
            return each.destination - each.sent
    return max(offset - segments[0].sent, 0) if segments else 0
