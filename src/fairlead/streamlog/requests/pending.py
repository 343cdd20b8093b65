"""What is put aside at a copy while the owner of a topic cannot be reached: the pending topic.

In: batches that producers sent to a topic of another owner. Out: the same batches in a topic of ours beside it, which
goes to the owner as any topic does, and is claimed there (`claim`). There is one for each topic and cluster, made with
its first batch.

Always true: a batch stands in the pending topic or goes to the owner, never both. A producer that has a batch in it
since a partition was *opened* goes on there; before any of its batches goes to the owner again, the partition is
*closed*, durably. So this log alone says of such a producer, also after a restart, that nothing of it that follows has
gone to the owner. Of others it says nothing: whoever calls must know (`enters`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol

from fairlead.model.errors import NotAllowed, OutOfOrderSequence, TryAgain
from fairlead.model.names import fitting
from fairlead.protocol.batch import BatchHeader, CheckedBatch
from fairlead.streamlog.marks import check_unmarked
from fairlead.streamlog.payloads import StatePayload
from fairlead.streamlog.requests.diverged import PARENT, parent_of
from fairlead.streamlog.requests.ownership import check_may_write
from fairlead.streamlog.requests.produce import append, sequence_after, sequences_ahead
from fairlead.streamlog.requests.topics import create_topic, set_partitions
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.producers import ProducerState
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft

PUT_ASIDE_AT: Final = "put_aside_at"
"""Field of the TOPIC row of a pending topic, beside `PARENT`: the cluster at which its records were put aside."""


class Standing(Enum):
    """What a pending topic says of a producer's batch."""

    ELSEWHERE = auto()
    """Nothing."""
    NEXT = auto()
    """The producer goes on here, and this one is next."""
    AHEAD = auto()
    """The producer goes on here, and others come before this one."""
    DUPLICATE = auto()
    """It stands here."""
    BEHIND = auto()
    """Of the producer, what follows it stands here."""
    FOLLOWS = auto()
    """All that comes before it stands here or at the owner, and the producer goes on there."""


class States(Protocol):
    """Where topics stand: the state of a shard, or the overlay of a draft."""

    def by_name(self, name: str) -> Topic | None: ...

    def producer(self, number: int, partition: int, producer_id: int) -> ProducerState | None: ...

    def topic_state(self, number: int, key: str) -> Any: ...


def names(name: str, incarnation: bytes, cluster: str) -> tuple[str, str]:
    """Names for the pending topic of a topic; the second, for where the first is taken, is nobody else's."""
    first = f"{name}.pending.{cluster}"
    return fitting(first, ""), fitting(first, f"-{incarnation.hex()}")


def put_aside_at(topic: Topic) -> str | None:
    """The cluster at which a pending topic's records were put aside; None of other topics."""
    return topic.ext.get(PUT_ASIDE_AT) if parent_of(topic) is not None else None


def is_pending_of(topic: Topic, parent: Topic, cluster: str) -> bool:
    """Whether it keeps what was put aside for `parent` at that cluster."""
    return parent_of(topic) == parent.incarnation and put_aside_at(topic) == cluster


def standing(states: States, pending: Topic, partition: int, header: BatchHeader) -> Standing:
    """What the pending topic says of a batch."""
    known = states.producer(pending.number, partition, header.producer_id) if header.producer_id >= 0 else None
    if known is None:
        return Standing.ELSEWHERE
    goes_on = _goes_on(states, pending.number, partition, known)
    if header.producer_epoch > known.epoch:
        if not goes_on:
            return Standing.ELSEWHERE
        return Standing.AHEAD if header.base_sequence else Standing.NEXT
    if header.producer_epoch < known.epoch:
        return Standing.BEHIND
    first, last = header.base_sequence, sequence_after(header.base_sequence, header.record_count - 1)
    if any((each.first_sequence, each.last_sequence) == (first, last) for each in known.batches):
        return Standing.DUPLICATE
    ahead = sequences_ahead(first, sequence_after(known.batches[-1].last_sequence))
    if ahead < 0:
        return Standing.BEHIND
    if goes_on:
        return Standing.AHEAD if ahead else Standing.NEXT
    return Standing.ELSEWHERE if ahead else Standing.FOLLOWS


