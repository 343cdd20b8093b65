"""Applies the rows of one frame, one after the other, each to the state that the rows before it left.

    of an owner not known here   behind (a Kafka cluster has epochs for each partition, which nobody tells before)
    of an owner of before,
      from B on                  superseded: dropped, a START row is clipped to B
    last < E                     the same batch stands there: dropped; another one: conflict
    P ≤ E ≤ base, Q fits         appended at its own offsets
    P > E                        behind
    anything else                conflict

E and its epoch are where the partition's log ends here; base, last, P (previous_end) and Q (previous_epoch) are the
row's, as its sender had them. B is where the epoch after the row's begins in the log of the topic's owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fairlead.model.errors import CorruptBatch
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.model.names import SLICES
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.cursors import CursorRows
from fairlead.streamlog.applying.kept import KeptRows
from fairlead.streamlog.applying.notes import OWNERSHIP, LinkNotes, has_read_all
from fairlead.streamlog.applying.plain import PlainRows
from fairlead.streamlog.applying.topics import NOT_ITS_OWN, TopicRows
from fairlead.streamlog.batch_rows import check_batch_row
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.objects.columns import RowsOf
from fairlead.streamlog.ownership.histories import beginning_of, has_changed, log_of, parts_at, start_of_next_epoch
from fairlead.streamlog.parting import history_below
from fairlead.streamlog.payloads import BEGINS_HERE, FROM_NOW, StartPayload
from fairlead.streamlog.ranges import EPOCH_MAX, OFFSET_MAX, are_offsets
from fairlead.streamlog.requests.claimed import is_claimed, note_claimed
from fairlead.streamlog.requests.deletion import put_deletion
from fairlead.streamlog.rows import HOLE, NO_TOPIC_SENT, PASSED_ON_KINDS, Kind, Row
from fairlead.streamlog.state.effects import joined_history
from fairlead.streamlog.values import HARMED, UNKNOWN_TOPIC, Behind, PartitionState, RowKey, StoredBatch, Topic
from fairlead.streamlog.writing.draft import Draft

ALONE_MIN: Final = 32
"""So many rows are applied one by one, where one is not plain, before it is looked for plain ones again."""


class FrameRows:
    """Applies rows of one frame and counts what became of them."""

    def __init__(self, draft: Draft, frame: Frame, admission: Admission, notes: LinkNotes | None = None) -> None:
        self._draft = draft
        self._frame = frame
        self._admission = admission
        self.notes = notes or LinkNotes(draft, frame, admission)
        self._topics = TopicRows(draft, frame, self.notes, admission)
        self._kept = KeptRows(draft, frame, self.notes, admission)
        self._cursors = CursorRows(draft, frame, self.notes, admission)
        rows = frame.rows
        self._plain = PlainRows(draft, frame, rows.columns, admission) if isinstance(rows, RowsOf) else None
        self._here: dict[int, Topic] = {}
        """Topics of the frame's data rows that are here and not deleted, by the source's numbers. What a row does to a
        topic empties it: a frame has some hundred topics, and thousands of rows of them."""
        self._claimed: list[Row] = []
        """Batches appended here that a claim has made."""
        self.appended = 0
        """Records."""
        self.duplicates = 0
        """Records that were here already."""
        self.superseded = 0
        """Records of an owner of before, of which the log of the present one has others or none."""

    @property
    def outdated(self) -> frozenset[int]:
        """Numbers of the topics of which rows of an owner of before came."""
        return frozenset(self._topics.outdated)

    @property
    def cursors(self) -> int:
        """Cursors of other sites that said something new."""
        return self._cursors.applied

    def _named(self, row: Row) -> FrameTopic:
        """What the source's number of a row means."""
        named = self._frame.topics.get(row.topic)
        if named is None:
            raise CorruptBatch(f"frame of link {self._frame.link.hex()}: does not name its topic {row.topic}")
        return named

    def overlapping(self, first: int = 0) -> Iterator[RowKey]:
        """Keys of batches that this log seems to hold already, to be compared with what is stored or to be cut at; of
        the rows from `first` on."""
        rows = self._frame.rows[first:]
        if self._plain is not None and isinstance(rows, RowsOf):
            yield from self._plain.overlapping(first)
            rows = rows.of(Kind.TOPIC)
        for row in rows:
            if row.kind == Kind.TOPIC:
                yield from self._topics.cut_by(self._named(row), row)
            elif row.kind == Kind.BATCH and are_offsets(row.base_offset, row.last_offset):
                topic = self._topic_of(self._named(row), row)
                if topic is None or not self._admission.speaks_for(topic.owner):
                    continue
                if row.last_offset < self._draft.state.partition(topic.number, row.partition).end:
                    yield topic.number, row.partition, row.base_offset

    def apply_all(self) -> None:
        """Apply the rows of the frame in their order: plain ones many at a time, the others, and those right behind
        one of these, each by itself.

        Raises:
            NotLoaded: rows on disk must be compared with the frame; it names all of them.
            StorageFull, CorruptBatch: as `apply`.
        """
        rows, plain = self._frame.rows, self._plain
        place = 0 if plain is None else plain.append(0, len(rows))
        if place < len(rows):
            self._draft.require_stored(self.overlapping(place))
        if plain is not None:
            self._apply_mixed(plain, place)
            self.appended += plain.appended
        else:
            for row in rows:
                self.apply(row)

    def _apply_mixed(self, plain: PlainRows, place: int) -> None:
        """Apply the rows from `place` on, which is not plain."""
        rows = self._frame.rows
        alone = ALONE_MIN
        while place < len(rows):
            until = max(place + alone, plain.next_like(place))
            for row in rows[place:until]:
                self.apply(row)
            place, ahead = until, 4 * ALONE_MIN
            count = plain.append(place, place + ahead)
            alone = ALONE_MIN if count else 2 * alone
            while count == ahead:
                # As many again, so that looking costs little where few are plain.
                place, ahead = place + count, 2 * ahead
                count = plain.append(place, place + ahead)
            place += count

    def apply(self, row: Row) -> None:
        """Apply one row.

        Raises:
            CorruptBatch: rows of its kind are not applied. The frame is refused, since the position would pass the row.
        """
        if row.kind == Kind.TOPIC:
            self._here.clear()
            self._topics.topic(self._named(row), row)
        elif row.kind == Kind.TOPIC_DELETED:
            self._here.clear()
            self._topics.topic_deleted(self._named(row), row)
        elif row.kind in {Kind.BATCH, Kind.START}:
            self._data(row)
        elif row.kind == Kind.CURSOR:
            self._cursors.apply(self._named(row), row)
        elif row.kind in PASSED_ON_KINDS and NO_TOPIC_SENT <= row.topic < NO_TOPIC_SENT + SLICES:
            self._kept.of_no_topic(row)
        elif row.kind in PASSED_ON_KINDS:
            self._kept.of_topic(self._named(row), row)
        else:
            raise CorruptBatch(
                f"frame of link {self._frame.link.hex()}: this version applies no rows of kind {row.kind}; "
                "is the source a newer version? then upgrade this cluster"
            )

    def _data(self, row: Row) -> None:
        named = self._named(row)
        if not 0 <= row.partition < PARTITIONS_PER_TOPIC_MAX:
            raise CorruptBatch(f"frame of link {self._frame.link.hex()}: no topic has a partition {row.partition}")
        if row.topic not in self._here and self._draft.state.tombstone(named.incarnation) is not None:
            return
        note = self.notes.of(named.incarnation, row.partition)
        if note is not None and note.create is not None and _held_records(row):
            self._here.clear()
            self._topics.try_waiting(note.create, row)
            note = self.notes.of(named.incarnation, row.partition)
        if note is not None and note.behind.conflict:
            self.notes.conflicts += 1
            return
        topic = self._topic_of(named, row)
        if topic is None or row.partition >= topic.partitions:
            if topic is not None and _is_of_before(topic, row):
                self._topics.outdated.add(topic.number)
            else:
                self.notes.note_behind(named, row.partition, 0, UNKNOWN_TOPIC)
        elif not self._admission.speaks_for(topic.owner):
            self.notes.set_aside(topic, NOT_ITS_OWN)
        elif row.kind == Kind.BATCH:
            self._batch(named, topic, row)
        else:
            self._start(named, topic, row)

    def _counts(self, topic: Topic, row: Row, epoch: int) -> bool:
        """Whether the source may bring the row. Who wrote it is asked only in the present owner's epoch: what was there
        before, the owner vouches for. The epochs of a Kafka cluster's partitions tell nothing of owners."""
        is_of_before = epoch < topic.epoch and not topic.is_of_kafka
        return is_of_before or self._admission.speaks_for(row.origin or self._frame.source)

    def _topic_of(self, named: FrameTopic, row: Row) -> Topic | None:
        topic = self._here.get(row.topic)
        if topic is None:
            topic = self._draft.state.by_incarnation(named.incarnation)
            if topic is not None:
                self._here[row.topic] = topic
        return topic

    def _batch(self, named: FrameTopic, topic: Topic, row: Row) -> None:
        state = self._draft.state.partition(topic.number, row.partition)
        if not self._counts(topic, row, row.epoch):
            self.notes.set_aside(topic, NOT_ITS_OWN)
        elif not (are_offsets(row.base_offset, row.last_offset) and 0 <= row.epoch <= EPOCH_MAX):
            self.notes.note_behind(named, row.partition, state.end, HARMED)
        elif row.epoch > topic.epoch and not topic.is_of_kafka:
            self.notes.note_behind(named, row.partition, state.end, OWNERSHIP)
        elif self._is_superseded(topic, row):
            self.superseded += row.records
            self._topics.outdated.add(topic.number)
        elif row.last_offset < state.end:
            self._already_here(named, topic, row, state)
        elif row.previous_end > state.end:
            self.notes.note_behind(named, row.partition, state.end, "gap")
        elif row.base_offset < state.end:
            self.notes.set_aside(topic, f"offset {row.base_offset} lies below the end {state.end} of another history")
        elif row.epoch < state.epoch or not _follows(topic, row, state):
            self.notes.set_aside(
                topic, f"epoch {row.previous_epoch} before offset {state.end}, here it is {state.epoch}"
            )
        elif not _holds_together(row):
            self.notes.note_behind(named, row.partition, state.end, HARMED)
        else:
            self._append(topic, row)

    def _is_superseded(self, topic: Topic, row: Row) -> bool:
        until = start_of_next_epoch(row.epoch, log_of(topic, row.partition))
        return until is not None and row.last_offset >= until

    def _append(self, topic: Topic, row: Row) -> None:
        source = self._frame.source
        copy = self._draft.add_copy(row, topic.number, origin=row.origin or source, via=source, via_commit=row.commit)
        self.appended += row.records
        if is_claimed(copy.batch):
            self._claimed.append(copy)

    def _already_here(self, named: FrameTopic, topic: Topic, row: Row, state: PartitionState) -> None:
        if self._same(topic, row, state):
            self.duplicates += row.records
        elif not _holds_together(row):
            self.notes.note_behind(named, row.partition, state.end, HARMED)
        else:
            self.notes.set_aside(
                topic, f"another record stands at offset {row.base_offset} of partition {row.partition}"
            )

    def _same(self, topic: Topic, row: Row, state: PartitionState) -> bool:
        """Whether the same batch stands at the row's offsets; where it expired or lies in a gap, only the epoch is
        compared."""
        found = self._draft.stored_at(topic.number, row.partition, row.base_offset)
        if found is None:
            return state.epoch_before(row.base_offset + 1) == row.epoch
        return found == self._as_stored(row)

    def _as_stored(self, row: Row) -> StoredBatch:
        origin = row.origin or self._frame.source
        return StoredBatch(row.base_offset, row.last_offset, row.epoch, origin, row.crc)

    def _start(self, named: FrameTopic, topic: Topic, row: Row) -> None:
        payload = self._start_payload(named, topic, row)
        if payload is None:
            return
        if not self._counts(topic, row, payload.epoch):
            self.notes.set_aside(topic, NOT_ITS_OWN)
            return
        state = self._draft.state.partition(topic.number, row.partition)
        if payload.epoch > topic.epoch and not topic.is_of_kafka:
            self.notes.note_behind(named, row.partition, state.end, OWNERSHIP)
            return
        if payload.epoch < topic.epoch and has_changed(topic, row.partition):
            payload = _clipped(payload, topic, row.partition)
            row = row._replace(base_offset=min(row.base_offset, payload.log_end))
        self._place_start(named, topic, row, payload, state)

    def _place_start(
        self, named: FrameTopic, topic: Topic, row: Row, payload: StartPayload, state: PartitionState
    ) -> None:
        deleted_to = self._deleted_to(topic, payload)
        if row.base_offset <= state.end:
            self._delete_records(topic, row, state, payload)
        elif payload.gap_from is not None and payload.gap_from > state.end:
            self.notes.note_behind(named, row.partition, state.end, "gap")
        elif not state.end and (payload.reason == BEGINS_HERE or not self._after_link_began(row)):
            self._put_start(topic, row, payload, state, None)
        elif payload.reason == FROM_NOW and state.start == state.end:
            # Nothing is held here: the source says step by step where the past ends that it leaves out.
            self._put_start(topic, row, payload, state, None)
        elif state.epoch_before(state.end) != _epoch_before(payload, state.end):
            self.notes.set_aside(topic, f"another epoch history before offset {state.end} of partition {row.partition}")
        elif row.base_offset <= deleted_to:
            self._put_start(topic, row, payload, state, None)
        else:
            self._delete_records(topic, row, state, payload)
            self._put_start(topic, row, payload, state, state.end)

    def _deleted_to(self, topic: Topic, payload: StartPayload) -> int:
        """The offset below which the owner has deleted all records. We know that of our own topics: from elsewhere it
        would be a hostile row, or one that comes back."""
        return 0 if topic.owner == self._draft.stream_id else payload.deleted_to

    def _delete_records(self, topic: Topic, row: Row, state: PartitionState, payload: StartPayload) -> None:
        """Raise the offset below which the owner has deleted all records. It says nothing of where batches begin, so it
        holds whatever of them is here."""
        deleted_to = self._deleted_to(topic, payload)
        if deleted_to > state.deleted_to:
            put_deletion(
                self._draft,
                topic.number,
                row.partition,
                deleted_to,
                origin=row.origin or self._frame.source,
                via=self._frame.source,
                epoch=payload.epoch,
                via_commit=row.commit,
                ext=payload.ext,
            )

    def _start_payload(self, named: FrameTopic, topic: Topic, row: Row) -> StartPayload | None:
        try:
            if 0 <= row.base_offset <= OFFSET_MAX:
                return payloads.decode_start(row.batch)
        except CorruptBatch:
            pass
        end = self._draft.state.partition(topic.number, row.partition).end
        self.notes.note_behind(named, row.partition, end, HARMED)
        return None

    def _after_link_began(self, row: Row) -> bool:
        """Whether what expired was appended after the link was made: then it is a gap, not where the link starts."""
        created = self._frame.created
        return created is not None and row.commit >= created

    def _put_start(
        self, topic: Topic, row: Row, payload: StartPayload, state: PartitionState, gap_from: int | None
    ) -> None:
        history = joined_history(state.history, payload.history, row.base_offset)
        deleted_to = max(state.deleted_to, self._deleted_to(topic, payload))
        log_end = max(payload.log_end, row.base_offset, deleted_to)
        self._draft.add_control(
            Kind.START,
            StartPayload(payload.reason, log_end, history, gap_from, deleted_to, payload.epoch, payload.ext),
            number=topic.number,
            partition=row.partition,
            base_offset=row.base_offset,
            origin=row.origin or self._frame.source,
            via=self._frame.source,
            via_commit=row.commit,
        )

    def finish(self) -> None:
        """Note what of tails has come, once all rows are applied."""
        note_claimed(self._draft, self._claimed)

    def finish_repair(self, repair: Repair) -> None:
        """Clear the note of the repaired partition if all that its slice has passed is here now."""
        named = self._frame.topics.get(repair.number)
        if named is None or not repair.last or not has_read_all(self._draft, self._frame, repair):
            return
        note = self.notes.of(named.incarnation, repair.partition)
        run = (self._frame.run.epoch, self._frame.run.counter)
        if note is None or note.behind.conflict or note.refused_in == run:
            return
        if self._is_whole(named.incarnation, note.behind, repair):
            self.notes.clear(note.behind)

    def _is_whole(self, incarnation: bytes, noted: Behind, repair: Repair) -> bool:
        """Whether all that the repair brought is here, and all on which the owner's epoch stands: the source may have
        lacked some of that itself. Of a topic that was deleted here while it was behind, the source has no more than
        was here: else this is the last frame of several, and the row by which the topic lives again is still to come.
        """
        topic = self._draft.state.by_incarnation(incarnation)
        if topic is None:
            is_all = noted.end == 0 or repair.end <= noted.end
            return self._draft.state.tombstone(incarnation) is not None and is_all
        start, _ = beginning_of(topic.since, repair.partition)
        is_of_before = repair.partition >= topic.partitions
        end = self._draft.state.partition(topic.number, repair.partition).end
        return is_of_before or end >= max(repair.end, start)


