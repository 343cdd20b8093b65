"""How far a micro-batch goes that is to have at most so many records: whole commits, of each shard its share.

Shares are in proportion to what waits, so no shard waits for another one. Of each shard only so much is counted as the
whole micro-batch may have: counting costs as much as what is read, not as much as what waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairlead.model.errors import Missing
from fairlead.records.choosing import Chooser
from fairlead.storage.interface import Storage
from fairlead.streamlog.objects.format import read_columns
from fairlead.streamlog.values import LogObject


class Backlog(NamedTuple):
    """Commits [first, end) of a shard, and those among them that hold chosen records, with their numbers; what lies
    behind the limit is left out."""

    first: int
    end: int
    commits: Sequence[int]
    records: Sequence[int]

    def before(self, most: int) -> int:
        """The commit before which at most so many records lie, but at least one commit."""
        counted = 0
        for commit, count in zip(self.commits, self.records, strict=True):
            counted += count
            if counted > most and commit > self.first:
                return commit
        return self.end


def ends_of(backlogs: Mapping[int, Backlog], max_records: int) -> dict[int, int]:
    """The commit before which each shard is read, so that all together are at most so many records."""
    waiting = {shard: min(sum(backlog.records), max_records) for shard, backlog in backlogs.items()}
    together = max(sum(waiting.values()), max_records)
    return {shard: backlog.before(max_records * waiting[shard] // together) for shard, backlog in backlogs.items()}


def backlog_of(files: Storage, objects: Sequence[LogObject], chooser: Chooser, max_records: int) -> Backlog:
    """What waits in these objects, up to more than `max_records` records."""
    first, end = chooser.choice.first, chooser.choice.end
    commits: list[int] = []
    records: list[int] = []
    counted = 0
    for run in _runs(objects):
        found, counts = _records_of(files, [each.name for each in run], chooser)
        commits += found
        records += counts
        counted += sum(counts)
        if counted > max_records and commits[-1] > first:
            break
    return Backlog(first, end, commits, records)


def _runs(objects: Sequence[LogObject]) -> Iterator[list[LogObject]]:
    """Groups of objects, in order; objects that share commits are in one group."""
    run: list[LogObject] = []
    for found in sorted(objects, key=lambda each: each.first):
        if run and found.first >= max(each.end for each in run):
            yield run
            run = []
        run.append(found)
    if run:
        yield run


def _records_of(files: Storage, names: Sequence[str], chooser: Chooser) -> tuple[list[int], list[int]]:
    """The commits that hold chosen records, in order, and how many each holds."""
    commits, records = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for name in names:
        try:
            columns = read_columns(files, name)
        except Missing:  # merged since; the limit is soft, and the task finds its records
            continue
        places = chooser.batches(columns)
        commits.append(columns.commit[places])
        records.append(columns.records[places].astype(np.int64))
    distinct, place = np.unique(np.concatenate(commits), return_inverse=True)
    counts = np.bincount(place, weights=np.concatenate(records), minlength=len(distinct))
    return distinct.tolist(), counts.astype(np.int64).tolist()
