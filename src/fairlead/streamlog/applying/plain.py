"""Appends the plain rows of a frame many at a time: what `rows.py` decides of each is decided here of columns.

A row is plain if `rows.py` would append it and do nothing else: a batch that holds together, of no transaction, neither
rewritten nor claimed, which continues its partition (P ≤ E ≤ base) in the epoch that the partition, Q and the topic
have, or begins the first epoch of one that has none; the source speaks for the topic, and nothing is noted of it. Every
other row is left to `rows.py`.

Always true: rows are appended in the order of the frame, so only those before the first that is not plain, and each is
the row that `rows.py` would have added (`tests/streamlog/applying/test_plain.py` compares).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import crc32c
import numpy as np
from numpy.typing import NDArray

from fairlead.protocol.batch import (
    CODEC_MASK,
    CRC_FROM,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    are_whole,
    headers_at,
)
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.numbers import Numbers
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.ownership.histories import beginning_of
from fairlead.streamlog.ranges import DELTA_MAX, EPOCH_MAX, OFFSET_MAX
from fairlead.streamlog.rows import BATCH, Kind, Row, row_from
from fairlead.streamlog.values import PartitionKey, RowKey, Since
from fairlead.streamlog.writing.draft import Draft

Flags = NDArray[np.bool_]
_PLAIN_BITS: Final = CODEC_MASK | LOG_APPEND_TIME
_SAME: Final = (
    ("base_offset", "base_offset"),
    ("leader_epoch", "epoch"),
    ("max_timestamp", "max_timestamp"),
    ("record_count", "records"),
    ("attributes", "bits"),
    ("crc", "crc"),
)
"""What a batch's header says, and the column that says the same of a batch that was not rewritten."""
_NO_INCARNATION: Final = b""
"""Of a topic that the frame does not name."""


class _Topics(NamedTuple):
    """The topics of some rows, each field an array, and which of them each row has."""

    number: Numbers
    """Its number here; -1: it is not here, or the source does not speak for it."""
    partitions: Numbers
    epoch: Numbers
    of_kafka: Flags
    is_noted: Flags
    """There may be a note on it."""
    of_row: NDArray[np.intp]
    since: Mapping[int, Since]
    """By number, of the topics whose owner has changed."""


class _Places(NamedTuple):
    """Where the partitions of some rows stand here, a value for each row."""

    end: Numbers
    """E: where the partition ends once all rows before this one are appended."""
    epoch: Numbers
    """Of the partition's newest row then; -1: it has none."""
    epoch_first: Numbers
    """Where that epoch begins; 0 if it does so in these rows."""
    since: Numbers
    """Where the epoch of the topic's owner begins in the partition."""
    fence: Numbers
    """The newest epoch of the owner's log below that; of a Kafka cluster's, records have it or a later one from there
    on. 0: that is not said."""