def _is_of_before(topic: Topic, row: Row) -> bool:
    """Whether an owner of before has written the row, in a partition that the present one did not know when its epoch
    began: it is superseded, and no later row will say that there is such a partition."""
    try:
        epoch = payloads.decode_start(row.batch).epoch if row.kind == Kind.START else row.epoch
    except CorruptBatch:
        return False
    return epoch < topic.epoch and row.partition >= len(topic.since) and not topic.is_of_kafka


def _held_records(row: Row) -> bool:
    """The row shows that its topic holds, or held, a record."""
    return row.kind == Kind.BATCH or row.base_offset > 0


def _holds_together(row: Row) -> bool:
    try:
        check_batch_row(row)
    except CorruptBatch:
        return False
    return True


def _follows(topic: Topic, row: Row, state: PartitionState) -> bool:
    """Whether the row's history has the epoch of the last record here, and it stands where its own epoch has begun.
    Before a HOLE that epoch may have been compacted away at the sender, whose Q is then that of an earlier record; what
    the topic's epoch began with still knows it."""
    epoch = state.epoch_before(state.end)
    start, history = beginning_of(topic.since, row.partition)
    if row.epoch == topic.epoch and row.base_offset < start and not topic.is_of_kafka:
        return False
    if not row.bits & HOLE:
        return epoch == row.previous_epoch
    if state.end <= start:
        return epoch == PartitionState(0, 0, -1, history).epoch_before(state.end)
    return row.previous_epoch <= epoch <= row.epoch


def _clipped(payload: StartPayload, topic: Topic, partition: int) -> StartPayload:
    """What a START row of an owner of before says of the present owner's log: nothing from where the two part, and
    nothing of what it deleted. Where it deleted records, and its log begins behind them, what was never here can come
    from nobody: it is a gap, as where they expired."""
    at = parts_at(topic, partition, payload.history, payload.log_end)
    return replace(payload, log_end=min(payload.log_end, at), history=history_below(payload.history, at), deleted_to=0)


def _epoch_before(payload: StartPayload, offset: int) -> int:
    return PartitionState(0, 0, -1, payload.history).epoch_before(offset)
