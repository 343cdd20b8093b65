"""What a log knows of a consumer group's place in a partition: what was committed here, and elsewhere.

The two are kept side by side, since only the server knows whether the group has members here, which are not moved by
what another site says (`CursorPair.effective`). Versions say which of two is the newer one; clocks say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from fairlead.streamlog.parting import parting
from fairlead.streamlog.payloads import History
from fairlead.streamlog.rows import NO_OFFSET
from fairlead.streamlog.values import PartitionState


@dataclass(frozen=True, slots=True)
class Cursor:
    """Committed offset of a group in a partition: that of the next record to read."""

    offset: int
    """-1: the cursor is deleted, and was not committed again."""
    leader_epoch: int
    """Topic epoch of the record before, as the client says, else as the log says; -1 if there was no record."""
    metadata: str
    committed_at: int
    version: int
    """One more than any that its stream knew then; no clocks."""
    origin: bytes = b""
    """Id of the stream in which it was committed."""
    seen: int = 0
    """The highest version from elsewhere that its stream knew then."""
    first: int = 0
    """Of its own: the version of the first commit since the group has had members there."""
    apart: bool = False
    """The group was at work elsewhere at the same time: its members here go their own way, whatever comes."""
    at: int = 0
    """Number of the commit of this log that has it."""
    history: History = ()
    """Epochs of the log below the offset, and their first offsets, as the group has read it. Empty: only the first
    epoch of a topic, or it is not known."""

    @property
    def is_deleted(self) -> bool:
        return self.offset == NO_OFFSET

    def is_newer_than(self, other: Cursor) -> bool:
        """Of two that were committed at once, one and the same is the newer one everywhere."""
        return (self.version, self.origin) > (other.version, other.origin)

    def served(self, state: PartitionState, current: int, stream: bytes) -> Cursor:
        """The cursor as clients of that stream are told it, in a topic of epoch `current`: not beyond where the log
        that the group has read and this one part. What lay there was cut off, and other records stand in its place.
        So below that they are told the topic's epoch, in which the offset stands: some clients name what they are told
        here with all that they commit later (sarama). What was committed elsewhere may be ahead of the records too: the
        group reads what comes."""
        if 0 <= self.leader_epoch < current:
            offset = min(self.offset, self._end_of_what_was_read(state, current))
            return replace(self, offset=offset, leader_epoch=current)
        if self.origin == stream or self.offset <= state.end:
            return self
        return replace(self, offset=state.end, leader_epoch=state.epoch_before(state.end))

    def _end_of_what_was_read(self, state: PartitionState, current: int) -> int:
        """Where that ends in this log: at the end of the epoch of the last record. An epoch that is not in this log was
        cut off with all of its records, and what they stood on is what both logs have."""
        if not self.history or any(held == self.leader_epoch for held, _ in state.history):
            return state.end_of_epoch(current, self.leader_epoch)[1]
        return parting(self.history, self.offset, state.history, state.end)


class CursorPair(NamedTuple):
    """The two cursors of a group in a partition."""

    own: Cursor | None = None
    """Committed here."""
    theirs: Cursor | None = None
    """The newest that came over links."""
    published: int = 0
    """The version of the own one that links bring elsewhere; 0: none yet."""

    @property
    def highest(self) -> int:
        """Of all versions known."""
        return max(0 if each is None else each.version for each in (self.own, self.theirs))

    @property
    def own_at(self) -> int:
        """The commit of this log that has the own one; -1 if there is none."""
        return -1 if self.own is None else self.own.at

    @property
    def is_dirty(self) -> bool:
        """The own one was not published yet."""
        return self.own is not None and self.own.version != self.published

    def effective(self, since: int | None) -> Cursor | None:
        """The one that counts here; it may be deleted. `since`: the group has had members here from that commit on;
        None: it has none.

        The newest one; but once the present members have committed, theirs alone counts, and so it does for ever if
        the group is at work elsewhere too. What comes late from a site that was lost finds a group that goes on.
        """
        own, theirs = self.own, self.theirs
        if own is None or theirs is None:
            return own or theirs
        is_of_members = since is not None and own.at >= since
        return own if own.apart or is_of_members or not theirs.is_newer_than(own) else theirs

    def live(self, since: int | None = None) -> Cursor | None:
        """The one that counts here, None if it is deleted."""
        found = self.effective(since)
        return None if found is None or found.is_deleted else found


NO_CURSORS = CursorPair()
