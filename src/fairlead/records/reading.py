"""What a Spark task does: opens the objects it was told of, takes its rows' bytes, gives Arrow record batches.

If an object is missing, it was merged or expired since it was named (objects stay ten minutes after that): the task
asks the server again and goes on after what it has taken already. For each partition that is one place in the log,
since a partition's rows come in the order in which they were written, whichever object holds them. It is no offset: the
log may have been cut meanwhile, and other records stand where those stood that were taken.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fairlead.model.errors import Missing
from fairlead.records.choosing import Chooser, Places
from fairlead.records.client import RecordsClient
from fairlead.records.decode import GROUP_BYTES, BatchesInBuffer, decode
from fairlead.records.task import RecordsLost, Task
from fairlead.storage.local import ReadOnlyLocalStorage
from fairlead.streamlog.objects.by_partition import last_of_groups, look_up, packed_keys
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.objects.format import read_columns
from fairlead.streamlog.objects.side_by_side import runs
from fairlead.streamlog.payloads import BEGINS_HERE, DELETED_RECORDS, FROM_NOW, StartPayload, decode_start
from fairlead.streamlog.reading.located import read_bytes
from fairlead.streamlog.values import LogObject

PIECE_BYTES = 16 * 1024 * 1024
"""Most bytes of an object that are read at one time (a single batch may be larger)."""
SKIP_BYTES = 64 * 1024
"""Unwanted bytes between wanted ones are read along if there are no more of them than this."""
ASK_AGAIN_MAX = 10
"""How often a task asks for the objects again when one was merged away before it was read."""

_log = logging.getLogger("fairlead.records")


@dataclass(frozen=True, slots=True)
class _NearRows:
    """Rows whose batches lie close together, with these bytes: `data` begins at `start` in the object."""

    columns: Columns
    places: Places
    data: memoryview
    start: int


def read(task: Task) -> Iterator[pa.RecordBatch]:
    """The records of one task.

    Raises:
        RecordsLost: `failOnDataLoss` is on and records were deleted before they were read.
        CorruptBatch, Damaged: stored bytes are not what was written.
        Unreachable: the server, which names topics and objects, does not answer.
    """
    reader = _TaskReader(task)
    for pieces in _grouped(reader.pieces()):
        yield from decode(reader.stored(pieces), task.columns, check_crc=task.check_crcs)


def _grouped(pieces: Iterator[_NearRows]) -> Iterator[list[_NearRows]]:
    """Groups of small pieces: an Arrow batch for each commit of one record would cost Spark more than the reading."""
    group: list[_NearRows] = []
    size_bytes = 0
    for piece in pieces:
        group.append(piece)
        size_bytes += len(piece.data)
        if size_bytes >= GROUP_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


class _TaskReader:
    """Walks a task's objects."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._files = ReadOnlyLocalStorage(Path(task.root))
        self._client = RecordsClient(task.servers, task.path)
        self._chooser = Chooser(task.choice, self._client)
        self._taken = _Taken()
        self._origins: dict[bytes | None, int] = {}

    def pieces(self) -> Iterator[_NearRows]:
        """The bytes of all chosen rows."""
        objects = list(self._task.objects)
        asked = 0
        while objects:
            try:
                yield from self._pieces_of(objects[0])
                del objects[0]
            except Missing:
                asked += 1
                if asked > ASK_AGAIN_MAX:
                    raise
                objects = self._ask_again()
                self._taken.settle()

    def _ask_again(self) -> list[LogObject]:
        choice = self._task.choice
        plan = self._client.objects({choice.shard: choice.first}, {choice.shard: choice.end}).shards[choice.shard]
        self._chooser.dead = DeadRows(plan.cuts)
        return list(plan.objects)

    def _pieces_of(self, found: LogObject) -> Iterator[_NearRows]:
        columns = read_columns(self._files, found.name)
        self._look_for_losses(columns)
        places = self._taken.without(columns, self._chooser.batches(columns))
        for part in _close_together(columns, places):
            start = int(columns.position[part[0]])
            end = int(columns.position[part[-1]] + columns.size[part[-1]])
            piece = _NearRows(columns, part, self._bytes(columns, start, end), start)
            self._taken.add(columns, part)
            yield piece

    def _bytes(self, columns: Columns, start: int, end: int) -> memoryview:
        return memoryview(read_bytes(self._files, columns, start, end))

    def _look_for_losses(self, columns: Columns) -> None:
        columns = self._chooser.dead.cut_back(columns)
        for place in self._chooser.starts(columns).tolist():
            start = int(columns.position[place])
            payload = decode_start(self._bytes(columns, start, start + int(columns.size[place])))
            offset, held = int(columns.base_offset[place]), int(columns.previous_end[place])
            if columns.commit[place] < self._task.began or not is_loss(payload, offset, held):
                continue
            topic = self._chooser.topics()[int(self._chooser.topic_index(columns.topic[[place]])[0])].as_py()
            report_loss(
                f"topic {topic}, partition {columns.partition[place]}: records below offset "
                f"{offset} are gone before they were read ({payload.reason})",
                self._task.fail_on_data_loss,
            )

    def stored(self, pieces: Sequence[_NearRows]) -> BatchesInBuffer:
        """The pieces as one buffer of batches for the decoder."""
        sizes = [len(piece.data) for piece in pieces]
        shifts = np.cumsum([0, *sizes[:-1]])
        starts = [p.columns.position[p.places] - p.start + shift for p, shift in zip(pieces, shifts, strict=True)]
        start = np.concatenate(starts)
        bounds = [self._chooser.bounds(p.columns, p.places) for p in pieces] if self._chooser.bounded else []
        index = self._chooser.topic_index(_joined(pieces, "topic"))
        origin = np.concatenate([self._origin_index(piece) for piece in pieces])
        return BatchesInBuffer(
            data=np.frombuffer(pieces[0].data if len(pieces) == 1 else b"".join(p.data for p in pieces), np.uint8),
            start=start,
            end=start + _joined(pieces, "size"),
            base_offset=_joined(pieces, "base_offset"),
            partition=_joined(pieces, "partition"),
            topic=index,
            topics=self._chooser.topics(),
            origin=origin,
            origins=pa.array([None if id is None else id.hex() for id in self._origins], pa.string()),
            low=np.concatenate([low for low, _ in bounds]) if bounds else None,
            high=np.concatenate([high for _, high in bounds]) if bounds else None,
        )

    def _origin_index(self, piece: _NearRows) -> npt.NDArray[np.int32]:
        """Index of each row's origin among those met so far; these are few, and a piece mostly has one."""
        if "origin" not in self._task.columns:
            self._origins.setdefault(None, 0)
            return np.zeros(len(piece.places), np.int32)
        raw = piece.columns.origin[piece.places]
        pairs = np.ascontiguousarray(raw).view(np.uint64).reshape(-1, 2)
        pairs = np.where(piece.columns.origin_set[piece.places][:, None], pairs, 0)
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        ids = [row.tobytes() if row.any() else None for row in distinct]
        known = [self._origins.setdefault(id, len(self._origins)) for id in ids]
        return np.array(known, np.int32)[place.reshape(-1)]


