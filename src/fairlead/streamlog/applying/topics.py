"""TOPIC and TOPIC_DELETED rows of a frame.

When a TOPIC row arrives:

    its incarnation is known                         see `claims`: nothing, a newer version, another owner, a conflict
    its tombstone is known, of a lower epoch         it lives again under a new number, to be brought from its start
    its tombstone is known                           dropped; noted, if the same source had brought the deletion
    another incarnation holds its name               the one that never held a record yields; if both are empty, the
                                                     smaller stream id keeps the name; if neither is, a conflict

Whether the arriving incarnation ever held a record is known when its first one comes: until then its create row waits
in the note. A deletion counts unless it is of an epoch before the known one: an owner of before, cut off, said it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from fairlead.model.errors import CorruptBatch
from fairlead.model.names import is_topic_name, names_like, parse_stream_path, prefixed
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.claims import (
    Claim,
    changed,
    claim_of,
    cut_to_owner,
    delete_as_told,
    has_other_name,
    origin_of_change,
    partings,
    renamed,
    tell_of_more,
)
from fairlead.streamlog.applying.notes import LinkNotes, has_read_all
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.payloads import TopicDeletedPayload, TopicPayload
from fairlead.streamlog.requests.cuts import undelete
from fairlead.streamlog.requests.topics import (
    bury,
    may_hide_an_owner,
    put_topic,
    release_waiting,
    renames_of,
    resolve_others,
    waits,
)
from fairlead.streamlog.rows import Row
from fairlead.streamlog.state.effects import payload_of, topic_of
from fairlead.streamlog.values import DELETED_HERE, NAME_HELD, NO_NAME_HERE, RowKey, Topic, is_kafka
from fairlead.streamlog.writing.draft import Draft

NOT_ITS_OWN = "the upstream is a partner, and the topic is none of its own (-origins)"
ANOTHER_OWNER = "the upstream names another owner, or another beginning, of the topic's epoch than is known here"
OWNERSHIP_CLAIM = "ownership-claim: the upstream gives the topic another owner, which it may not (-peer)"


class TopicRows:
    """Applies the rows of a frame that speak of topics."""

    def __init__(self, draft: Draft, frame: Frame, notes: LinkNotes, admission: Admission) -> None:
        self._draft = draft
        self._frame = frame
        self._notes = notes
        self._admission = admission
        self.outdated: set[int] = set()
        """Numbers of the topics of which rows of an owner of before came: the source may not know the present one."""

    def topic(self, named: FrameTopic, row: Row) -> None:
        """Apply a TOPIC row, which speaks of `named`."""
        tombstone = self._draft.state.tombstone(named.incarnation)
        payload = self._topic_payload(named, row)
        if payload is None:
            return
        if tombstone is not None and payload.epoch <= tombstone.epoch:
            if tombstone.via != self._frame.source or self._is_sent_again(row):
                return
            if self._admission.speaks_for(payload.owner):
                self._wait(payload, DELETED_HERE)
            return
        known = self._draft.state.by_incarnation(named.incarnation)
        if known is not None and payload.epoch < known.epoch:
            self.outdated.add(known.number)
            self._hear_of_more(known, payload)
            return
        if not self._admission.speaks_for(payload.owner):
            self._notes.refuse(payload, NOT_ITS_OWN)
            return
        if known is not None:
            self._known(known, payload, row)
            self._end_waiting(known, payload)
            return
        if not (is_topic_name(payload.name) and self._admission.falls_here(payload.name)):
            self._wait(payload, NO_NAME_HERE + payload.name)
            return
        holder = self._draft.state.by_name(payload.name)
        if holder is None or (self._may_yield(holder) and payload.owner < holder.owner):
            made = self._create(payload, row, holder)
            self._end_waiting(made, payload)
            if tombstone is not None:
                self._bring(payload, dict.fromkeys(range(payload.partitions), 0))
        else:
            self._wait(payload, NAME_HELD + payload.name)

    def cut_by(self, named: FrameTopic, row: Row) -> Iterator[RowKey]:
        """Keys of the batches at which a TOPIC row would cut partitions that are here: a frame may have thousands of
        such rows, and asks for all of them at once."""
        known = self._draft.state.by_incarnation(named.incarnation)
        if known is None:
            return
        with suppress(CorruptBatch):
            payload = payloads.decode_topic(row.batch)
            if claim_of(known, payload, self._admission, self._draft.stream_id) is Claim.NEW_OWNER:
                yield from partings(self._draft, changed(known, payload))

    def _is_sent_again(self, row: Row) -> bool:
        """The frame lies below the recorded position: its deletions, which came after it, are known."""
        frame = self._frame
        recorded = self._draft.state.position((frame.link, frame.shard, slice_of_number(row.topic)))
        return recorded is not None and max(frame.from_commit + 1, frame.to_commit) <= recorded.commit

    def _topic_payload(self, named: FrameTopic, row: Row) -> TopicPayload | None:
        try:
            payload = payloads.decode_topic(row.batch)
        except CorruptBatch:
            payload = None
        if payload is None or payload.incarnation != named.incarnation:
            self._notes.note_harmed(named)
            return None
        if payload.home and not self._admission.prefix:
            return payload
        name = prefixed(self._admission.prefix, payload.name)
        return replace(payload, name=name, home=payload.home or payload.name)

    def _known(self, known: Topic, payload: TopicPayload, row: Row) -> None:
        """Apply a TOPIC row of an incarnation that is here, of its owner's epoch or a later one."""
        match claim_of(known, payload, self._admission, self._draft.stream_id):
            case Claim.NEWER if payload.epoch:
                topic = self._change(known, payload, row)
                self._bring(payload_of(topic), self._refused(topic))
            case Claim.NEWER:
                self._change(known, payload, row)
                self._set_aside_new_partitions(known, payload)
            case Claim.NEW_OWNER:
                topic = self._change(known, payload, row)
                undelete(self._draft, topic)
                self._release(topic, row)
                tell_of_more(self._draft, topic)
            case Claim.SAME if payload.epoch:
                self._release(known, row)
            case Claim.CONFLICT:
                self._notes.set_aside(known, ANOTHER_OWNER)
            case Claim.NOT_ALLOWED:
                self._notes.set_aside(known, OWNERSHIP_CLAIM)

    def _change(self, known: Topic, payload: TopicPayload, row: Row) -> Topic:
        """Make the topic what the row says."""
        topic = renamed(self._draft, known, payload, self._admission)
        self._admission.check_topics(self._draft.state, 0, topic.partitions - known.partitions)
        origin = origin_of_change(self._draft, known.number, self._origin(row))
        put_topic(self._draft, topic, origin, self._frame.source, row.commit)
        if topic.name != known.name:
            release_waiting(self._draft, known.name)
        if has_other_name(known, payload):
            self._bring_what_was_left_out(topic)
        return topic

    def _bring_what_was_left_out(self, topic: Topic) -> None:
        """The link may have left the topic out by the name that it had: its rows were passed over, and no other may
        come."""
        unnoted = [each for each in range(topic.partitions) if self._notes.of(topic.incarnation, each) is None]
        ends = {each: self._draft.state.partition(topic.number, each).end for each in unnoted}
        self._bring(payload_of(topic), ends)

    def _release(self, topic: Topic, row: Row) -> None:
        """Cut what the topic's owner never had, and have brought what is missing; also of what was set aside on this
        link, as another owner's history or as none of the source's topics: there is one history now."""
        missing = dict(cut_to_owner(self._draft, topic))
        self._bring(payload_of(topic), self._refused(topic) | missing)
        self._delete_as_told(topic, row)

    def _refused(self, topic: Topic) -> dict[int, int]:
        """The partitions that are set aside on this link, and their ends."""
        refused = (each for each in range(topic.partitions) if self._is_refused(topic.incarnation, each))
        return {each: self._draft.state.partition(topic.number, each).end for each in refused}

    def _bring(self, topic: TopicPayload, ends: Mapping[int, int]) -> None:
        """Note these partitions behind, with their ends."""
        for partition, end in ends.items():
            self._notes.note_missing(topic, partition, end)

    def _hear_of_more(self, known: Topic, payload: TopicPayload) -> None:
        """A row of an epoch before ours: that owner may have raised the number of partitions unseen. Clients know of
        them, so they stay; what it wrote to them has no place in our log."""
        more = payload.partitions - known.partitions
        if more > 0 and known.owner == self._draft.stream_id and self._admission.moves_owners:
            newer = known._replace(partitions=payload.partitions, version=known.version + 1)
            put_topic(self._draft, newer, self._draft.stream_id, None)

    def _set_aside_new_partitions(self, known: Topic, payload: TopicPayload) -> None:
        note = self._notes.of(known.incarnation, 0)
        if note is not None and note.behind.conflict:
            self._notes.note_all(payload, range(known.partitions, payload.partitions), note.behind.reason, None)

    def _end_waiting(self, topic: Topic, payload: TopicPayload) -> None:
        """The topic waited on this link for a name that another one holds, and has one now: its owner gave it another,
        or it came by another link. What was dropped meanwhile is to be brought."""
        for partition in range(topic.partitions):
            note = self._notes.of(topic.incarnation, partition)
            if note is not None and waits(note):
                end = self._draft.state.partition(topic.number, partition).end
                self._notes.note_missing(payload, partition, end)

    def _create(self, payload: TopicPayload, row: Row, holder: Topic | None) -> Topic:
        """Make the topic; whoever holds its name yields."""
        self._admission.check_topics(self._draft.state, 1, payload.partitions)
        refused = [p for p in range(payload.partitions) if self._is_refused(payload.incarnation, p)]
        if holder is not None:
            bury(self._draft, holder, self._draft.stream_id, None, yielded=True)
        topic = topic_of(self._draft.state.next_number(payload.name), payload)
        put_topic(self._draft, topic, self._origin(row), self._frame.source, row.commit)
        resolve_others(self._draft, topic, self._frame.link)
        self._bring(payload, dict.fromkeys(refused, 0))
        if renames_of(payload):
            self._bring_what_was_left_out(topic)
        self._delete_as_told(topic, row)
        return topic

    def _delete_as_told(self, topic: Topic, row: Row) -> None:
        delete_as_told(self._draft, topic, self._origin(row), self._frame.source, row.commit)

    def _is_refused(self, incarnation: bytes, partition: int) -> bool:
        """Set aside on this link for more than its name: an owner of before was none of those for whom the source may
        speak, say, or the topic was deleted here."""
        note = self._notes.of(incarnation, partition)
        return note is not None and note.behind.conflict and not waits(note)

    def _wait(self, payload: TopicPayload, reason: str) -> None:
        """Set aside an incarnation that cannot be made here, and remember its create row."""
        self._notes.note_all(payload, range(payload.partitions), reason, payload)
        self._notes.conflicts += 1

    def try_waiting(self, create: TopicPayload, row: Row) -> None:
        """The first record of an incarnation that waits has come: it gets its name if the holder is empty; else, and if
        that is a name of another shard, it gets another one where aliases are made."""
        known = self._draft.state.by_incarnation(create.incarnation)
        if known is not None:
            self._end_waiting(known, create)
        if known is not None or not is_topic_name(create.name):
            return
        holder = self._draft.state.by_name(create.name)
        is_taken = holder is not None and not self._may_yield(holder)
        if (is_taken or not self._admission.falls_here(create.name)) and self._admission.aliases:
            create, holder = replace(create, name=self._alias(create)), None
        if not self._admission.falls_here(create.name):
            return
        if holder is None or self._may_yield(holder):
            topic = self._create(create, row, holder)
            note = self._notes.of(create.incarnation, row.partition)
            if note is not None:
                self._notes.clear(note.behind)  # the row itself tells whether any is missing before it
            self._end_waiting(topic, create)

    def _alias(self, create: TopicPayload) -> str:
        """A name that nobody holds, for a topic whose name another one does: it says which cluster owns the topic. That
        may have got another of the name there before, and have called it otherwise since."""
        is_known = create.owner_at and not is_kafka(create.owner_at)
        cluster = parse_stream_path(create.owner_at).cluster if is_known else create.owner.hex()
        names = names_like(f"{create.name}.at.{cluster}")
        here = (name for name in names if self._admission.falls_here(name))
        return next(name for name in here if self._draft.state.by_name(name) is None)

    def _may_yield(self, topic: Topic) -> bool:
        """Whether the topic never held a record; to a partner's topics only its own yield."""
        return (
            self._admission.speaks_for(topic.owner)
            and not any(self._held_records(topic, partition) for partition in range(topic.partitions))
            # A record of it came that was refused: the note that says so would go with the topic.
            and not self._draft.state.notes_of(topic.incarnation)
        )

    def _held_records(self, topic: Topic, partition: int) -> bool:
        """It may be empty all the same: what it held was cut off, and its tail would go with it before it is copied."""
        state = self._draft.state
        return bool(state.partition(topic.number, partition).end or state.cuts_of(topic.number, partition))

    def topic_deleted(self, named: FrameTopic, row: Row) -> None:
        """Apply a TOPIC_DELETED row, which speaks of `named`."""
        payload = self._deleted_payload(named, row)
        if payload is None:
            return
        if payload.yielded:
            # A topic that made room never held a record there, so on this link none of it waits or is missing any more.
            self._clear_notes(named, row)
            return
        tombstone = self._draft.state.tombstone(named.incarnation)
        if tombstone is not None:
            self._clear_notes(named, row)
            if payload.epoch > tombstone.epoch and self._admission.speaks_for_all:
                self._bury(Topic(tombstone.number, tombstone.name, named.incarnation, 0, b""), payload, row)
            return
        known = self._draft.state.by_incarnation(named.incarnation)
        if known is not None and payload.epoch < known.epoch:
            self.outdated.add(known.number)
            return
        if known is not None and not self._admission.speaks_for(known.owner):
            self._notes.set_aside(known, NOT_ITS_OWN)
            return
        if known is None and not self._admission.speaks_for_all:
            # Nobody knows whose it was: it may be a topic of somebody else that is still to come.
            self._clear_notes(named, row)
            self._clear_waiting(named, payload)
            return
        if known is None:
            # It is remembered though it was never here: another path may still bring its create row.
            number = self._draft.state.next_number(named.name)
            known = Topic(number, named.name, named.incarnation, 0, b"")
            self._bury(known, payload, row)
            return
        self._bury(known, payload, row)
        release_waiting(self._draft, known.name)

    def _bury(self, topic: Topic, payload: TopicDeletedPayload, row: Row) -> None:
        deleted = topic._replace(epoch=payload.epoch)
        origin = origin_of_change(self._draft, topic.number, self._origin(row))
        told_by = self._frame.link if self._ends_notes(row) else None
        bury(self._draft, deleted, origin, self._frame.source, row.commit, told_by=told_by, ext=payload.ext)

    def _deleted_payload(self, named: FrameTopic, row: Row) -> TopicDeletedPayload | None:
        try:
            return payloads.decode_topic_deleted(row.batch)
        except CorruptBatch:
            self._notes.note_harmed(named)
            return None

    def _clear_notes(self, named: FrameTopic, row: Row) -> None:
        for (link, _, _), note in self._draft.state.notes_of(named.incarnation).items():
            if link == self._frame.link and (self._ends_notes(row) or not may_hide_an_owner(note)):
                self._notes.clear(note.behind)

    def _clear_waiting(self, named: FrameTopic, payload: TopicDeletedPayload) -> None:
        """Its owner deletes a topic that waits for a name, also on another link, which may have ended since: one that
        was the side copy of this one."""
        for (link, _, _), note in self._draft.state.notes_of(named.incarnation).items():
            create = note.create
            if create is not None and create.owner == self._frame.source and create.epoch <= payload.epoch:
                self._notes.clear_on(link, note.behind)

    def _ends_notes(self, row: Row) -> bool:
        """Whether a deletion ends all notes of the link on its topic: it stands behind all rows of before, unless it is
        sent again. In a repair that has read all that the link has passed, it is the last that the source says of the
        topic under that number."""
        if self._frame.repair is None:
            return not self._is_sent_again(row)
        return has_read_all(self._draft, self._frame, self._frame.repair)

    def _origin(self, row: Row) -> bytes:
        return row.origin or self._frame.source
