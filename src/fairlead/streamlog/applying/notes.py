"""The notes that a link leaves on partitions while a frame is applied: behind, or set aside by a conflict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.ownership.epochs import order_of
from fairlead.streamlog.payloads import BehindPayload, TopicPayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.effects import Note, payload_of
from fairlead.streamlog.values import CONFLICT, CURSOR_FIRST, HARMED, Behind, Topic
from fairlead.streamlog.writing.draft import Draft

OWNERSHIP = "ownership"
"""Reason of notes: the partition lacks what its owner had, or the row is of an owner that is not known here yet."""


def has_read_all(draft: Draft, frame: Frame, repair: Repair) -> bool:
    """Whether the source had read all that the link has passed, when it sent this frame of a repair."""
    recorded = draft.state.position((frame.link, frame.shard, slice_of_number(repair.number)))
    return recorded is None or repair.read_to >= recorded.commit


class LinkNotes:
    """Reads and writes the notes of a frame's link, and counts the rows that were refused."""

    def __init__(self, draft: Draft, frame: Frame, admission: Admission) -> None:
        self._draft = draft
        self._frame = frame
        self._admission = admission
        self._count: int | None = None
        self.behind = 0
        """Rows refused for their partition, and partitions noted to be missing something."""
        self.conflicts = 0
        """Rows of topics that are set aside."""

    def of(self, incarnation: bytes, partition: int) -> Note | None:
        """The note of a partition."""
        return self._draft.state.note((self._frame.link, incarnation, partition))

    def note_behind(self, named: FrameTopic, partition: int, end: int, reason: str) -> None:
        """Refuse a row: its partition must be brought again from `end`."""
        self.behind += 1
        note = self.of(named.incarnation, partition)
        run = None
        if self._frame.repair is not None:
            run = (self._frame.run.epoch, self._frame.run.counter)
        is_more = note is not None and note.behind.reason == CURSOR_FIRST and reason != CURSOR_FIRST
        if note is None or is_more or (run is not None and note.refused_in != run):
            behind = Behind(named.name, named.incarnation, partition, end, reason, self._draft.now_ms)
            self._put(behind, run, None if note is None else note.create)

    def note_harmed(self, named: FrameTopic) -> None:
        """Refuse a row of the topic itself. What else its first partition lacks waits with it: the note outlives a
        deletion of the topic, which this row may have taken back."""
        note = self.of(named.incarnation, 0)
        if note is None or note.behind.conflict or note.behind.reason == HARMED:
            self.note_behind(named, 0, 0, HARMED)
        else:
            self.behind += 1
            self._put(replace(note.behind, reason=HARMED), note.refused_in, note.create)

    def note_missing(self, topic: TopicPayload, partition: int, end: int) -> None:
        """Have a partition brought from `end` on, whatever was noted of it: its owner's history is not all here. No row
        was refused. What says so already stands."""
        note = self.of(topic.incarnation, partition)
        if note is not None and (note.behind.end, note.behind.reason, note.create) == (end, OWNERSHIP, None):
            return
        self.behind += 1  # or the source would not ask soon what is behind
        behind = Behind(topic.name, topic.incarnation, partition, end, OWNERSHIP, self._draft.now_ms)
        self._put(behind, None, None)

    def set_aside(self, topic: Topic, why: str) -> None:
        """Set the topic aside on this link, with all its partitions."""
        self.conflicts += 1
        self.note_all(payload_of(topic), range(topic.partitions), f"{CONFLICT}: {why}", None)

    def note_all(
        self, topic: TopicPayload, partitions: Iterable[int], reason: str, create: TopicPayload | None
    ) -> None:
        """Note these partitions of a topic, except those whose note already says as much. `create`: the topic waits
        for its name."""
        known = self._draft.state.by_incarnation(topic.incarnation)
        for partition in partitions:
            note = self.of(topic.incarnation, partition)
            if note is None or self._outdated(note, reason, create):
                end = 0 if known is None else self._draft.state.partition(known.number, partition).end
                behind = Behind(topic.name, topic.incarnation, partition, end, reason, self._draft.now_ms)
                self._put(behind, None, create)

    def _outdated(self, note: Note, reason: str, create: TopicPayload | None) -> bool:
        if create is not None and note.create is not None and order_of(create) > order_of(note.create):
            return True
        return not note.behind.conflict and note.behind.reason != reason

    def refuse(self, topic: TopicPayload, why: str) -> None:
        """Set a topic aside on this link for good, be it here or not: its rows do not count."""
        self.conflicts += 1
        self.note_all(topic, range(topic.partitions), f"{CONFLICT}: {why}", None)

    def _check_count(self) -> None:
        """Raises: NotAllowed."""
        if self._admission.notes_max is not None:
            known = len(self._draft.state.notes(self._frame.link)) if self._count is None else self._count
            self._count = known + 1
            self._admission.check_notes(self._count)

    def _put(self, behind: Behind, refused_in: tuple[int, int] | None, create: TopicPayload | None) -> None:
        if self.of(behind.incarnation, behind.partition) is None:
            self._check_count()
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

    def clear(self, behind: Behind) -> None:
        """The partition is no longer behind."""
        self.clear_on(self._frame.link, behind)

    def clear_on(self, link: bytes, behind: Behind) -> None:
        """The partition is no longer behind on that link, which may be another one."""
        payload = BehindPayload(link, behind.topic, behind.incarnation, behind.partition, 0, None, self._draft.now_ms)
        self._draft.add_control(Kind.BEHIND, payload)


class Refusals(LinkNotes):
    """Notes that are not kept, of rows that no link brings: whoever asked for them is told."""

    def __init__(self, draft: Draft, frame: Frame, admission: Admission) -> None:
        super().__init__(draft, frame, admission)
        self.found: dict[tuple[bytes, int], Note] = {}
        """By incarnation and partition."""

    def of(self, incarnation: bytes, partition: int) -> Note | None:
        """The note of a partition."""
        return self.found.get((incarnation, partition))

    def _put(self, behind: Behind, refused_in: tuple[int, int] | None, create: TopicPayload | None) -> None:
        self.found[behind.incarnation, behind.partition] = Note(behind, refused_in, create)

    def clear(self, behind: Behind) -> None:
        """The partition is no longer behind."""
        self.found.pop((behind.incarnation, behind.partition), None)
