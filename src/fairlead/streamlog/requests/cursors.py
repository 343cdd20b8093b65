"""Committed offsets of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairlead.model.errors import InvalidName, InvalidValue
from fairlead.model.limits import OFFSET_METADATA_BYTES_MAX
from fairlead.model.names import GROUP_ID_BYTES_MAX
from fairlead.streamlog.cursors import Cursor, CursorPair
from fairlead.streamlog.ownership.lost import lowest_cut
from fairlead.streamlog.parting import history_below
from fairlead.streamlog.payloads import History
from fairlead.streamlog.ranges import COUNTER_MAX
from fairlead.streamlog.rows import NO_OFFSET, Kind
from fairlead.streamlog.state.effects import payload_of_cursor
from fairlead.streamlog.values import Cut, PartitionState, Topic, topic_with
from fairlead.streamlog.writing.draft import Draft

MOVED_VERSIONS = 1 << 32
"""A group that goes on here from what was committed elsewhere counts on by so many: its commits are newer than those
that it made there last and that no link has brought. A cursor may move two billion times."""


def commit_cursor(
    draft: Draft,
    group: str,
    number: int,
    partition: int,
    offset: int,
    leader_epoch: int = -1,
    metadata: str | None = "",
    known_cuts: int | None = None,
    since: int | None = None,
) -> Cursor:
    """Commit a group's next offset; one that changes nothing writes no row (Java clients commit every five seconds).

    `known_cuts`, of a member: its generation does not know of the cuts from that commit on. None: it is no member.

    `since`: the group has had members here from that commit on; None: it has none. Once others that knew what these
    have committed go on elsewhere, the group is at work in two places, and goes its own way here for ever.

    Raises:
        UnknownTopic, UnknownPartition
        InvalidName: the group's name is empty or too long.
        InvalidValue: a negative offset, or more metadata than Kafka allows.
    """
    topic = topic_with(draft.state.topic(number), number, partition)
    if not 1 <= len(group.encode()) <= GROUP_ID_BYTES_MAX:
        raise InvalidName(f"group name of {len(group)} characters: use 1 to {GROUP_ID_BYTES_MAX} bytes")
    text = metadata or ""
    if offset < 0:
        raise InvalidValue(f"group {group}: offset {offset} is negative")
    if len(text.encode()) > OFFSET_METADATA_BYTES_MAX:
        raise InvalidValue(f"group {group}: metadata of more than {OFFSET_METADATA_BYTES_MAX} bytes")
    state, cuts = draft.state.partition(number, partition), draft.state.cuts_of(number, partition)
    offset, leader_epoch = _as_read(topic, state, cuts, offset, leader_epoch, known_cuts)
    before = draft.state.cursors(group, number, partition)
    history = _read(state, offset, leader_epoch)
    own, cursor = before.own, _following(draft, before, offset, leader_epoch, text, since, history)
    if own is not None and _says_the_same(own, cursor) and before.effective(since) is own and not own.at < (since or 0):
        return own
    _put(draft, group, number, partition, cursor)
    return cursor


def _as_read(
    topic: Topic, state: PartitionState, cuts: Sequence[Cut], offset: int, epoch: int, known_cuts: int | None
) -> tuple[int, int]:
    """How far a commit counts, and the epoch of the record before.

    A member that does not know of a cut yet has read something else from there on, and is taken to have read up to it.
    Who names no epoch means the record that stands before the offset now. Some clients name the epoch that they were
    told when they began, whatever they have read since (sarama): a member that is beyond the end of that epoch has read
    what stands here, unless something was cut there since. An epoch that begins at the offset or above it is no
    record's, but that in which the member was told the offset (`Cursor.served`).
    """
    later = [cut for cut in cuts if cut.by_epoch > epoch]
    lowest = min([offset, *(cut.offset for cut in later if known_cuts is not None and cut.commit >= known_cuts)])
    if 0 <= epoch < topic.epoch:
        lowest = min(lowest, lowest_cut(topic, state, cuts, epoch))
    before = state.epoch_before(lowest)
    if lowest < offset or epoch < 0:
        return lowest, before
    if topic.is_of_kafka or epoch > topic.epoch or offset > state.end or before < 0:
        return offset, epoch
    has_read_it = known_cuts is not None and all(cut.offset >= offset for cut in later)
    return offset, before if has_read_it else min(before, epoch)


def _says_the_same(own: Cursor, cursor: Cursor) -> bool:
    said = (own.offset, own.leader_epoch, own.metadata, own.apart)
    return said == (cursor.offset, cursor.leader_epoch, cursor.metadata, cursor.apart)


def _read(state: PartitionState, offset: int, leader_epoch: int) -> History:
    """The epochs below an offset, for a cursor: up to that of the record before it. None are told of a topic that never
    changed its owner, nor of an epoch that is not known here."""
    found = tuple(entry for entry in history_below(state.history, offset) if entry[0] <= leader_epoch)
    return found if found and found[-1][0] == leader_epoch > 0 else ()


def _following(
    draft: Draft,
    before: CursorPair,
    offset: int,
    leader_epoch: int,
    metadata: str,
    since: int | None,
    history: History = (),
) -> Cursor:
    """The cursor that comes after those, committed here now."""
    own, theirs = before.own, before.theirs
    is_moved = theirs is not None and before.effective(since) is theirs
    version = min(before.highest + (MOVED_VERSIONS if is_moved else 1), COUNTER_MAX)
    is_next = own is not None and since is not None and own.at >= since
    first = own.first if own is not None and is_next else version
    seen = 0 if theirs is None else theirs.version
    is_apart = theirs is not None and is_next and theirs.seen >= first
    apart = is_apart or (own is not None and own.apart)
    said = Cursor(offset, leader_epoch, metadata, draft.now_ms, version, draft.stream_id, history=history)
    return replace(said, seen=seen, first=first, apart=apart, at=draft.commit)


def delete_cursor(draft: Draft, group: str, number: int, partition: int, own_at: int | None = None) -> bool:
    """Forget a group's offset in a partition, here and where links bring that; False if there was none, or if another
    one was committed here since the commit `own_at`. Its version stays: a commit after it is newer than what other
    sites have."""
    before = draft.state.cursors(group, number, partition)
    if own_at is not None and before.own_at != own_at:
        return False
    if before.live() is None and (before.own is None or before.own.is_deleted):
        return False
    _put(draft, group, number, partition, replace(_following(draft, before, NO_OFFSET, -1, "", None), apart=False))
    return True


def adopt_cursor(draft: Draft, group: str, number: int, partition: int) -> bool:
    """Go on from what was committed elsewhere last, also if the group went its own way here; False if there is no such
    commit, or it is what counts here already."""
    before = draft.state.cursors(group, number, partition)
    own, theirs = before.own, before.theirs
    if theirs is None or before.effective(None) is theirs:
        return False
    found = _following(draft, before, theirs.offset, theirs.leader_epoch, theirs.metadata, None, theirs.history)
    found = replace(found, apart=False)
    if own is not None and _says_the_same(own, found):
        return False
    _put(draft, group, number, partition, found)
    return True


def publish_cursors(draft: Draft, keys: Iterable[tuple[str, int, int]]) -> int:
    """Write what links bring elsewhere of cursors that were committed here since, given by group, topic number and
    partition; answers how many there were."""
    count = 0
    for group, number, partition in keys:
        found = draft.state.cursors(group, number, partition)
        if found.own is not None and found.is_dirty and draft.state.topic(number) is not None:
            put_published(draft, group, number, partition, found.own)
            count += 1
    return count


def tell_cursors(draft: Draft, keys: Iterable[tuple[str, int, int]]) -> int:
    """Write what links bring elsewhere of cursors, given by group, topic number and partition, once more: the newest
    that was committed here, and the newest that came from elsewhere; answers how many there were. Of our own that came
    home, after this log had lost it, nothing is told: what was committed here since has a version of its own."""
    count = 0
    for group, number, partition in keys:
        found = draft.state.cursors(group, number, partition)
        theirs = found.theirs if found.theirs is not None and found.theirs.origin != draft.stream_id else None
        for cursor in (found.own, theirs):
            if cursor is not None and draft.state.topic(number) is not None:
                put_published(draft, group, number, partition, cursor)
                count += 1
    return count


def put_published(draft: Draft, group: str, number: int, partition: int, cursor: Cursor) -> None:
    """Write the row by which links bring a cursor, ours or another's, to other sites."""
    via = None if cursor.origin == draft.stream_id else cursor.origin
    payload = payload_of_cursor(group, cursor)
    draft.add_control(Kind.CURSOR, payload, number=number, partition=partition, origin=cursor.origin, via=via)


def _put(draft: Draft, group: str, number: int, partition: int, cursor: Cursor) -> None:
    draft.add_control(Kind.COMMITTED, payload_of_cursor(group, cursor), number=number, partition=partition)
