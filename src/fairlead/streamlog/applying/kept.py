"""Rows of kinds that this program does not know: kept by key and passed on, so that the sites behind it get them.

A row counts if its `n` is above that of the row that is held of its key; so it may come twice, late, and by two ways.
"""

from __future__ import annotations

from fairlead.model.errors import CorruptBatch
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.notes import LinkNotes
from fairlead.streamlog.applying.topics import NOT_ITS_OWN
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.payloads import KeptPayload
from fairlead.streamlog.rows import Row
from fairlead.streamlog.values import HARMED, UNKNOWN_TOPIC
from fairlead.streamlog.writing.draft import Draft


class KeptRows:
    """Applies the rows of a frame that only others understand."""

    def __init__(self, draft: Draft, frame: Frame, notes: LinkNotes, admission: Admission) -> None:
        self._draft = draft
        self._frame = frame
        self._notes = notes
        self._admission = admission

    def of_no_topic(self, row: Row) -> None:
        """Apply a row that belongs to no topic.

        Raises:
            CorruptBatch: nobody can say what it is about. The frame is refused.
            NotAllowed: a partner brings more than it may.
        """
        payload = payloads.decode_kept(row.batch, row.kind)
        if self._admission.speaks_for(self._origin(row)):
            self._keep(row, row.topic, payload)

    def of_topic(self, named: FrameTopic, row: Row) -> None:
        """Apply a row that belongs to a topic, or to one of its partitions; what does not fit is noted behind, and a
        repair of the partition (of the first one) brings it again.

        Raises:
            CorruptBatch, NotAllowed: the same.
        """
        if not -1 <= row.partition < PARTITIONS_PER_TOPIC_MAX:
            raise CorruptBatch(f"frame of link {self._frame.link.hex()}: no topic has a partition {row.partition}")
        state, partition = self._draft.state, max(row.partition, 0)
        if state.tombstone(named.incarnation) is not None:
            return
        note = self._notes.of(named.incarnation, partition)
        if note is not None and note.behind.conflict:
            self._notes.conflicts += 1
            return
        topic = state.by_incarnation(named.incarnation)
        if topic is None or partition >= topic.partitions:
            self._notes.note_behind(named, partition, 0, UNKNOWN_TOPIC)
            return
        if not self._admission.speaks_for(topic.owner, self._origin(row)):
            self._notes.set_aside(topic, NOT_ITS_OWN)
            return
        try:
            payload = payloads.decode_kept(row.batch, row.kind)
        except CorruptBatch:
            self._notes.note_behind(named, partition, state.partition(topic.number, partition).end, HARMED)
            return
        self._keep(row, topic.number, payload)

    def _keep(self, row: Row, number: int, payload: KeptPayload) -> None:
        held = self._draft.state.kept(number, (row.kind, row.partition, payload.k))
        if held is not None and held.n >= payload.n:
            return
        if held is None:
            self._admission.check_kept(self._draft.state)
        self._draft.add_control(
            row.kind,
            bytes(row.batch),
            number=number,
            partition=row.partition,
            origin=self._origin(row),
            via=self._frame.source,
            via_commit=row.commit,
        )

    def _origin(self, row: Row) -> bytes:
        return row.origin or self._frame.source
