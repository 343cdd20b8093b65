"""A claim: records of a diverged topic are appended to the topic that they were cut off, each once.

In: batches as the diverged topic has them, in order. Out: the same records at the topic's end, and a note of it in the
same commit (`claimed`). So whatever ends a claim, the next one goes on where the last commit ended, here or at another
owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairlead.model.errors import InvalidValue
from fairlead.protocol.batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    with_crc,
)
from fairlead.streamlog.marks import check_unmarked
from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.requests.claimed import SEQUENCES, OfTail, Passed, check_room, claimed, piece_of, put_claimed
from fairlead.streamlog.requests.ownership import check_may_write
from fairlead.streamlog.rows import ATTRIBUTES_MASK, Row
from fairlead.streamlog.state.transactions import Aborted
from fairlead.streamlog.values import topic_with
from fairlead.streamlog.writing.draft import Draft


class TailBatch(NamedTuple):
    """A batch of a tail, and what it is called in the topic."""

    header: BatchHeader
    data: bytes | memoryview
    id: int
    """`tail_id` of the tail that it is of: mostly this one. If it was claimed and then cut off once more, it keeps the
    name that it had."""
    sequence: int


def tail_batches(id: int, batches: Iterable[bytes | memoryview], aborted: Sequence[Aborted]) -> list[TailBatch]:
    """Those of a tail's batches that are records, as a reader of committed records sees them."""
    found: list[TailBatch] = []
    for data in batches:
        header = read_header(data)
        if header.record_count and not header.attributes & CONTROL and not _is_aborted(header, aborted):
            is_named = header.producer_id < NO_PRODUCER
            sequence = header.base_sequence if is_named else header.base_offset % SEQUENCES
            found.append(TailBatch(header, data, header.producer_id if is_named else id, sequence))
    return found


def _is_aborted(header: BatchHeader, aborted: Sequence[Aborted]) -> bool:
    return bool(header.attributes & TRANSACTIONAL) and any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )


def claim(
    draft: Draft,
    number: int,
    partition: int,
    id: int,
    batches: Sequence[TailBatch],
    to: int,
    *,
    stamped: bool,
    start: int = 0,
) -> int:
    """A request: append those of a tail's next batches, which end at its offset `to`, that the partition does not have;
    answers how many records these are. `stamped`: they get the time of now (LogAppendTime). `start` is where the tail
    begins now.

    Raises:
        UnknownTopic, UnknownPartition
        NotOwner, OwnerPending, NotAllowed: as for a produce, or no room is left to note what was claimed.
        InvalidValue: the partition has no offset left.
        StorageFull: the disk's reserve is reached.
    """
    topic = topic_with(draft.state.topic(number), number, partition)
    check_may_write(draft, topic, partition, draft.state.partition(number, partition))
    check_unmarked(draft.state, number, partition)
    tails = claimed(draft.state, number, partition)
    if id in tails:
        tails[id].forget_below(start)
    records = 0
    for batch in batches:
        of_tail = tails.get(batch.id)
        if of_tail is None or not of_tail.holds(batch.sequence, batch.header.last_offset_delta + 1):
            check_room(tails, batch.id, topic.name)
            row = _append(draft, number, partition, topic.epoch, batch, stamped=stamped)
            tails.setdefault(batch.id, OfTail()).add(piece_of(row, batch.sequence))
            records += row.records
    known = tails.setdefault(id, OfTail())
    if known.passed is None or known.passed.to < to:
        state = draft.state.partition(number, partition)
        known.passed = Passed(to, state.epoch, state.end)
        put_claimed(draft, number, partition, tails)
    return records


def _append(draft: Draft, number: int, partition: int, epoch: int, batch: TailBatch, *, stamped: bool) -> Row:
    base = draft.state.partition(number, partition).end
    last = base + batch.header.last_offset_delta
    if last >= OFFSET_MAX:
        raise InvalidValue(f"topic {number}, partition {partition}: its offsets are used up; claim into another topic")
    header = batch.header._replace(
        base_offset=base,
        leader_epoch=epoch,
        attributes=batch.header.attributes & ~TRANSACTIONAL,
        producer_id=batch.id,
        producer_epoch=0,
        base_sequence=batch.sequence,
    )
    if stamped:
        header = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=draft.now_ms)
    header, data = with_crc(header, memoryview(batch.data)[HEADER_BYTES:])
    return draft.add_batch(
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
