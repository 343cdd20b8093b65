"""Replaying many rows at once: rows whose effect later rows overwrite are passed over.

A log is mostly record batches, and of a partition's thousands only the last says where it ends. What a batch does
(`effects.py`) depends on nothing but its own partition and its producer there, and changes nothing else. So between two
rows about its topic these batches must be replayed: the last of each partition, the first of each topic epoch, and the
last few of each producer, as many as are remembered. All control rows stay, and so does one row with the newest time.
Only the bytes that its effect needs are read of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from fairlead.model.errors import Damaged
from fairlead.protocol.batch import CONTROL, NO_PRODUCER, TRANSACTIONAL, producer_ids
from fairlead.storage.interface import Storage
from fairlead.streamlog.objects.by_partition import last_of_groups
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.reading.located import LOAD_BYTES, LocatedRows, load, open_object, together
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state import effects
from fairlead.streamlog.state.effects import HEAD_BYTES
from fairlead.streamlog.state.producers import BATCHES_KEPT
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import LogObject

_OF_TOPIC: Final = (Kind.START, Kind.TOPIC, Kind.TOPIC_DELETED, Kind.TRUNCATE, Kind.EXPIRED)
"""Kinds of control rows that change what a later batch of the topic does."""


OnDamage = Callable[[Damaged], None]
"""Told of an object or row that is passed over, or raises."""


def refuse(damage: Damaged) -> None:
    """Pass over nothing. Raises: Damaged."""
    raise damage


def replay_segments(
    storage: Storage,
    state: ShardState,
    segments: Sequence[LogObject],
    from_commit: int,
    on_damage: OnDamage = refuse,
) -> None:
    """Bring a state over the rows of segments from a commit on, run by run.

    Raises:
        CorruptBatch: the payload of a control row cannot be read.
        Damaged, Missing: unless `on_damage` lets the segment be passed over.
        StorageUnavailable
    """
    wanted = (segment for segment in segments if segment.end > from_commit)
    for _, run in groupby(wanted, lambda segment: (segment.first, segment.end)):
        found = [columns for segment in run if (columns := _opened(storage, segment, on_damage)) is not None]
        if found:
            rows = together(found)
            replay_rows(storage, state, rows.take(np.flatnonzero(rows.columns.commit >= from_commit)), on_damage)


def _opened(storage: Storage, segment: LogObject, on_damage: OnDamage) -> Columns | None:
    try:
        return open_object(storage, segment)
    except Damaged as error:
        on_damage(error)
        return None


def replay_rows(storage: Storage, state: ShardState, rows: LocatedRows, on_damage: OnDamage = refuse) -> None:
    """Bring a state over rows, given in any order. Raises as `replay_segments`."""
    columns = _heads(storage, rows)
    in_order = np.lexsort((columns.row, columns.commit))
    columns = columns.take(in_order)
    places = _lasting(columns)
    for place, row in zip(places.tolist(), columns.take(places).rows(), strict=True):
        if row.kind == Kind.BATCH and row.base_offset < state.partition(row.topic, row.partition).end:
            on_damage(Damaged(rows.objects[rows.object[in_order[place]]].name, _twice(row)))
        else:
            effects.replay(state, row)


def _twice(row: Row) -> str:
    where = f"topic number {row.topic}, partition {row.partition}, commit {row.commit:,}"
    return f"{where}: offset {row.base_offset:,} lies below the partition's end: the rows are there twice, or too old"


def _heads(storage: Storage, rows: LocatedRows) -> Columns:
    """The rows, each batch cut to the bytes that its effect depends on, side by side."""
    limit = np.where(rows.columns.kind == Kind.BATCH, np.uint32(HEAD_BYTES), np.uint32(0xFFFFFFFF))
    size = np.minimum(rows.columns.size, limit)
    cut = LocatedRows(replace(rows.columns, size=size), rows.objects, rows.object)
    pieces = [_side_by_side(load(storage, cut.take(part))) for part in _parts(cut.columns.position)]
    position = np.cumsum(size, dtype=np.int64) - size
    return replace(cut.columns, name="", position=position, data=memoryview(b"".join(pieces)), data_position=0)


def _side_by_side(columns: Columns) -> Buffer:
    data = columns.data
    assert data is not None
    starts = columns.position - columns.data_position
    if columns.batch_bytes() == len(data) and not np.any(starts[1:] < starts[:-1]):
        return data
    ends = starts + columns.size
    return b"".join([data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])


def _parts(position: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Groups of rows that lie near each other, so that reading a group with what lies between takes `LOAD_BYTES`."""
    part = np.cumsum(np.abs(np.diff(position, prepend=position[:1]))) // LOAD_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(position)]
    return (np.arange(start, end) for start, end in pairwise(cuts) if end > start)


def _lasting(columns: Columns) -> NDArray[np.int64]:
    """Places of the rows, given in the order of the log, that must be replayed."""
    keep = columns.kind != Kind.BATCH
    batches = np.flatnonzero(~keep)
    if len(batches):
        partition = (_stretches(columns) << 32 | columns.partition.astype(np.int64))[batches]
        in_order = np.argsort(partition, kind="stable")
        last = last_of_groups(partition[in_order])
        epoch = columns.epoch[batches[in_order]]
        new_epoch = np.concatenate(([True], last[:-1] | (epoch[1:] != epoch[:-1])))
        keep[batches[in_order[last | new_epoch]]] = True
        keep[batches[_of_producers(_producers(columns)[batches], partition)]] = True
        keep |= columns.bits & TRANSACTIONAL != 0
        keep[int(np.argmax(columns.appended_at))] = True
    return np.flatnonzero(keep)


def _producers(columns: Columns) -> NDArray[np.int64]:
    """The producer id of each row; `NO_PRODUCER` unless it is a batch that has one."""
    found = np.full(len(columns), NO_PRODUCER, np.int64)
    is_producers = (columns.kind == Kind.BATCH) & (columns.bits & CONTROL == 0)
    batches = np.flatnonzero(is_producers & (columns.size == HEAD_BYTES))
    found[batches] = producer_ids(np.frombuffer(columns.data or b"", np.uint8), columns.position[batches])
    return found


def _stretches(columns: Columns) -> NDArray[np.int64]:
    """A number for each row: the same for neighbouring rows of a topic unless a row about the topic comes between."""
    in_order = np.argsort(columns.topic, kind="stable")
    topic = columns.topic[in_order]
    begins = np.isin(columns.kind[in_order], _OF_TOPIC)
    begins[1:] |= topic[1:] != topic[:-1]
    found = np.empty(len(columns), np.int64)
    found[in_order] = np.cumsum(begins)
    return found


def _of_producers(producer: NDArray[np.int64], partition: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of the last batches of each idempotent producer in each partition."""
    known = np.flatnonzero(producer > NO_PRODUCER)
    producer, partition = producer[known], partition[known]
    in_order = np.lexsort((producer, partition))
    ends = np.flatnonzero(last_of_groups(partition[in_order], producer[in_order]))
    place = np.arange(len(known))
    from_end = ends[np.searchsorted(ends, place)] - place
    found: NDArray[np.int64] = known[in_order[from_end < BATCHES_KEPT]]
    return found
