"""What a link says of the past that it does not bring: where partitions had come, as START rows.

In: rows of a log, and the commit at which a replica begins (`-from now`). Out: the same rows, where batches of earlier
commits are one START row for each partition and topic epoch, in the place of the last of them. So the order of a
topic's rows stays, and who takes them stands where the log stood at that commit, with the epochs that led there. Their
batches are never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairlead.model.errors import CorruptBatch
from fairlead.storage.interface import Storage
from fairlead.streamlog import payloads
from fairlead.streamlog.objects.by_partition import last_of_groups
from fairlead.streamlog.objects.columns import Columns, join, start_in_place
from fairlead.streamlog.objects.format import columns_at, columns_of_rows
from fairlead.streamlog.payloads import FROM_NOW, History, StartPayload
from fairlead.streamlog.reading.located import LocatedRows, load
from fairlead.streamlog.rows import Kind, Row


def without_past(storage: Storage, rows: LocatedRows, begin: int) -> LocatedRows:
    """The rows, those of commits below `begin` without their batches.

    Raises:
        Damaged, Missing, StorageUnavailable: a START row among them cannot be read.
    """
    columns = rows.columns
    past = columns.commit < begin
    batch, start = (past & (columns.kind == kind) for kind in (Kind.BATCH, Kind.START))
    places = np.flatnonzero(start)
    made = list(_ends(columns.take(batch)))
    if len(places):
        made += [_begins(row) for row in load(storage, rows.take(places)).rows()]
    if not made:
        return rows
    kept = rows.take(np.flatnonzero(~batch & ~start))
    new = _columns(made, columns.first, columns.end)
    of_object = np.concatenate((kept.object, np.full(len(new), len(rows.objects), np.int32)))
    return LocatedRows(replace(join([kept.columns, new]), name=""), [*rows.objects, new], of_object)


def _ends(batches: Columns) -> Iterator[Row]:
    """For each partition and epoch of these batches, where the log stood behind the last of them."""
    if not len(batches):
        return
    order = np.lexsort((batches.row, batches.commit, batches.epoch, batches.partition, batches.topic))
    batches = batches.take(order)
    lasts = np.flatnonzero(last_of_groups(batches.topic, batches.partition, batches.epoch)).tolist()
    firsts = [0, *(last + 1 for last in lasts[:-1])]
    for first, last in zip(firsts, lasts, strict=True):
        offset, epoch = int(batches.last_offset[last]) + 1, int(batches.epoch[last])
        before = int(batches.previous_end[first])
        payload = StartPayload(FROM_NOW, offset, _history(batches, first, offset), before, epoch=epoch)
        yield start_in_place(batches, last, payload)


def _history(batches: Columns, first: int, below: int) -> History:
    """The epoch of the batch `first`, and that of the record before it, as far as the batch says: the replica knows
    what came before. Epoch 0 is a topic's first, so it begins at 0."""
    epoch, before = int(batches.epoch[first]), int(batches.previous_epoch[first])
    record_before = max(int(batches.previous_end[first]) - 1, 0)
    found = []
    if 0 <= before < epoch:
        found.append((before, 0 if before == 0 else record_before))
    begins = record_before if before == epoch else int(batches.base_offset[first])
    found.append((epoch, 0 if epoch == 0 else begins))
    return tuple(entry for entry in found if entry[1] < below)


def _begins(row: Row) -> Row:
    """A START row that says nothing but where the log begins: that records before it are missing at the sender, nobody
    has to know who does not get them anyway. One that cannot be read is its receiver's to refuse."""
    try:
        payload = payloads.decode_start(row.batch)
    except CorruptBatch:
        return row
    return row._replace(batch=payloads.encode(replace(payload, reason=FROM_NOW, gap_from=None)))


def _columns(rows: list[Row], first: int, end: int) -> Columns:
    region, places, _ = columns_of_rows(rows)
    batches = b"".join([row.batch for row in rows])
    return columns_at(memoryview(region), places, len(batches), "", 0, data=memoryview(batches), first=first, end=end)
