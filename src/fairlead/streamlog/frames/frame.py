"""Frames: the rows of some slices of a shard for a range of commits, in commit order, as sent over a link.

A frame stands alone: it carries name and incarnation of every topic whose number its rows use. So it means the same on
any connection, in any order, sent twice or by a zombie (`docs/decisions/`, frames that stand alone).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from fairlead.streamlog.ranges import Commit, Number, Offset, Partition
from fairlead.streamlog.rows import Row
from fairlead.streamlog.values import GrantRun

FEATURES: Final[tuple[str, ...]] = ("txn", "compact", "opaque")
"""Features of rows that this program can apply: `txn` (batches and markers of transactions), `compact` (batches that
compaction rewrote, and holes), `opaque` (kinds that are kept and passed on unread)."""


class FrameTopic(NamedTuple):
    """What a topic number of the source means."""

    incarnation: bytes
    name: str


topic_from: Final[Callable[[Any], FrameTopic]] = partial(tuple.__new__, FrameTopic)
"""One of both fields, in a third of the time: a frame may name a thousand."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Marks a frame that brings one partition that was behind; such a frame moves no position."""

    number: Number
    partition: Partition
    read_to: Commit
    """Commits below this one have been read for the partition; the note is cleared only if this commit is not before
    the slice's recorded position."""
    last: bool
    """No further rows of this repair follow."""
    end: Offset = 0
    """Where the partition's log ends after the rows of this repair so far. The note is cleared only if the replica has
    come that far, so that the loss of a frame on the way is noticed. 0: not known."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. Commits are the source's: [from_commit, to_commit)."""

    link: bytes
    """Id of the link, 16 bytes."""
    run: GrantRun
    source: bytes
    """Id of the source stream; becomes `via` of the rows here."""
    shard: int
    slices: int
    """Mask of the slices: bit s for slice s. The frame has every row of each of them from `from_commit` on."""
    from_commit: int
    to_commit: int
    epoch_id: bytes
    """Random id of the source's writer epoch in which to_commit - 1 lies."""
    topics: Mapping[int, FrameTopic]
    rows: Sequence[Row]
    repair: Repair | None = None
    created: int | None = None
    """Where the source's shard ended when the link was made. Records that expired unsent at the source are a gap if
    their commit is not below this, even where the replica never held the partition; if it is, the link just starts
    behind them. None: not known, taken as a start."""
    end: int = 0
    """Announced end of the source's shard when the frame was made; 0: not known."""
    features: tuple[str, ...] = ()
    """What a reader of the rows must know of; see `FEATURES`."""
    ext: Mapping[str, Any] = field(default_factory=dict)
    """What later versions say that may be passed over."""
