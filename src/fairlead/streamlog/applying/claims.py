"""What a TOPIC row says of who owns a topic that is here, and whether it counts.

Rows are ordered by (topic epoch, version). Each change of owner has an epoch of its own, and says from which offsets
the new owner gives others, after which history; so whoever takes the change cuts what it holds beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto

from fairlead.model.names import is_topic_name
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.ownership.histories import beginning_of, fence_of, joined_since, may_have_parted, parts_at
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.requests.cuts import cut, diverged_incarnation, undelete
from fairlead.streamlog.requests.deletion import put_deletion
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.requests.topics import put_topic, release_waiting, renames_of
from fairlead.streamlog.rows import NO_COMMIT
from fairlead.streamlog.state.effects import topic_of
from fairlead.streamlog.values import RowKey, Topic
from fairlead.streamlog.writing.draft import Draft

TAKEN_OVER = "takeover"
"""Reason of the cuts that a change of owner makes."""


class Claim(Enum):
    """What a TOPIC row is to a topic that is here."""

    OLDER = auto()
    """Of an owner before the present one, or an older version: nothing."""
    SAME = auto()
    """The topic is so already."""
    NEWER = auto()
    """A later version of the same owner's; or, of a diverged topic, where it begins in more partitions."""
    NEW_OWNER = auto()
    """A higher epoch: the topic has another owner from the offsets on that the row names, or the same one again."""
    CONFLICT = auto()
    """The epoch is another's too, or began elsewhere."""
    NOT_ALLOWED = auto()
    """A higher epoch, from a source that cannot give this topic another owner."""


def claim_of(known: Topic, row: TopicPayload, admission: Admission, here: bytes) -> Claim:
    """What the row is to the topic as it is known to the stream `here`."""
    if row.epoch < known.epoch:
        return Claim.OLDER
    if row.epoch > known.epoch:
        is_the_sources = known.owner != here and admission.speaks_for(known.owner)
        return Claim.NEW_OWNER if is_the_sources or admission.moves_owners else Claim.NOT_ALLOWED
    if (row.owner, row.since) != (known.owner, known.since):
        return _of_another_holder(known, row)
    if row.version > known.version:
        return Claim.NEWER
    return Claim.SAME if row.version == known.version else Claim.OLDER


def partings(draft: Draft, topic: Topic) -> Iterator[RowKey]:
    """Where each partition, as far as it holds more than its owner's history, parts from that.

    Raises:
        NotLoaded: what stands where one may part is only on disk.
    """
    unsure: list[RowKey] = []
    for partition in range(topic.partitions):
        state = draft.state.partition(topic.number, partition)
        at = parts_at(topic, partition, state.history, state.end)
        if at < state.end:
            yield topic.number, partition, at
        elif (at_most := may_have_parted(topic, partition, state.history, state.end)) is not None:
            unsure.append((topic.number, partition, at_most))
    draft.require_stored(unsure)
    yield from (key for key in unsure if _is_from_before(draft, topic, key))


def _is_from_before(draft: Draft, topic: Topic, at: RowKey) -> bool:
    """Whether a record from before the fence stands where a Kafka cluster's log went on otherwise. Where none stands
    nothing is cut: it may be a hole of what follows."""
    found, fence = draft.stored_at(*at), fence_of(beginning_of(topic.since, at[1]))
    return found is not None and fence is not None and found.epoch < fence


def cut_to_owner(draft: Draft, topic: Topic) -> Iterator[tuple[int, int]]:
    """Cut each partition where what is here and its owner's history part; gives (partition, end) of those that lack
    records of the owner's history then.

    Raises:
        NotLoaded: batches there are only on disk.
    """
    found = list(partings(draft, topic))
    draft.require_stored(found)
    for number, partition, at in found:
        tail_epoch = draft.state.partition(number, partition).epoch
        keep = diverged_incarnation(topic.incarnation, tail_epoch, topic.epoch)
        cut(draft, number, partition, at, TAKEN_OVER, topic.epoch, keep)
    for partition in range(topic.partitions):
        end = draft.state.partition(topic.number, partition).end
        if end < beginning_of(topic.since, partition)[0]:
            yield partition, end


