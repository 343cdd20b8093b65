"""Deleting the first records of a partition (DeleteRecords, KIP-107): a row says up to where, and nothing is moved.

Always true: the offset below which records are deleted never goes back, here and at every replica, whatever expires,
is merged or comes late; so no record below it is served again. Batches of which every record is deleted leave the log
when they are merged; the batch that holds the offset stays whole, as a copy must have it byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead.model.errors import NotAllowed, OffsetOutOfRange
from fairlead.streamlog.payloads import DELETED_RECORDS, StartPayload
from fairlead.streamlog.requests.ownership import check_may_write
from fairlead.streamlog.rows import NO_COMMIT, Kind
from fairlead.streamlog.topic_policy import DELETE, cleanup_policies
from fairlead.streamlog.values import topic_with
from fairlead.streamlog.writing.draft import Draft

TO_THE_END: Final = -1
"""In place of an offset: all records that are there."""
_BEGINNING: Final = 0
"""`base_offset` of a row that only deletes: it says nothing of where batches begin."""


def delete_records(draft: Draft, number: int, partition: int, offset: int) -> int:
    """Delete all records below an offset, or `TO_THE_END`; answers where the log begins for clients from now on. One
    that deletes nothing writes no row.

    Raises:
        UnknownTopic, UnknownPartition
        NotOwner: another stream owns the topic.
        OwnerPending: records of the owner before this one are missing.
        NotAllowed: the topic is compacted, and nothing else removes its records.
        OffsetOutOfRange: the log ends before the offset.
    """
    topic = topic_with(draft.state.topic(number), number, partition)
    state = draft.state.partition(number, partition)
    check_may_write(draft, topic, partition, state)
    if DELETE not in cleanup_policies(topic.configs):
        raise NotAllowed(f"topic {topic.name} has cleanup.policy compact, so none of its records can be deleted")
    to = state.end if offset == TO_THE_END else offset
    if not 0 <= to <= state.end:
        raise OffsetOutOfRange(offset, state.log_start, state.end)
    if to <= state.log_start:
        return state.log_start
    put_deletion(draft, number, partition, to, origin=draft.stream_id, via=None, epoch=topic.epoch)
    return to


def put_deletion(
    draft: Draft,
    number: int,
    partition: int,
    deleted_to: int,
    *,
    origin: bytes | None,
    via: bytes | None,
    epoch: int,
    via_commit: int = NO_COMMIT,
    ext: Mapping[str, Any] | None = None,
) -> None:
    """Write the row that deletes all records below an offset, by the owner that the topic had in `epoch`."""
    state = draft.state.partition(number, partition)
    log_end = max(state.end, deleted_to)
    payload = StartPayload(DELETED_RECORDS, log_end, state.history, deleted_to=deleted_to, epoch=epoch, ext=ext or {})
    draft.add_control(
        Kind.START,
        payload,
        number=number,
        partition=partition,
        base_offset=_BEGINNING,
        origin=origin,
        via=via,
        via_commit=via_commit,
    )