class PlainRows:
    """Appends rows of one frame to a draft."""

    def __init__(self, draft: Draft, frame: Frame, columns: Columns, admission: Admission) -> None:
        self._draft = draft
        self._frame = frame
        self._columns = columns
        self._admission = admission
        self._like: NDArray[np.intp] | None = None
        """Places of the rows that have the form of plain ones, once somebody has asked."""
        self.appended = 0
        """Records."""

    def next_like(self, first: int) -> int:
        """The first row, from `first` on, that has the form of a plain one; behind the last row if none has."""
        if self._like is None:
            self._like = np.flatnonzero(_has_plain_form(self._columns))
        later = self._like[np.searchsorted(self._like, first) :]
        return int(later[0]) if len(later) else len(self._columns)

    def overlapping(self, first: int) -> list[RowKey]:
        """Keys of the batches, from the row `first` on, that end below where their partitions end here."""
        rows = self._columns.take(slice(first, None))
        rows = rows.take(_has_offsets(rows) & (rows.kind == Kind.BATCH))
        if not len(rows):
            return []
        topics = self._topics_of(rows)
        is_here = _is_in_a_topic(rows, topics)
        rows, topics = rows.take(is_here), topics._replace(of_row=topics.of_row[is_here])
        if not len(rows):
            return []
        numbers = topics.number[topics.of_row]
        keys, of_row = np.unique(numbers << 32 | rows.partition, return_inverse=True)
        ends = self._draft.state.standings(*_parts(keys))[of_row, 0]
        below = rows.last_offset < ends
        found = (numbers[below], rows.partition[below], rows.base_offset[below])
        return list(zip(*(column.tolist() for column in found), strict=True))

    def append(self, first: int, end: int) -> int:
        """Append the rows from `first` to the first one that is not plain, at most to `end`; how many these are.

        Raises:
            StorageFull
        """
        rows = self._columns.take(slice(first, end))
        rows = rows.take(slice(0, _leading(_has_plain_form(rows))))
        if not len(rows):
            return 0
        headers = _headers_of(rows)
        whole = are_whole(headers, rows.size) & (headers["producer_id"] >= NO_PRODUCER) & _says_the_same(rows, headers)
        topics = self._topics_of(rows)
        rows = rows.take(slice(0, _leading(whole & _is_free(rows, topics) & self._counts(rows))))
        if not len(rows):
            return 0
        places = self._places(rows, topics)
        continues = _continues(rows, topics, places)
        rows = rows.take(slice(0, _leading(continues & _has_its_crc(rows, _leading(continues)))))
        if len(rows):
            self._add(rows, topics, places, headers["producer_id"][: len(rows)] > NO_PRODUCER)
        return len(rows)

    def _topics_of(self, rows: Columns) -> _Topics:
        numbers, of_row = np.unique(rows.topic, return_inverse=True)
        named = map(self._frame.topics.get, numbers.tolist())
        incarnations = [_NO_INCARNATION if each is None else each.incarnation for each in named]
        terms = self._draft.state.terms(incarnations)
        admits = self._admission
        number = np.array(terms.number, np.int64)
        if not admits.speaks_for_all:
            number[[not admits.speaks_for(owner) for owner in terms.owner]] = -1
        return _Topics(
            number,
            np.array(terms.partitions, np.int64),
            np.array(terms.epoch, np.int64),
            np.array(terms.of_kafka, np.bool_),
            np.array(self._draft.state.noted(incarnations), np.bool_),
            of_row,
            terms.since,
        )

    def _counts(self, rows: Columns) -> bool:
        """Whether the source speaks for the streams in which the rows began."""
        return self._admission.speaks_for_all or self._admission.speaks_for(*set(self._origins(rows)))

    def _origins(self, rows: Columns) -> Iterable[bytes]:
        """Where each row began: at the source, if it does not say."""
        source = self._frame.source
        if not rows.origin_set.any():
            return repeat(source, len(rows))
        known: dict[bytes, bytes] = {}
        raw = rows.origin.tobytes()
        ids = [raw[at : at + 16] for at in range(0, len(raw), 16)]
        is_set = rows.origin_set.tolist()
        return [known.setdefault(id, id) if there else source for id, there in zip(ids, is_set, strict=True)]

    def _places(self, rows: Columns, topics: _Topics) -> _Places:
        keys = topics.number[topics.of_row[: len(rows)]] << 32 | rows.partition
        order = np.argsort(keys, kind="stable")
        in_order = keys[order]
        is_first = np.append(True, in_order[1:] != in_order[:-1])
        of_partition = np.cumsum(is_first) - 1
        found = _parts(in_order[is_first])
        standings = self._draft.state.standings(*found)
        epochs = standings[:, 1][of_partition]
        begun = (epochs < 0) & ~is_first
        epochs[begun] = rows.epoch[order[is_first]][of_partition[begun]]
        begins = np.zeros((len(standings), 2), np.int64)
        if topics.since:
            places = zip(*(part.tolist() for part in found), strict=True)
            since = [beginning_of(topics.since.get(number, ()), each) for number, each in places]
            begins = np.array([(start, history[-1][0] if history else 0) for start, history in since], np.int64)
        ends = np.append(0, rows.last_offset[order][:-1] + 1)
        ends[is_first] = standings[:, 0]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        from_where = begins[of_partition[back]]
        return _Places(ends[back], epochs[back], standings[of_partition[back], 2], *from_where.T)

    def _add(self, rows: Columns, topics: _Topics, places: _Places, is_idempotent: Flags) -> None:
        draft, source, count = self._draft, self._frame.source, len(rows)
        numbers = topics.number[topics.of_row[:count]].tolist()
        partitions, last, epochs = rows.partition.tolist(), rows.last_offset.tolist(), rows.epoch.tolist()
        fields: Sequence[Iterable[Any]] = (
            repeat(BATCH, count),
            numbers,
            partitions,
            rows.base_offset.tolist(),
            last,
            epochs,
            places.end[:count].tolist(),
            places.epoch[:count].tolist(),
            self._origins(rows),
            repeat(source, count),
            rows.commit.tolist(),
            repeat(draft.now_ms, count),
            rows.max_timestamp.tolist(),
            rows.records.tolist(),
            rows.bits.tolist(),
            rows.crc.tolist(),
            repeat(draft.commit, count),
            range(len(draft.rows), len(draft.rows) + count),
            _batches(rows),
        )
        made = list(map(row_from, zip(*fields, strict=True)))
        keys: Iterable[PartitionKey] = zip(numbers, partitions, strict=True)
        ends = dict(zip(keys, (rows.last_offset + 1).tolist(), strict=True))
        draft.add_plain(made, ends, _chosen(made, places.epoch[:count] < 0), _chosen(made, is_idempotent))
        self.appended += int(rows.records.sum(dtype=np.int64))


