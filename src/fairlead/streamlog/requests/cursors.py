"""Committed offsets of consumer groups."""

from __future__ import annotations

from fairlead.model.errors import InvalidName, InvalidValue
from fairlead.model.limits import OFFSET_METADATA_BYTES_MAX
from fairlead.model.names import GROUP_ID_BYTES_MAX
from fairlead.streamlog.payloads import CursorPayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import Cursor, topic_with
from fairlead.streamlog.writing.draft import Draft


def commit_cursor(
    draft: Draft,
    group: str,
    number: int,
    partition: int,
    offset: int,
    leader_epoch: int = -1,
    metadata: str | None = "",
    known_cuts: int | None = None,
) -> Cursor:
    """Commit a group's next offset; one that changes nothing writes no row (Java clients commit every five seconds).

    Who names no epoch means the record that stands before the offset now. But a member that does not know yet of cuts
    from the commit `known_cuts` on has read something else there: it is taken to have read up to the cut.

    Raises:
        UnknownTopic, UnknownPartition
        InvalidName: the group's name is empty or too long.
        InvalidValue: a negative offset, or more metadata than Kafka allows.
    """
    topic_with(draft.state.topic(number), number, partition)
    if not 1 <= len(group.encode()) <= GROUP_ID_BYTES_MAX:
        raise InvalidName(f"group name of {len(group)} characters: use 1 to {GROUP_ID_BYTES_MAX} bytes")
    text = metadata or ""
    if offset < 0:
        raise InvalidValue(f"group {group}: offset {offset} is negative")
    if len(text.encode()) > OFFSET_METADATA_BYTES_MAX:
        raise InvalidValue(f"group {group}: metadata of more than {OFFSET_METADATA_BYTES_MAX} bytes")
    if leader_epoch < 0:
        if known_cuts is not None:
            cuts = draft.state.cuts_of(number, partition)
            offset = min([offset, *(cut.offset for cut in cuts if cut.commit >= known_cuts)])
        leader_epoch = draft.state.partition(number, partition).epoch_before(offset)
    before = draft.state.cursor(group, number, partition)
    if before is not None and (before.offset, before.leader_epoch, before.metadata) == (offset, leader_epoch, text):
        return before
    version = 1 if before is None else before.version + 1
    payload = CursorPayload(group, offset, leader_epoch, text, draft.now_ms, version)
    _put(draft, number, partition, payload)
    return Cursor(offset, leader_epoch, text, draft.now_ms, version)


def delete_cursor(draft: Draft, group: str, number: int, partition: int) -> bool:
    """Forget a group's offset in a partition; False if there was none."""
    before = draft.state.cursor(group, number, partition)
    if before is None:
        return False
    _put(draft, number, partition, CursorPayload(group, None, -1, "", draft.now_ms, before.version + 1))
    return True


def _put(draft: Draft, number: int, partition: int, payload: CursorPayload) -> None:
    draft.add_control(Kind.CURSOR, payload, number=number, partition=partition, origin=draft.stream_id)
