"""Producing: a checked batch gets its offsets, once.

Idempotence is as in Kafka (KIP-98, `ProducerStateManager`): a batch with the sequence numbers of one of the producer's
five newest batches is answered with that batch's offset; an unknown producer may begin with any sequence number. What
is remembered at a start is what the log says, and records that expired or were deleted may have taken the newest of it
with them.
"""

from __future__ import annotations

from typing import NamedTuple

from fairlead.model.errors import InvalidValue, OutOfOrderSequence, StaleProducerEpoch
from fairlead.protocol.batch import BatchHeader, CheckedBatch, set_offset
from fairlead.streamlog.marks import check_unmarked
from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.requests.ownership import check_may_write
from fairlead.streamlog.rows import ATTRIBUTES_MASK
from fairlead.streamlog.state.effects import last_sequence
from fairlead.streamlog.state.producers import ProducerState
from fairlead.streamlog.values import Topic, topic_with
from fairlead.streamlog.writing.draft import Draft

MAX_SEQUENCE = 2**31 - 1


class ProduceResult(NamedTuple):
    """Where a batch stands."""

    base_offset: int
    log_start: int
    """First offset of the partition that still exists."""
    appended_at: int
    """Milliseconds since 1970."""
    duplicate: bool
    """The batch was there already; nothing was appended."""


def produce(
    draft: Draft, number: int, partition: int, batch: CheckedBatch, *, follows_pending: bool = False
) -> ProduceResult:
    """Append one batch. `follows_pending`: all of its producer's sequences before it that are not here were put aside
    (`pending`), and do not come.

    Raises:
        UnknownTopic, UnknownPartition
        NotOwner: another stream gives the offsets of this topic.
        OwnerPending: it will be this one, once it has what the owner before it wrote.
        NotAllowed: nobody knows where the partition ended.
        OutOfOrderSequence, StaleProducerEpoch: see the module.
        InvalidValue: the partition has no offset left.
        StorageFull: the disk's reserve is reached.
    """
    topic = topic_with(draft.state.topic(number), number, partition)
    state = draft.state.partition(number, partition)
    check_may_write(draft, topic, partition, state)
    check_unmarked(draft.state, number, partition)
    header = batch.header
    if header.producer_id >= 0:
        known = draft.state.producer(number, partition, header.producer_id)
        if known is not None:
            may_lack = known.last_at_ms <= draft.opened_at_ms and known.batches[-1].base_offset < state.start
            duplicate_at = _check_sequence(header, known, may_lack, follows_pending)
            if duplicate_at is not None:
                return ProduceResult(duplicate_at, state.log_start, draft.now_ms, True)
    base = append(draft, topic, partition, batch)
    return ProduceResult(base, state.log_start, draft.now_ms, False)


def append(draft: Draft, topic: Topic, partition: int, batch: CheckedBatch) -> int:
    """Append a batch at a partition's end, and answer its offset.

    Raises:
        InvalidValue: the partition has no offset left.
        StorageFull
    """
    number, epoch, header = topic.number, topic.epoch, batch.header
    base = draft.state.partition(number, partition).end
    last = base + header.last_offset_delta
    if last >= OFFSET_MAX:
        raise InvalidValue(f"topic {number}, partition {partition}: its offsets are used up; produce to another topic")
    data = set_offset(batch.data, base, epoch)
    draft.add_batch(
        number,
        partition,
        base,
        last,
        epoch,
        draft.stream_id,
        None,
        header.max_timestamp,
        data,
        records=header.record_count,
        bits=header.attributes & ATTRIBUTES_MASK,
        crc=header.crc,
    )
    return base


def sequence_after(sequence: int, count: int = 1) -> int:
    """The sequence that comes so many after another."""
    return (sequence + count) % (MAX_SEQUENCE + 1)


def sequences_ahead(sequence: int, of: int) -> int:
    """How many sequences the first comes after the second; negative: before it."""
    ahead = (sequence - of) % (MAX_SEQUENCE + 1)
    return ahead if ahead <= MAX_SEQUENCE // 2 else ahead - MAX_SEQUENCE - 1


def _check_sequence(header: BatchHeader, known: ProducerState, may_lack: bool, follows_pending: bool) -> int | None:
    """The offset of the batch if it is a duplicate, None if it is the next one. `may_lack`: it was remembered when the
    log was opened, which now begins above all of that; later batches may be gone too, so any sequence may follow.
    `follows_pending`: any that is higher may.

    Raises:
        StaleProducerEpoch, OutOfOrderSequence
    """
    if header.producer_epoch < known.epoch:
        raise StaleProducerEpoch(
            f"producer {header.producer_id} uses epoch {header.producer_epoch}, the newest is {known.epoch}"
        )
    first = header.base_sequence
    if header.producer_epoch > known.epoch:
        expected = 0
    else:
        last = last_sequence(first, header.record_count)
        for batch in known.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch.base_offset
        expected = sequence_after(known.batches[-1].last_sequence)
    may_skip = may_lack or (follows_pending and sequences_ahead(first, expected) > 0)
    if first != expected and not may_skip:
        raise OutOfOrderSequence(f"producer {header.producer_id} sent sequence {first}, {expected} was to follow")
    return None
