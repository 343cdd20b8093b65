"""Cutting a partition's log where its history and its owner's part: what stands from there on is dead.

    cut       a request, or a part of one: writes the TRUNCATE row
    (copy)    what the row keeps goes into a topic of its own, see `diverged`

Always true: a row is dead iff it stands at the cut's offset or above and its (commit, row) is lower than the cut's
(`objects/dead.py`). Dead rows are never fetched, sent, counted or turned into START rows. They stay on disk until they
were copied, if the cut keeps them, else until they are merged. A row decides nothing at replay, so where to cut is
decided here.
"""

from __future__ import annotations

from uuid import UUID, uuid5

from fairlead.streamlog.ownership.histories import has_changed
from fairlead.streamlog.payloads import FORGOTTEN_MAX, TruncatePayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import Topic, topic_with
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.news import LogCut


def cut(draft: Draft, number: int, partition: int, offset: int, reason: str, by_epoch: int, keep: bytes | None) -> int:
    """Cut a partition at an offset, because the owner of `by_epoch` gives others from there on; answers where its log
    ends now. A log that ends there or below is left as it is.

    What stands there must begin there: a batch is cut as a whole, and so is a gap, since what lies in it may come from
    the new owner. With `keep`, the incarnation of the topic into which the dead batches go, they stay until then.

    Raises:
        UnknownTopic, UnknownPartition
        NotLoaded: what stands at the offset is only on disk.
    """
    topic = topic_with(draft.state.topic(number), number, partition)
    state = draft.state.partition(number, partition)
    if offset >= state.end:
        return state.end
    at = _beginning(draft, number, partition, max(offset, 0))
    held = state.start < state.end
    forgotten = draft.state.producers_from(number, partition, at)
    forgets = tuple(sorted(forgotten)) if len(forgotten) <= FORGOTTEN_MAX else None
    keep = keep if held else None
    payload = TruncatePayload(reason, by_epoch, keep, forgets, None if keep is None else state.history)
    draft.add_control(Kind.TRUNCATE, payload, number=number, partition=partition, base_offset=at)
    draft.news.append(LogCut(topic.name, partition, at, by_epoch, reason))
    return at


def undelete(draft: Draft, topic: Topic) -> None:
    """Say that nothing beyond the end of this copy is deleted, but what the topic's new owner says: it gives these
    offsets anew, and those that an owner of before had deleted were others."""
    for partition in range(topic.partitions):
        state = draft.state.partition(topic.number, partition)
        is_more = state.deleted_to > max(state.end, topic.deleted_before(partition))
        if is_more and has_changed(topic, partition):
            payload = TruncatePayload("deletion", topic.epoch, None, ())
            draft.add_control(Kind.TRUNCATE, payload, number=topic.number, partition=partition, base_offset=state.end)


def end_keep(draft: Draft, number: int, partition: int, keep: bytes) -> None:
    """A request: what a cut of the partition kept for that topic was copied, and may go."""
    if any(found.keep == keep for found in draft.state.cuts_of(number, partition)):
        draft.add_control(Kind.TRUNCATE, TruncatePayload("copied", 0, keep, ()), number=number, partition=partition)


def diverged_incarnation(incarnation: bytes, tail_epoch: int, by_epoch: int) -> bytes:
    """Of the topic that keeps what a change of owner cut off: the same at every site that holds some of that tail.
    `tail_epoch` is the last epoch of the tail, `by_epoch` that of the owner whose history it is not."""
    return uuid5(UUID(bytes=incarnation), f"{tail_epoch} {by_epoch}").bytes


def restored_incarnation(incarnation: bytes, tail_epoch: int, by_epoch: int) -> bytes:
    """Of the topic that keeps what a stream wrote after it was restored from a backup, in an epoch in which it had
    written before: others may hold, at the same offsets, what it gave out first. Where the new epoch cuts that off, it
    goes into the topic of `diverged_incarnation`."""
    return uuid5(UUID(bytes=incarnation), f"{tail_epoch} {by_epoch} restored").bytes


def _beginning(draft: Draft, number: int, partition: int, offset: int) -> int:
    """Where the batch or the gap begins in which the offset lies; the offset itself in none."""
    for gap in draft.state.gaps_of(number, partition):
        if gap.start < offset < gap.end:
            return gap.start
    batch = draft.stored_at(number, partition, offset)
    return offset if batch is None else batch.base_offset
