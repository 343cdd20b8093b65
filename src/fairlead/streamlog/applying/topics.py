"""TOPIC and TOPIC_DELETED rows of a frame, and the notes that a link leaves on partitions.

A create row that arrives: its incarnation known, nothing (or a newer version of it); its tombstone known, dropped; its
name held by another incarnation, one that never held a record yields (both empty: to the smaller stream id), else
conflict. Whether the arriving one ever held a record is known when its first one comes: until then its create row
waits in the note.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.model.errors import CorruptBatch, InvalidName
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.model.names import check_topic_name
from fairlead.streamlog import payloads
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.payloads import BehindPayload, TopicPayload
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state.effects import Note, topic_of
from fairlead.streamlog.values import Behind, Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.topics import bury, put_topic, release_waiting


class TopicApplier:
    """The part of applying a frame that speaks of topics; counts rows that were refused."""

    def __init__(self, draft: Draft, frame: Frame) -> None:
        self._draft = draft
        self._frame = frame
        self.appended = 0
        self.duplicates = 0
        self.behind = 0
        self.conflicts = 0

    def _named(self, row: Row) -> FrameTopic:
        """What the source's number of a row means."""
        named = self._frame.topics.get(row.topic)
        if named is None:
            raise CorruptBatch(f"frame of link {self._frame.link.hex()}: does not name its topic {row.topic}")
        return named

    # Topics

    def _topic(self, row: Row) -> None:
        named = self._named(row)
        if self._draft.state.tombstone(named.incarnation) is not None:
            return
        payload = self._topic_payload(named, row)
        if payload is None:
            return
        known = self._draft.state.by_incarnation(named.incarnation)
        if known is not None:
            self._newer(known, payload, row)
            return
        try:
            check_topic_name(payload.name)
        except InvalidName:
            self._wait(payload, "name")
            return
        holder = self._draft.state.by_name(payload.name)
        if holder is None or (self._empty(holder) and payload.owner < holder.owner):
            self._create(payload, row, holder)
        else:
            self._wait(payload, f"conflict: another topic holds the name {payload.name}")

    def _topic_payload(self, named: FrameTopic, row: Row) -> TopicPayload | None:
        try:
            payload = payloads.decode_topic(row.batch)
        except CorruptBatch:
            payload = None
        if payload is None or payload.incarnation != named.incarnation or not _sound(payload):
            self._behind(named, 0, 0, "crc")
            return None
        return payload

    def _newer(self, known: Topic, payload: TopicPayload, row: Row) -> None:
        """A later TOPIC row of an incarnation that is here; partitions never become fewer."""
        if payload.version > known.version and payload.partitions >= known.partitions:
            put_topic(self._draft, topic_of(known.number, payload), self._origin(row), self._frame.source)
            self._set_aside_new_partitions(known, payload)

    def _set_aside_new_partitions(self, known: Topic, payload: TopicPayload) -> None:
        note = self._note(known.incarnation, 0)
        if note is not None and note.behind.conflict:
            self._note_all(payload, range(known.partitions, payload.partitions), note.behind.reason, None)

    def _create(self, payload: TopicPayload, row: Row, holder: Topic | None) -> None:
        """Make the topic; whoever holds its name yields."""
        if holder is not None:
            bury(self._draft, holder, self._draft.stream_id, None, yielded=True)
        topic = topic_of(self._draft.state.next_number(payload.name), payload)
        put_topic(self._draft, topic, self._origin(row), self._frame.source)

    def _wait(self, payload: TopicPayload, reason: str) -> None:
        """Set an incarnation aside that cannot be made here, remembering its create row."""
        self._note_all(payload, range(payload.partitions), reason, payload)
        self.conflicts += 1

    def _try_waiting(self, create: TopicPayload, row: Row) -> None:
        """The first record of an incarnation that waits has come: it gets its name if the holder is empty."""
        holder = self._draft.state.by_name(create.name)
        if self._draft.state.by_incarnation(create.incarnation) is not None or not _nameable(create.name):
            return
        if holder is None or self._empty(holder):
            self._create(create, row, holder)
            for partition in range(create.partitions):
                note = self._note(create.incarnation, partition)
                if note is not None:
                    self._clear(note.behind)

    def _empty(self, topic: Topic) -> bool:
        """Whether the topic never held a record."""
        return all(self._draft.state.partition(topic.number, p).end == 0 for p in range(topic.partitions))

    def _topic_deleted(self, row: Row) -> None:
        named = self._named(row)
        if self._draft.state.tombstone(named.incarnation) is not None or self._yielded(named, row):
            return
        known = self._draft.state.by_incarnation(named.incarnation)
        if known is None:
            # Remembered though it never was here: another path may still bring its create row.
            number = self._draft.state.next_number(named.name)
            bury(self._draft, _unknown(number, named), self._origin(row), self._frame.source)
            return
        bury(self._draft, known, self._origin(row), self._frame.source)
        release_waiting(self._draft, known.name)

    def _yielded(self, named: FrameTopic, row: Row) -> bool:
        """The row deletes nothing here: the topic made room in its sender only, or it cannot be read. What made room
        never held a record there, so nothing of it waits or is missing on this link any more."""
        try:
            payload = payloads.decode_topic_deleted(row.batch)
        except CorruptBatch:
            self._behind(named, 0, 0, "crc")
            return True
        if payload.yielded:
            for (_, incarnation, _), note in self._draft.state.notes(self._frame.link).items():
                if incarnation == named.incarnation:
                    self._clear(note.behind)
        return payload.yielded

    def _origin(self, row: Row) -> bytes:
        return row.origin or self._frame.source

    # Notes

    def _note(self, incarnation: bytes, partition: int) -> Note | None:
        return self._draft.state.note((self._frame.link, incarnation, partition))

    def _behind(self, named: FrameTopic, partition: int, end: int, reason: str) -> None:
        """Refuse a row: its partition must be brought again from `end`."""
        self.behind += 1
        note = self._note(named.incarnation, partition)
        run = None
        if self._frame.repair is not None:
            run = (self._frame.run.epoch, self._frame.run.counter)
        if note is None or (run is not None and note.refused_in != run):
            behind = Behind(named.name, named.incarnation, partition, end, reason, self._draft.now_ms)
            self._put_note(behind, run, None if note is None else note.create)

    def _conflict(self, topic: Topic, why: str) -> None:
        """Set the topic aside on this link, with all its partitions."""
        self.conflicts += 1
        payload = TopicPayload(topic.name, topic.incarnation, topic.partitions, topic.owner, topic.epoch, topic.version)
        self._note_all(payload, range(topic.partitions), f"conflict: {why}", None)

    def _note_all(
        self, topic: TopicPayload, partitions: Iterable[int], reason: str, create: TopicPayload | None
    ) -> None:
        known = self._draft.state.by_incarnation(topic.incarnation)
        for partition in partitions:
            note = self._note(topic.incarnation, partition)
            if note is None or self._outdated(note, reason, create):
                end = 0 if known is None else self._draft.state.partition(known.number, partition).end
                behind = Behind(topic.name, topic.incarnation, partition, end, reason, self._draft.now_ms)
                self._put_note(behind, None, create)

    def _outdated(self, note: Note, reason: str, create: TopicPayload | None) -> bool:
        if create is not None and note.create is not None and create.version > note.create.version:
            return True
        return not note.behind.conflict and note.behind.reason != reason

    def _put_note(self, behind: Behind, refused_in: tuple[int, int] | None, create: TopicPayload | None) -> None:
        payload = BehindPayload(
            self._frame.link,
            behind.topic,
            behind.incarnation,
            behind.partition,
            behind.end,
            behind.reason,
            behind.noted_at,
            refused_in,
            create,
        )
        self._draft.add_control(Kind.BEHIND, payload)

    def _clear(self, behind: Behind) -> None:
        payload = BehindPayload(
            self._frame.link, behind.topic, behind.incarnation, behind.partition, 0, None, self._draft.now_ms
        )
        self._draft.add_control(Kind.BEHIND, payload)


def _sound(payload: TopicPayload) -> bool:
    return 1 <= payload.partitions <= PARTITIONS_PER_TOPIC_MAX


def _nameable(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidName:
        return False
    return True


def _unknown(number: int, named: FrameTopic) -> Topic:
    return Topic(number, named.name, named.incarnation, 0, b"")