def _goes_on(states: States, number: int, partition: int, known: ProducerState) -> bool:
    """The producer's newest batch here is of the time since the partition was opened."""
    opened = states.topic_state(number, _key(partition))
    return opened is not None and known.batches[-1].base_offset >= opened


class Place(NamedTuple):
    """Where batches for a topic are put aside."""

    topic: Topic
    name: str
    """Of the pending topic."""
    cluster: str
    owner_at: str
    """Our own global path."""
    partitions_max: Callable[[int], int] | None = None
    """How many partitions the log may have after a commit."""


def put_aside(draft: Draft, place: Place, partition: int, batch: CheckedBatch, *, enters: bool) -> bool:
    """A request: append a batch to the pending topic, which is made if it is not there; answers whether it stood there
    already. `enters`: nothing of its producer that is not answered has gone to the owner, and this batch is the next.

    Raises:
        TryAgain: it is not the next one.
        OutOfOrderSequence: it is one of before.
        NotAllowed: another topic has the name, or is the owner of this one by now; or as for a topic that is made.
        InvalidValue: the partition has no offset left.
        StorageFull
    """
    pending = _found_or_made(draft, place, partition)
    number, header = pending.number, batch.header
    check_may_write(draft, pending, partition, draft.state.partition(number, partition))
    check_unmarked(draft.state, number, partition)
    found = standing(draft.state, pending, partition, header)
    if found is Standing.DUPLICATE:
        return True
    if found is Standing.BEHIND:
        raise behind(pending, header)
    if found is Standing.AHEAD or (header.producer_id >= 0 and found is not Standing.NEXT and not enters):
        raise TryAgain(f"a batch of this producer that comes before is not in {pending.name} yet")
    if draft.state.topic_state(number, _key(partition)) is None:
        end = draft.state.partition(number, partition).end
        draft.add_control(Kind.STATE, StatePayload(_key(partition), end), number=number)
    append(draft, pending, partition, batch)
    return False


def behind(pending: Topic, header: BatchHeader) -> OutOfOrderSequence:
    """The refusal of a batch after which others of its producer were put aside."""
    return OutOfOrderSequence(
        f"producer {header.producer_id} sent sequence {header.base_sequence} of epoch {header.producer_epoch}; what "
        f"comes after it is in {pending.name}"
    )


def _found_or_made(draft: Draft, place: Place, partition: int) -> Topic:
    pending = draft.state.by_name(place.name)
    if pending is None:
        return create_topic(
            draft,
            place.name,
            place.topic.partitions,
            owner_at=place.owner_at,
            ext={PARENT: place.topic.incarnation.hex(), PUT_ASIDE_AT: place.cluster},
            partitions_max=place.partitions_max,
        )
    if not is_pending_of(pending, place.topic, place.cluster):
        raise NotAllowed(f"topic {place.name} has the name of the topic in which writes would be put aside; rename it")
    if pending.owner != draft.stream_id:
        raise NotAllowed(f"topic {place.name}, in which writes are put aside, was handed over; hand it back")
    if partition >= pending.partitions:
        return set_partitions(draft, place.name, place.topic.partitions, partitions_max=place.partitions_max)
    return pending


def close(draft: Draft, number: int, partition: int) -> None:
    """A request: from here on, producers that have batches in this partition write to the owner again."""
    if draft.state.topic(number) is not None and draft.state.topic_state(number, _key(partition)) is not None:
        draft.add_control(Kind.STATE, StatePayload(_key(partition), None), number=number)


def _key(partition: int) -> str:
    return f"put aside {partition}"
