"""What a row does: the one place that says so.

`replay` is used while a commit is sealed (on the draft's overlay), when it is announced, at recovery and for the
merger's checkpoint; all four agree because they are one function. A row carries everything that its effect needs, so
replaying never decides anything: decisions are made once, when the row is drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import CONTROL, NO_PRODUCER, PRODUCER_END, TRANSACTIONAL, producer_of
from fairlead.streamlog import payloads
from fairlead.streamlog.cursors import Cursor, CursorPair
from fairlead.streamlog.numbers import slices_of_mask
from fairlead.streamlog.payloads import History
from fairlead.streamlog.ranges import EPOCH_MAX, NUMBER_MAX, are_offsets, check_partition, check_topic_number
from fairlead.streamlog.rows import ABORT, KEPT_KINDS, NO_OFFSET, PASSED_ON_KINDS, Kind, Row, kind_name
from fairlead.streamlog.state.keyed import Kept, KeptKey
from fairlead.streamlog.state.producers import NO_PRODUCER_STATE, ProducerBatch, ProducerState
from fairlead.streamlog.state.transactions import Transactions
from fairlead.streamlog.values import Behind, Cut, Gap, GrantRun, LinkPosition, PartitionKey, PartitionState, Topic

HEAD_BYTES = PRODUCER_END
"""What a batch does depends only on this many of its first bytes."""

KAFKA_EPOCHS_MAX = 64
"""Epochs that are kept of a partition of a Kafka cluster's topic: those of 100,000 partitions take 800 MB at the most,
and one that follows no election 15."""

PositionKey = tuple[bytes, int, int]
"""(link, shard of the source, slice)."""
NoteKey = tuple[bytes, bytes, int]
"""(link, incarnation, partition)."""


class Note(NamedTuple):
    """A partition that is behind on a link, and what else a repair needs to know."""

    behind: Behind
    refused_in: tuple[int, int] | None
    create: payloads.TopicPayload | None


class Tombstone(NamedTuple):
    """A deleted incarnation."""

    number: int
    name: str
    deleted_at_ms: int
    via: bytes | None = None
    """Id of the stream that brought the deletion; None: it was deleted here."""
    epoch: int = 0
    """Topic epoch in which it was deleted."""


class Target(Protocol):
    """What rows change: the state of a shard, or the overlay of a draft."""

    stream_id: bytes

    def partition_count(self, number: int) -> int: ...
    def topic(self, number: int) -> Topic | None: ...
    def owner(self, number: int) -> bytes | None: ...
    def partition(self, number: int, partition: int) -> PartitionState: ...
    def producer(self, number: int, partition: int, producer_id: int) -> ProducerState | None: ...
    def transactions(self, number: int, partition: int) -> Transactions: ...
    def cursors(self, group: str, number: int, partition: int) -> CursorPair: ...

    def put_time(self, appended_at_ms: int) -> None: ...
    def put_topic(self, topic: Topic) -> None: ...
    def remove_topic(self, incarnation: bytes, tombstone: Tombstone, *, remember: bool) -> None: ...
    def put_partition(self, number: int, partition: int, state: PartitionState) -> None: ...
    def continues(self, number: int, partition: int, epoch: int, end: int) -> bool: ...
    def put_gap(self, number: int, partition: int, gap: Gap) -> None: ...
    def put_cut(self, number: int, partition: int, cut: Cut) -> None: ...
    def put_copied(self, number: int, partition: int, keep: bytes) -> None: ...
    def forget_producers(self, number: int, partition: int, ids: Collection[int] | None) -> None: ...
    def put_producer(self, number: int, partition: int, producer_id: int, state: ProducerState) -> None: ...
    def put_transactions(self, number: int, partition: int, transactions: Transactions) -> None: ...
    def put_cursors(self, group: str, number: int, partition: int, cursors: CursorPair) -> None: ...
    def put_position(self, key: PositionKey, position: LinkPosition | None) -> None: ...
    def put_note(self, key: NoteKey, note: Note | None) -> None: ...
    def put_entry(self, key: str, value: Any) -> None: ...
    def put_topic_state(self, number: int, key: str, value: Any) -> None: ...
    def put_kept(self, number: int, key: KeptKey, kept: Kept | None) -> None: ...


class Continued(Target, Protocol):
    """What many batches change at once: the overlay of a draft."""

    def extend(self, ends: Mapping[PartitionKey, int]) -> None: ...


class Announced(Target, Protocol):
    """What commits change that take effect: the state of a shard."""

    def continued(self, rows: Iterable[Row]) -> Iterable[Row]: ...


class LacksPartition(CorruptBatch):
    """A row is of a partition that its topic does not have, by the rows before it. The state is as it was."""


def replay(target: Target, row: Row) -> None:
    """Bring `target` from just before the row to just after it.

    Rows of an unknown topic do nothing: its tombstone came later in the log, and merging has dropped its create row.

    Raises:
        CorruptBatch: a control row's payload cannot be read, or the state cannot take what the row says.
    """
    target.put_time(row.appended_at)
    if row.kind == Kind.BATCH:
        _batch(target, row)
    elif row.kind in _CONTROL:
        _CONTROL[row.kind](target, row)
    else:
        raise CorruptBatch(f"row of {kind_name(row.kind)}, which this program does not know")


def replay_announced(target: Announced, rows: Sequence[Row]) -> None:
    """Bring `target` from just before a commit to just after it. Its rows were replayed into its draft, so there is no
    batch among them that cannot stand."""
    for row in target.continued(rows):
        replay(target, row)
    target.put_time(rows[-1].appended_at)


def _batch(target: Target, row: Row) -> None:
    number, partition = row.topic, row.partition
    if not (_can_stand(row) and target.continues(number, partition, row.epoch, row.last_offset + 1)):
        if not _has_partition(target, row):
            return
        target.put_partition(number, partition, _appended(target, target.partition(number, partition), row))
    _note_writer(target, row)


def _note_writer(target: Target, row: Row) -> None:
    if row.batch and row.bits & TRANSACTIONAL:
        _note_transaction(target, row)
    if row.batch and not row.bits & CONTROL:
        _note_producer(target, row)


def _has_partition(target: Target, row: Row) -> bool:
    """Whether the row's topic is known.

    Raises:
        LacksPartition: it is, and it has no such partition: one state would keep the row's effect and another lose it.
    """
    count = target.partition_count(row.topic)
    if count and not 0 <= row.partition < count:
        raise LacksPartition(f"row of partition {row.partition} of topic {row.topic}, which has {count}")
    return count > 0


def continue_all(
    target: Continued, ends: Mapping[PartitionKey, int], first: Iterable[Row], idempotent: Iterable[Row]
) -> None:
    """What batches do which continue their partitions in the epoch that these have, and are of no transaction: the
    partitions end there then. `first` are those whose partitions had no epoch before, `idempotent` those that name
    their producer."""
    for row in first:
        key = row.topic, row.partition
        target.put_partition(*key, _appended(target, target.partition(*key), row))
    target.extend(ends)
    for row in idempotent:
        _note_producer(target, row)


def _can_stand(row: Row) -> bool:
    return are_offsets(row.base_offset, row.last_offset) and 0 <= row.epoch <= EPOCH_MAX


def _appended(target: Target, state: PartitionState, row: Row) -> PartitionState:
    if not _can_stand(row):
        raise CorruptBatch(f"batch of epoch {row.epoch} at offsets {row.base_offset} to {row.last_offset}")
    end = row.last_offset + 1
    if row.epoch <= state.epoch:
        return PartitionState(state.start, end, state.epoch, state.history, state.deleted_to)
    history = _folded(target, row.topic, (*state.history, (row.epoch, row.base_offset)))
    return PartitionState(state.start, end, row.epoch, history, state.deleted_to)


def _folded(target: Target, number: int, history: History) -> History:
    """The history that is kept of a partition. A Kafka cluster begins an epoch whenever a leader changes, so of its
    topics only the newest are kept; what was before is not compared, and ends where the oldest that is kept begins."""
    if len(history) <= KAFKA_EPOCHS_MAX:
        return history
    topic = target.topic(number)
    return history[-KAFKA_EPOCHS_MAX:] if topic is not None and topic.is_of_kafka else history


def _note_producer(target: Target, row: Row) -> None:
    producer_id, epoch, first = producer_of(row.batch)
    if producer_id <= NO_PRODUCER:
        return
    before = target.producer(row.topic, row.partition, producer_id) or NO_PRODUCER_STATE
    # As in Kafka, a batch takes as many numbers as offsets, also once compaction has left it fewer records.
    last = last_sequence(first, row.last_offset - row.base_offset + 1)
    batch = ProducerBatch(first, last, row.base_offset)
    target.put_producer(row.topic, row.partition, producer_id, before.after(epoch, row.appended_at, batch))


def _note_transaction(target: Target, row: Row) -> None:
    producer_id, _, _ = producer_of(row.batch)
    known = target.transactions(row.topic, row.partition)
    if row.bits & CONTROL:
        after = known.ended(producer_id, row.last_offset, abort=bool(row.bits & ABORT))
    else:
        after = known.begun(producer_id, row.base_offset)
    if after != known:
        target.put_transactions(row.topic, row.partition, after)


def _begins(target: Target, row: Row, start: int) -> None:
    known = target.transactions(row.topic, row.partition)
    if known.aborted:
        target.put_transactions(row.topic, row.partition, known.from_offset(start))


def last_sequence(first: int, count: int) -> int:
    """Sequence number of the last of `count` records; after 2**31 - 1 numbers begin again at 0 (as in Kafka)."""
    return (first + count - 1) % 2**31


def _start(target: Target, row: Row) -> None:
    if not _has_partition(target, row):
        return
    payload = payloads.decode_start(row.batch)
    state = target.partition(row.topic, row.partition)
    start = row.base_offset
    history = _folded(target, row.topic, joined_history(state.history, payload.history, start))
    epoch = history[-1][0] if history else -1
    end = max(state.end, start)
    if payload.gap_from is not None:
        first = state.start
        target.put_gap(row.topic, row.partition, _gap(target, row, payload.gap_from, payload.reason))
    else:
        first = max(state.start, start)
    check_partition(start, end, history)
    deleted_to = max(state.deleted_to, payload.deleted_to)
    target.put_partition(row.topic, row.partition, PartitionState(first, end, epoch, history, deleted_to))
    _begins(target, row, first)


def joined_history(own: History, other: History, below: int) -> History:
    """`own`, and after it the entries of `other` that have a newer epoch and begin below the offset `below`."""
    newest = own[-1][0] if own else -1
    return (*own, *(entry for entry in other if entry[0] > newest and entry[1] < below))


def _gap(target: Target, row: Row, gap_from: int, reason: str) -> Gap:
    topic = target.topic(row.topic)
    assert topic is not None
    return Gap(topic.name, row.partition, gap_from, row.base_offset, reason)


def _topic(target: Target, row: Row) -> None:
    payload = payloads.decode_topic(row.batch)
    check_topic_number(row.topic)
    target.put_topic(topic_of(row.topic, payload))


def topic_of(number: int, payload: payloads.TopicPayload) -> Topic:
    """The topic that a TOPIC row describes."""
    return Topic(
        number,
        payload.name,
        payload.incarnation,
        payload.partitions,
        payload.owner,
        payload.epoch,
        payload.configs,
        payload.version,
        payload.home,
        payload.owner_at,
        payload.since,
        payload.ext,
        payload.deleted_to,
    )


def payload_of(topic: Topic) -> payloads.TopicPayload:
    """The payload of the row that makes the topic what it is."""
    return payloads.TopicPayload(
        topic.name,
        topic.incarnation,
        topic.partitions,
        topic.owner,
        topic.epoch,
        topic.version,
        dict(topic.configs),
        topic.home,
        topic.owner_at,
        topic.since,
        topic.deleted_to,
        topic.ext,
    )


def _topic_deleted(target: Target, row: Row) -> None:
    payload = payloads.decode_topic_deleted(row.batch)
    check_topic_number(row.topic)
    tombstone = Tombstone(row.topic, payload.name, row.appended_at, row.via, payload.epoch)
    target.remove_topic(payload.incarnation, tombstone, remember=not payload.yielded)


def _committed(target: Target, row: Row) -> None:
    payload = payloads.decode_cursor(row.batch)
    if _has_partition(target, row):
        known = target.cursors(payload.group, row.topic, row.partition)
        own = cursor_of(payload, target.stream_id, row.commit)
        target.put_cursors(payload.group, row.topic, row.partition, known._replace(own=own))


def _cursor(target: Target, row: Row) -> None:
    """One that came over a link, or our own as it was published. Before cursors were replicated, commits were rows of
    this kind too: it is one of these if it does not say what was committed here last."""
    payload = payloads.decode_cursor(row.batch)
    if not _has_partition(target, row):
        return
    known = target.cursors(payload.group, row.topic, row.partition)
    if row.via is not None:
        after = known._replace(theirs=cursor_of(payload, row.origin or row.via, row.commit))
    elif known.own is not None and known.own.version == payload.version:
        after = known._replace(published=payload.version)
    else:
        own = cursor_of(payload, target.stream_id, row.commit)
        after = known._replace(own=own, published=payload.version)
    target.put_cursors(payload.group, row.topic, row.partition, after)


def cursor_of(payload: payloads.CursorPayload, origin: bytes, commit: int) -> Cursor:
    """The cursor that a row of that commit says."""
    p = payload
    offset = NO_OFFSET if p.offset is None else p.offset
    return Cursor(
        *(offset, p.leader_epoch, p.metadata, p.committed_at, p.version),
        origin,
        p.seen,
        p.first,
        p.apart,
        commit,
        p.history,
    )


def payload_of_cursor(group: str, cursor: Cursor) -> payloads.CursorPayload:
    """The payload of a row that says the cursor."""
    c = cursor
    offset = None if c.is_deleted else c.offset
    return payloads.CursorPayload(
        *(group, offset, c.leader_epoch, c.metadata, c.committed_at, c.version), c.seen, c.first, c.apart, c.history
    )


def _position(target: Target, row: Row) -> None:
    payload = payloads.decode_position(row.batch)
    position = None
    if payload.commit is not None:
        position = LinkPosition(payload.commit, payload.epoch_id, GrantRun(payload.run_epoch, payload.run_counter))
    for each in slices_of_mask(payload.slices):
        target.put_position((payload.link, payload.shard, each), position)


def _behind(target: Target, row: Row) -> None:
    payload = payloads.decode_behind(row.batch)
    note = None
    if payload.reason is not None:
        behind = Behind(
            payload.topic, payload.incarnation, payload.partition, payload.end, payload.reason, payload.noted_at
        )
        note = Note(behind, payload.refused_in, payload.create)
    target.put_note((payload.link, payload.incarnation, payload.partition), note)


def payload_of_note(link: bytes, note: Note) -> payloads.BehindPayload:
    """The payload of the row that makes the note of a link."""
    b = note.behind
    return payloads.BehindPayload(
        link, b.topic, b.incarnation, b.partition, b.end, b.reason, b.noted_at, note.refused_in, note.create
    )


def _truncate(target: Target, row: Row) -> None:
    """What stood from the row's offset on is gone from the partition. The row says which producers are forgotten: once
    a merge has dropped their dead batches, the log does not tell it any more. A row without an offset cuts nothing:
    what an earlier one keeps was copied."""
    payload = payloads.decode_truncate(row.batch)
    if not _has_partition(target, row):
        return
    if row.base_offset == NO_OFFSET:
        if payload.keep is not None:
            target.put_copied(row.topic, row.partition, payload.keep)
        return
    state = target.partition(row.topic, row.partition)
    after = state.cut_at(row.base_offset)
    check_partition(after.start, after.end, after.history)
    told = state.history if payload.history is None else payload.history
    history = () if payload.keep is None else told
    cut = Cut(row.base_offset, row.commit, row.row, payload.by_epoch, payload.keep, history)
    target.put_cut(row.topic, row.partition, cut)
    target.forget_producers(row.topic, row.partition, payload.forgets)
    known = target.transactions(row.topic, row.partition)
    target.put_transactions(row.topic, row.partition, known.cut_at(row.base_offset))
    target.put_partition(row.topic, row.partition, after)


def _expired(target: Target, row: Row) -> None:
    """Only the start moves: the end and the epochs are those of batches, which may still be in the log."""
    payloads.decode_expired(row.batch)
    if not _has_partition(target, row):
        return
    state = target.partition(row.topic, row.partition)
    start = min(row.base_offset, state.end)
    if start > state.start:
        target.put_partition(row.topic, row.partition, state._replace(start=start))
        _begins(target, row, start)


def _entry(target: Target, row: Row) -> None:
    payload = payloads.decode_entry(row.batch)
    target.put_entry(payload.key, payload.value)


def _state(target: Target, row: Row) -> None:
    payload = payloads.decode_state(row.batch)
    if target.partition_count(row.topic):
        target.put_topic_state(row.topic, payload.key, payload.value)


def _kept(target: Target, row: Row) -> None:
    """Nothing, but that the row is held. One that is sent is held also once its key is gone: an earlier row of it that
    comes late by another way must not count."""
    payload = payloads.decode_kept(row.batch, row.kind)
    if row.topic <= NUMBER_MAX and not target.partition_count(row.topic):
        return
    is_over = payload.gone and row.kind not in PASSED_ON_KINDS
    kept = None if is_over else Kept(payload.n, bytes(row.batch))
    target.put_kept(row.topic, (row.kind, row.partition, payload.k), kept)


_CONTROL: dict[int, Callable[[Target, Row], None]] = {
    Kind.START: _start,
    Kind.TOPIC: _topic,
    Kind.TOPIC_DELETED: _topic_deleted,
    Kind.CURSOR: _cursor,
    Kind.COMMITTED: _committed,
    Kind.POSITION: _position,
    Kind.BEHIND: _behind,
    Kind.ENTRY: _entry,
    Kind.TRUNCATE: _truncate,
    Kind.EXPIRED: _expired,
    Kind.STATE: _state,
    **dict.fromkeys(KEPT_KINDS, _kept),
}
