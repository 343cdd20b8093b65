"""The rest of a partition from an offset on, as rows for a site that lacks them.

In: what is announced of a topic here, and how far the other site has one of its partitions. Out: rows as a link would
bring them: batches as they lie here, a START row where the log begins and behind each gap, made of the state. Found by
offset, not by reading the log: the tail of a long partition costs as much as that of a short one.

Blocking. Raises everywhere: `Missing` (merged meanwhile, ask again), `Damaged`, `StorageUnavailable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from fairlead.streamlog import payloads
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.reading.fetch import LogReader
from fairlead.streamlog.reading.located import LocatedRows, load
from fairlead.streamlog.reading.slices import ROW_BYTES
from fairlead.streamlog.rows import NO_EPOCH, NO_OFFSET, Kind, Row
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.values import PartitionState, Topic

ROWS_MAX: Final = 10_000
"""Of one answer: who gets it holds them all."""
READ_BYTES: Final = 1 << 20
READ_ROWS: Final = 4096
"""Batches are read some at a time, as the answer may be full before the object ends."""


class Rest(NamedTuple):
    """Rows of a partition, in order."""

    rows: Sequence[Row]
    size_bytes: int
    ended: bool
    """There are no more."""


def topic_row(log: AnnouncedLog, topic: Topic) -> Row:
    """The TOPIC row that makes the topic what it is here."""
    return _control(log, topic, Kind.TOPIC, payloads.encode(payload_of(topic)), -1, NO_OFFSET)


def rest_of(log: AnnouncedLog, reader: LogReader, topic: Topic, partition: int, offset: int, bytes_max: int) -> Rest:
    """What follows an offset of a partition: near `bytes_max` bytes, one batch at least."""
    state = log.state.partition(topic.number, partition)
    marks = _marks(log, topic, partition, state, offset)
    rows, size_bytes = list[Row](), 0
    for row in _batches(reader, log, topic.number, partition, max(offset, state.start)):
        if row.last_offset >= state.end:
            break
        while marks and marks[0].base_offset <= row.base_offset:
            rows.append(marks.pop(0))
        size = len(row.batch) + ROW_BYTES
        if rows and (size_bytes + size > bytes_max or len(rows) >= ROWS_MAX):
            return Rest(rows, size_bytes, ended=False)
        rows.append(row)
        size_bytes += size
    return Rest([*rows, *marks], size_bytes, ended=True)


def _batches(reader: LogReader, log: AnnouncedLog, number: int, partition: int, offset: int) -> Iterator[Row]:
    for columns, places in reader.rows_from(number, partition, offset):
        for some in _loads(columns, places):
            found = columns.take(some)
            yield from load(log.storage, LocatedRows(found, [columns], np.zeros(len(found), np.int32))).rows()


def _loads(columns: Columns, places: range) -> Iterator[slice]:
    """Neighbouring rows whose batches are read at once."""
    first = places.start
    while first < places.stop:
        ends = np.cumsum(columns.size[first : min(places.stop, first + READ_ROWS)], dtype=np.int64)
        last = first + max(1, int(np.searchsorted(ends, READ_BYTES, side="right")))
        yield slice(first, last)
        first = last


def _marks(log: AnnouncedLog, topic: Topic, partition: int, state: PartitionState, offset: int) -> list[Row]:
    """START rows: where the log begins, if that is behind the offset or if records were deleted, and each gap."""
    found: list[Row] = []
    if state.start > offset or state.deleted_to:
        reason = "deleted-records" if state.deleted_to >= state.start else "ttl"
        found.append(_start(log, topic, partition, state, state.start, reason, None))
    gaps = sorted((gap.start, gap.end, gap.reason) for gap in log.state.gaps_of(topic.number, partition))
    for start, end, reason in gaps:
        if end > max(offset, state.start):
            found.append(_start(log, topic, partition, state, end, reason, start))
    return found


def _start(
    log: AnnouncedLog,
    topic: Topic,
    partition: int,
    state: PartitionState,
    offset: int,
    reason: str,
    gap_from: int | None,
) -> Row:
    log_end = max(state.end, state.deleted_to)
    payload = StartPayload(reason, log_end, state.history, gap_from, state.deleted_to, topic.epoch)
    return _control(log, topic, Kind.START, payloads.encode(payload), partition, offset)


def _control(log: AnnouncedLog, topic: Topic, kind: Kind, payload: bytes, partition: int, offset: int) -> Row:
    return Row(
        kind,
        topic.number,
        partition,
        offset,
        NO_OFFSET,
        NO_EPOCH,
        NO_OFFSET,
        NO_EPOCH,
        topic.owner,
        None,
        NO_OFFSET,
        0,
        -1,
        0,
        0,
        0,
        log.end - 1,
        0,
        payload,
    )
