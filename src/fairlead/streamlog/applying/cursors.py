"""Cursors that were committed elsewhere: the newest one is kept beside our own, and passed on.

A row counts if it is newer than the one that came before; so it may come twice, late, and by two ways, and comes to
rest where it began. It may come before the records that its group has read: what clients are told ends with the log.
"""

from __future__ import annotations

from fairlead.model.errors import CorruptBatch
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.notes import LinkNotes
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.payloads import CursorPayload
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state.effects import cursor_of
from fairlead.streamlog.values import CURSOR_FIRST, HARMED
from fairlead.streamlog.writing.draft import Draft


class CursorRows:
    """Applies the CURSOR rows of a frame."""

    def __init__(self, draft: Draft, frame: Frame, notes: LinkNotes, admission: Admission) -> None:
        self._draft = draft
        self._frame = frame
        self._notes = notes
        self._admission = admission
        self.applied = 0
        """Rows that said something new."""

    def apply(self, named: FrameTopic, row: Row) -> None:
        """Apply one row. What a partner's consumers have read says nothing of ours. What does not fit is noted behind,
        and a repair of the partition brings it again.

        Raises:
            CorruptBatch: no topic has such a partition.
        """
        if not 0 <= row.partition < PARTITIONS_PER_TOPIC_MAX:
            raise CorruptBatch(f"frame of link {self._frame.link.hex()}: no topic has a partition {row.partition}")
        state = self._draft.state
        if not self._admission.speaks_for_all or state.tombstone(named.incarnation) is not None:
            return
        note = self._notes.of(named.incarnation, row.partition)
        if note is not None and note.behind.conflict:
            self._notes.conflicts += 1
            return
        topic = state.by_incarnation(named.incarnation)
        if topic is None or row.partition >= topic.partitions:
            self._notes.note_behind(named, row.partition, 0, CURSOR_FIRST)
            return
        try:
            payload = payloads.decode_cursor(row.batch)
        except CorruptBatch:
            self._notes.note_behind(named, row.partition, state.partition(topic.number, row.partition).end, HARMED)
            return
        if self._is_new(topic.number, row, payload):
            self.applied += 1
            self._draft.add_control(
                Kind.CURSOR,
                bytes(row.batch),
                number=topic.number,
                partition=row.partition,
                origin=self._origin(row),
                via=self._frame.source,
                via_commit=row.commit,
            )

    def _is_new(self, number: int, row: Row, payload: CursorPayload) -> bool:
        """Our own comes back to us only where we have lost it: this log was put back to an older state."""
        known = self._draft.state.cursors(payload.group, number, row.partition)
        cursor = cursor_of(payload, self._origin(row), row.commit)
        if cursor.origin == self._draft.stream_id and known.own is not None and cursor.version <= known.own.version:
            return False
        return known.theirs is None or cursor.is_newer_than(known.theirs)

    def _origin(self, row: Row) -> bytes:
        return row.origin or self._frame.source
