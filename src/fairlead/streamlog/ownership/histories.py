"""Where an owner's epoch begins in its partitions, and what of the epochs before it is in its log.

Histories and where two of them part: `parting`.

A Kafka cluster has epochs of each partition, which rise without a row of the topic. Where its log went on otherwise
than it had (an unclean election), a row of a new topic epoch says so: S of that partition is the first offset that is
another record's now, and the history ends with (fence, S). Records at S and above belong to the log if their epoch is
the fence or a later one. Of the other partitions the row says nothing: they begin at 0 without a history.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from fairlead.streamlog.parting import history_below, parting
from fairlead.streamlog.payloads import History, TopicPayload
from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.values import Topic, is_kafka

Beginning = tuple[int, History]
"""Where an owner's epoch begins in a partition: its first offset S, and the history of what is below S."""
FROM_NOTHING: Beginning = (0, ())
"""Of partitions that the owner did not know when its epoch began."""


def beginning_of(since: Sequence[Beginning], partition: int) -> Beginning:
    """Where the owner's epoch begins in a partition, by what the topic's row says of each."""
    return since[partition] if partition < len(since) else FROM_NOTHING


def joined_since(one: Sequence[Beginning], other: Sequence[Beginning]) -> tuple[Beginning, ...] | None:
    """Where the epoch of a diverged topic begins, by two holders of its tail: each says it of the partitions of which
    it had a part. None if they contradict each other."""
    found: list[Beginning] = []
    for here, there in zip_longest(one, other, fillvalue=FROM_NOTHING):
        if here != there and FROM_NOTHING not in (here, there):
            return None
        found.append(there if here == FROM_NOTHING else here)
    return tuple(found)


def log_of(topic: Topic | TopicPayload, partition: int) -> History:
    """The epochs of the owner's log of a partition, as the topic's row tells them; none where it tells nothing."""
    start, history = beginning_of(topic.since, partition)
    return history if is_kafka(topic.owner_at) else (*history, (topic.epoch, start))


def fence_of(since: Beginning) -> int | None:
    """Of a Kafka cluster's partition whose log went on otherwise: the lowest epoch that records have from there on."""
    start, history = since
    return history[-1][0] if history and history[-1][1] == start else None


def has_changed(topic: Topic, partition: int) -> bool:
    """Whether another log of the partition goes on since the topic has its epoch."""
    return not topic.is_of_kafka or fence_of(beginning_of(topic.since, partition)) is not None


def parts_at(topic: Topic | TopicPayload, partition: int, history: History, end: int) -> int:
    """Where a log of a partition, with that history and end, parts from the owner's; its end if it does not.

    Of a Kafka cluster's log that went on otherwise, one that has the fence or a later epoch has what follows: it may
    begin behind a hole. Histories do not tell it from one that had gone further the old way than the row's writer had
    read; what stands at S does (`may_have_parted`).
    """
    own = log_of(topic, partition)
    if not is_kafka(topic.owner_at):
        return parting(history, end, own, OFFSET_MAX)
    fence = fence_of(beginning_of(topic.since, partition))
    if fence is None:
        return end
    start, below = own[-1][1], min(end, own[-1][1])
    shared = parting(history_below(history, start), below, own[:-1], start)
    if shared < below or end <= start:
        return shared
    return end if history and history[-1][0] >= fence else start


def may_have_parted(topic: Topic, partition: int, history: History, end: int) -> int | None:
    """Where a log may part from the owner's though its history does not say so: it does if a record from before the
    fence stands there. None if the history says all."""
    start, _ = since = beginning_of(topic.since, partition)
    fence = fence_of(since) if topic.is_of_kafka else None
    if fence is None or end <= start:
        return None
    before = max((epoch for epoch, first in history if first <= start), default=-1)
    return start if before < fence else None


def start_of_next_epoch(epoch: int, own_log: History) -> int | None:
    """The offset B from which on no record of that epoch is in the owner's log, since others follow it there; None for
    the owner's present epoch and later ones.

    An epoch that the owner's log lacks has no place in it: all of its records were superseded. Only one from before the
    log's history may have records below where that begins.
    """
    following = next((first for newer, first in own_log if newer > epoch), None)
    if following is None or epoch < own_log[0][0] or any(held == epoch for held, _ in own_log):
        return following
    return 0