def delete_as_told(draft: Draft, topic: Topic, origin: bytes, via: bytes, via_commit: int = NO_COMMIT) -> None:
    """Delete what the owners before the topic's had deleted as far as that one knew: a row of theirs that comes later
    does not count any more."""
    for partition in range(len(topic.deleted_to)):
        told = topic.deleted_before(partition)
        if told > draft.state.partition(topic.number, partition).deleted_to:
            put_deletion(
                draft, topic.number, partition, told, origin=origin, via=via, epoch=topic.epoch, via_commit=via_commit
            )


def origin_of_change(draft: Draft, number: int, origin: bytes) -> bytes:
    """The origin of a row that says what has become of a topic. One that was ours we pass on as ours: over a link with
    `-forward own` its records went from here, so whoever has them must hear that another owner's history goes on."""
    return draft.stream_id if draft.state.was_ours(number) else origin


def hear(draft: Draft, source: bytes, topics: Iterable[TopicPayload], admission: Admission) -> int:
    """Take the changes of owner that the stream `source`, to which we send, tells in its answer; gives how many. A site
    that only sends would never hear of them otherwise, and go on writing. Nothing but topics that are here is changed.

    Raises:
        NotLoaded: a batch where histories part is only on disk.
    """
    heard = 0
    for payload in topics:
        known = draft.state.by_incarnation(payload.incarnation)
        if known is None or not admission.speaks_for(payload.owner):
            continue
        if claim_of(known, payload, admission, draft.stream_id) is Claim.NEW_OWNER:
            taken = renamed(draft, known, payload, admission)
            put_topic(draft, taken, origin_of_change(draft, known.number, payload.owner), source)
            for _ in cut_to_owner(draft, taken):
                """No link comes from there that could bring what is missing."""
            undelete(draft, taken)
            delete_as_told(draft, taken, payload.owner, source)
            tell_of_more(draft, taken)
            if taken.name != known.name:
                release_waiting(draft, known.name)
            heard += 1
    return heard


def changed(known: Topic, payload: TopicPayload) -> Topic:
    """The topic as the row says, under the number and the name that it has here: another topic may have the name that
    the row says. Its partitions never become fewer."""
    partitions = max(known.partitions, payload.partitions)
    topic = topic_of(known.number, payload)
    if parent_of(known) is not None and payload.epoch == known.epoch:
        topic = topic._replace(
            version=max(known.version, topic.version), since=joined_since(known.since, payload.since) or ()
        )
    return topic._replace(name=known.name, partitions=partitions)


def renamed(draft: Draft, known: Topic, payload: TopicPayload, admission: Admission) -> Topic:
    """The same with the name of the row, if its owner has given it another one since. It keeps the one that it has here
    where the new one is taken, or would lie in another shard."""
    topic = changed(known, payload)
    if not has_other_name(known, payload) or payload.name == known.name:
        return topic
    is_free = draft.state.by_name(payload.name) is None and admission.falls_here(payload.name)
    return topic._replace(name=payload.name) if is_free and is_topic_name(payload.name) else topic


def has_other_name(known: Topic, payload: TopicPayload) -> bool:
    """Whether the topic's owner has given it another name than is known; it may be one that it had before."""
    return (payload.home, renames_of(payload)) != (known.home, renames_of(known))


def _of_another_holder(known: Topic, row: TopicPayload) -> Claim:
    """What a row of the same epoch is that says otherwise of whom it is or where it begins: a conflict, unless it is of
    a diverged topic. Each holder of the tail says of that where it began in the partitions of which it held a part."""
    is_one_tail = row.owner == known.owner and parent_of(known) is not None
    since = joined_since(known.since, row.since) if is_one_tail else None
    if since is None:
        return Claim.CONFLICT
    return Claim.NEWER if since != known.since or row.version > known.version else Claim.OLDER


def tell_of_more(draft: Draft, topic: Topic) -> None:
    """If the topic is ours now, and has more partitions here than the writer of the row knew that made it so, others
    must hear of them: we write them. The row may have got them on its way."""
    if topic.owner == draft.stream_id and topic.partitions > len(topic.since):
        put_topic(draft, topic._replace(version=topic.version + 1), draft.stream_id, None)