def is_loss(payload: StartPayload, offset: int, held: int) -> bool:
    """Whether the `start` row at `offset` says that records are gone which this log had, or was to get. `held`: where
    the partition's log ended before that row. What somebody has deleted is not lost: it may have been read before.
    Where a replica's partition begins, nothing was held, whatever became of the records at the source."""
    if payload.reason in {DELETED_RECORDS, BEGINS_HERE} or payload.deleted_to >= offset:
        return False
    if payload.gap_from is not None:
        return True
    return payload.reason != FROM_NOW and held > 0


def report_loss(what: str, fail: bool) -> None:
    """Raise or log that records are gone.

    Raises:
        RecordsLost: `fail` is true.
    """
    if fail:
        raise RecordsLost(f"{what}; set option failOnDataLoss to false to go on without them")
    _log.warning("%s; going on, since failOnDataLoss is false", what)


class _Taken:
    """Up to which row of the log each partition has been taken; it is used only after an object was missing."""

    def __init__(self) -> None:
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._keys = np.empty(0, np.uint64)
        self._commits = np.empty(0, np.int64)
        self._rows = np.empty(0, np.int64)

    def add(self, columns: Columns, places: Places) -> None:
        keys = packed_keys(columns.topic[places], columns.partition[places])
        self._parts.append((keys, columns.commit[places], columns.row[places]))

    def settle(self) -> None:
        """Take account of everything added."""
        parts = [(self._keys, self._commits, self._rows), *self._parts]
        keys, commits, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._parts.clear()
        order = np.lexsort((rows, commits, keys))
        last = order[last_of_groups(keys[order])]
        self._keys, self._commits, self._rows = keys[last], commits[last], rows[last]

    def without(self, columns: Columns, places: Places) -> Places:
        """The places that have not been taken."""
        keys = packed_keys(columns.topic[places], columns.partition[places])
        commit, row = (look_up(self._keys, values, keys, -1) for values in (self._commits, self._rows))
        commits = columns.commit[places]
        left: Places = places[(commits > commit) | ((commits == commit) & (columns.row[places] > row))]
        return left


def _joined(pieces: Sequence[_NearRows], column: str) -> npt.NDArray[Any]:
    return np.concatenate([getattr(piece.columns, column)[piece.places] for piece in pieces])


def _close_together(columns: Columns, places: Places) -> Iterator[Places]:
    """The places in runs, each worth one read."""
    if not len(places):
        return
    start = columns.position[places]
    end = start + columns.size[places]
    in_another_piece = np.diff((start - start[0]) // PIECE_BYTES) != 0
    yield from np.split(places, runs(start, end, hole_bytes=SKIP_BYTES, apart=in_another_piece)[1:-1])
