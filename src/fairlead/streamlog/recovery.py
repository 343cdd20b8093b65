"""The state of a shard from its log: a checkpoint if there is a good one, then every later row in commit order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from fairlead.model.errors import CorruptBatch, Damaged
from fairlead.protocol.batch import HEADER_BYTES
from fairlead.storage.interface import Storage
from fairlead.streamlog import effects, format
from fairlead.streamlog.format import Columns
from fairlead.streamlog.index import Tail
from fairlead.streamlog.manifest import Manifest, SegmentEntry
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state import ShardState


def replay_segments(storage: Storage, manifest: Manifest, state: ShardState, from_commit: int) -> None:
    """Replay the rows of all segments with commits from `from_commit` on.

    Raises:
        Damaged: a segment cannot be read.
    """
    for _, group in groupby(manifest.segments, key=lambda segment: (segment.first, segment.end)):
        segments = list(group)
        if segments[0].end > from_commit:
            replay_run(storage, segments, state, from_commit)


def replay_run(storage: Storage, segments: Sequence[SegmentEntry], state: ShardState, from_commit: int) -> None:
    """Replay the segments that stand together for one run of commits. Raises: Damaged."""
    parts = [_headers_only(storage, segment.name) for segment in segments]
    columns = format.join([part for part, _ in parts])
    batches = [batch for _, batch_list in parts for batch in batch_list]
    order = np.lexsort((columns.row, columns.commit))
    for place in order[columns.commit[order] >= from_commit].tolist():
        row = next(columns.take(np.array([place])).rows())
        _replay(state, row._replace(batch=batches[place]), segments[0].name)


def _headers_only(storage: Storage, name: str) -> tuple[Columns, list[bytes]]:
    """The columns of a segment with the payloads of its control rows and the headers of its batches."""
    columns = format.read_whole(storage.get(name), name)
    return columns, [bytes(r.batch[:HEADER_BYTES] if r.kind == Kind.BATCH else r.batch) for r in columns.rows()]


def replay_commits(storage: Storage, manifest: Manifest, state: ShardState, tail: Tail, from_commit: int) -> int:
    """Replay the commits that are not merged and put them into the tail; the end of the log.

    Raises:
        Damaged: a commit that counts cannot be read.
    """
    end = manifest.epochs[-1].first
    for commit in range(manifest.merged_end, end):
        name = manifest.commit_name(commit)
        rows = list(read_commit(storage, name))
        if commit >= from_commit:
            for row in rows:
                _replay(state, row, name)
        tail.add(commit, rows, cache=False)
    return end


def read_commit(storage: Storage, name: str) -> Iterator[Row]:
    """The rows of one commit. Raises: Damaged."""
    return format.read_whole(storage.get(name), name).rows()


def _replay(state: ShardState, row: Row, name: str) -> None:
    try:
        effects.replay(state, row)
    except CorruptBatch as error:
        raise Damaged(name, str(error)) from error