def _leading(flags: Flags) -> int:
    """How many are set before the first that is not."""
    return len(flags) if flags.all() else int(flags.argmin())


def _has_plain_form(rows: Columns) -> Flags:
    """Batches that the columns say nothing special of, with offsets, an epoch and a size that a batch may have."""
    epochs = (rows.epoch >= 0) & (rows.epoch <= EPOCH_MAX)
    kinds = (rows.kind == Kind.BATCH) & (rows.bits & ~np.uint32(_PLAIN_BITS) == 0)
    found: Flags = kinds & _has_offsets(rows) & epochs & (rows.size >= HEADER_BYTES)
    return found


def _has_offsets(rows: Columns) -> Flags:
    """`ranges.are_offsets` of each row."""
    base, last = rows.base_offset, rows.last_offset
    found: Flags = (base >= 0) & (base <= last) & (last < OFFSET_MAX) & (last - base <= DELTA_MAX)
    return found


def _headers_of(rows: Columns) -> NDArray[np.void]:
    assert rows.data is not None
    return headers_at(np.frombuffer(rows.data, np.uint8), rows.position - rows.data_position)


def _says_the_same(rows: Columns, headers: NDArray[np.void]) -> Flags:
    found: Flags = headers["base_offset"] + headers["last_offset_delta"] == rows.last_offset
    for field, column in _SAME:
        found &= headers[field] == getattr(rows, column)
    return found


def _is_in_a_topic(rows: Columns, topics: _Topics) -> Flags:
    """Rows of partitions of topics that are here, and for which the source speaks."""
    of_row, partition = topics.of_row, rows.partition
    found: Flags = (topics.number[of_row] >= 0) & (partition >= 0) & (partition < topics.partitions[of_row])
    return found


def _is_free(rows: Columns, topics: _Topics) -> Flags:
    """Of these, rows of topics of which nothing is noted."""
    return _is_in_a_topic(rows, topics) & ~topics.is_noted[topics.of_row]


def _continues(rows: Columns, topics: _Topics, places: _Places) -> Flags:
    of_row = topics.of_row[: len(rows)]
    epoch, topic_epoch = rows.epoch, topics.epoch[of_row]
    owners = np.where(topics.of_kafka[of_row], epoch >= places.fence, epoch == topic_epoch)
    goes_on = (epoch == places.epoch) & (places.epoch_first < places.end) | (places.epoch < 0)
    epochs = owners & goes_on & (rows.previous_epoch == places.epoch)
    offsets = (rows.previous_end <= places.end) & (places.end <= rows.base_offset)
    found: Flags = epochs & offsets & (places.since <= rows.base_offset)
    return found


def _has_its_crc(rows: Columns, count: int) -> Flags:
    """Of the first `count`; the others are not looked at."""
    found = np.zeros(len(rows), np.bool_)
    sums = [crc32c.crc32c(batch[CRC_FROM:]) for batch in _batches(rows.take(slice(0, count)))]
    found[:count] = np.array(sums, np.uint32) == rows.crc[:count]
    return found


def _batches(rows: Columns) -> list[memoryview]:
    data = rows.data
    assert data is not None
    starts = rows.position - rows.data_position
    ends = starts + rows.size
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _chosen(rows: Sequence[Row], flags: Flags) -> list[Row]:
    return [rows[place] for place in np.flatnonzero(flags).tolist()]


def _parts(keys: Numbers) -> tuple[Numbers, Numbers]:
    """The topic numbers and partitions of which keys were made."""
    return keys >> 32, keys & 0xFFFFFFFF
