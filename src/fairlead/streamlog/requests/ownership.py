"""Who gives offsets to a topic's records: handing that over, taking it over, and who may write until then.

Always true: from its TOPIC row on, in the same draft, the owner before it writes nothing more; and the new owner writes
a partition only from the offset that the row names, on the history that it names. So an offset is given once in an
epoch, and each epoch has one beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fairlead.model.errors import InvalidValue, NotFound, OwnerPending
from fairlead.streamlog.ownership.epochs import next_epoch
from fairlead.streamlog.ownership.histories import Beginning, beginning_of
from fairlead.streamlog.ownership.standing import is_active
from fairlead.streamlog.payloads import History
from fairlead.streamlog.requests.cuts import cut, restored_incarnation, undelete
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.requests.ending import end_transactions
from fairlead.streamlog.requests.rollback import check_not_rolled_back, forget_coming
from fairlead.streamlog.requests.topics import named_or_numbered, owned, put_topic
from fairlead.streamlog.values import PartitionState, Since, Topic
from fairlead.streamlog.writing.draft import Draft

ROLLED_BACK: Final = "rolled-back"
"""Reason of the cuts that a recovery makes."""


def hand_over(draft: Draft, topic: str | int, *, to: bytes, owner_at: str, writer_epoch_id: bytes) -> Topic:
    """Let another stream give the offsets of a topic from here on; returns the topic as it is then. A topic that the
    other stream has already stays as it is. `owner_at` is the global path of that stream, `writer_epoch_id` the random
    id of the writer epoch of this log.

    Raises:
        UnknownTopic, NotOwner
        InvalidValue: the topic is this stream's and shall be.
        NotAllowed: the topic has had all epochs that there are, or the log was rolled back.
    """
    found = named_or_numbered(draft, topic)
    if found.owner == to and to != draft.stream_id:
        return found
    owned(draft, found)
    check_not_rolled_back(draft)
    if to == draft.stream_id:
        raise InvalidValue(f"topic {found.name} is owned here already; name another cluster")
    since = tuple(_written(draft, found, partition) for partition in range(found.partitions))
    return _change_owner(draft, found, to, owner_at, writer_epoch_id, since)


def take_over(draft: Draft, topic: str | int, *, owner_at: str, writer_epoch_id: bytes, above: int = 0) -> Topic:
    """Give the offsets of a topic from here on, whoever does now: its owner is lost, or the hand-over to us never had
    its last records. What this copy lacks of the owner's log is no part of the topic from here on, and is kept in
    another topic where it is found. `owner_at` is our global path; `above` an epoch that the topic has
    elsewhere. Transactions that are open here are of a Kafka cluster that had the topic, and were committed there: no
    stream begins any, and the ends that an owner in between wrote may not have come.

    Raises:
        UnknownTopic
        NotAllowed: the topic has had all epochs that there are.
        StorageFull: a transaction is to be ended.
    """
    found = named_or_numbered(draft, topic)
    states = (draft.state.partition(found.number, partition) for partition in range(found.partitions))
    since = tuple((state.end, state.history) for state in states)
    changed = _change_owner(draft, found, draft.stream_id, owner_at, writer_epoch_id, since, above)
    undelete(draft, changed)
    if parent_of(found) is None:
        end_transactions(draft, changed)
    return changed


class Recovered(NamedTuple):
    """What a partition is to become after its log was rolled back: another site has a longer history."""

    common: int
    """Below it both hold the same."""
    end: int
    """Where the other log ends, and its history."""
    history: History


def recover(
    draft: Draft,
    incarnation: bytes,
    partitions: Mapping[int, Recovered],
    *,
    owner_at: str,
    writer_epoch_id: bytes,
    gives_up: bool,
) -> Topic:
    """Make another site's history that of a topic which is ours, in these partitions: what was written here since the
    log was rolled back is cut off and kept in a topic of its own, and our next epoch begins where the other history
    ends. So we write once all of that is here. With `gives_up` the other site has given the topic another owner; then
    our log is only cut.

    Raises:
        NotFound: it was deleted. NotOwner: it is another's by now.
        NotAllowed: the topic has had all epochs that there are.
        NotLoaded: what stands where the histories part is only on disk.
    """
    found = draft.state.by_incarnation(incarnation)
    if found is None:
        raise NotFound("it was deleted meanwhile")
    owned(draft, found)
    states = [draft.state.partition(found.number, each) for each in range(found.partitions)]
    cuts = [(each, to.common) for each, to in partitions.items() if to.common < states[each].end]
    draft.require_stored((found.number, each, at) for each, at in cuts)
    stand = [Recovered(0, state.end, state.history) for state in states]
    since = tuple((to.end, to.history) for to in (partitions.get(each, own) for each, own in enumerate(stand)))
    newest = max(found.epoch, *(history[-1][0] for _, history in since if history), 0)
    epoch = next_epoch(newest, writer_epoch_id)
    for each, at in cuts:
        keep = restored_incarnation(found.incarnation, states[each].epoch, epoch)
        cut(draft, found.number, each, at, ROLLED_BACK, epoch, keep)
    if gives_up:
        return found
    return _change_owner(draft, found, draft.stream_id, owner_at, writer_epoch_id, since)


def begin_epoch(draft: Draft, incarnation: bytes, *, owner_at: str, writer_epoch_id: bytes) -> None:
    """A request: what came with an epoch of ours is written in a later one: some of it may be elsewhere, and not here.
    Raises as `take_over`."""
    found = draft.state.by_incarnation(incarnation)
    if found is not None and found.owner == draft.stream_id:
        take_over(draft, found.number, owner_at=owner_at, writer_epoch_id=writer_epoch_id)
    forget_coming(draft, incarnation)


def check_may_write(draft: Draft, topic: Topic, partition: int, state: PartitionState) -> None:
    """Check that this stream gives the offsets of a partition, which stands so.

    Raises:
        NotOwner: another stream does.
        NotAllowed: the log was rolled back.
        OwnerPending: it lacks what the owner before it wrote.
    """
    owned(draft, topic)
    check_not_rolled_back(draft)
    if not is_active(topic, partition, state):
        raise OwnerPending(topic.name, partition, state.end, beginning_of(topic.since, partition)[0])


def _written(draft: Draft, topic: Topic, partition: int) -> Beginning:
    """Where the next epoch of a partition begins. One that we have not begun to write, as we lack some of it, begins
    where ours would have."""
    state = draft.state.partition(topic.number, partition)
    return (state.end, state.history) if is_active(topic, partition, state) else beginning_of(topic.since, partition)


def _change_owner(
    draft: Draft,
    topic: Topic,
    owner: bytes,
    owner_at: str,
    writer_epoch_id: bytes,
    since: Since,
    above: int = 0,
) -> Topic:
    starts = enumerate(start for start, _ in since)
    deleted_to = tuple(min(draft.state.partition(topic.number, p).deleted_to, start) for p, start in starts)
    newest = max(above, topic.epoch, *(history[-1][0] for _, history in since if history))
    changed = topic._replace(
        owner=owner,
        owner_at=owner_at,
        epoch=next_epoch(newest, writer_epoch_id),
        version=topic.version + 1,
        since=since,
        deleted_to=deleted_to if any(deleted_to) else (),
    )
    put_topic(draft, changed, draft.stream_id, None)
    return changed
