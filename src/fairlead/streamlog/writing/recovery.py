"""Recovers a shard's state from its log: a checkpoint if there is a good one, then every later row in commit order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.model.errors import CorruptBatch, Damaged
from fairlead.storage.interface import Storage
from fairlead.streamlog.objects import checkpoint, format
from fairlead.streamlog.objects.manifest import Manifest
from fairlead.streamlog.reading import lasting
from fairlead.streamlog.reading.index import Tail, live_of
from fairlead.streamlog.rows import NO_OFFSET, Kind, Row
from fairlead.streamlog.state import effects, snapshot
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import PartitionKey

_OF_PARTITION = (Kind.BATCH, Kind.START, Kind.TRUNCATE)
"""Kinds of rows that say where their partition ended before them."""


class _Jump(NamedTuple):
    """The first row of a partition that does not follow the one before it."""

    end: int
    """Where the partition ended before the row, if it lacks what the row says came before; else `NO_OFFSET`."""
    damage: Damaged


_Jumps = dict[PartitionKey, _Jump]


def recover(
    storage: Storage, manifest: Manifest, stream_id: bytes, tail: Tail, damages: list[Damaged]
) -> tuple[ShardState, int]:
    """The state after the last commit that counts, and the number of the next; fills the tail.

    Segments and commits that cannot be read are passed over, and added to `damages`: the state is then what the others
    say, for reading them and for nothing else.

    Raises:
        Damaged: it cannot be said what counts.
        StorageUnavailable
    """
    state, from_commit = _from_checkpoint(storage, manifest, stream_id)
    end = manifest.epochs[-1].first
    merged_end = manifest.merged_end
    jumps: _Jumps = {}
    merged = [item for item in manifest.objects(from_commit, end) if item.segment]
    try:
        lasting.replay_segments(storage, state, merged, from_commit, damages.append)
    except CorruptBatch as error:
        raise Damaged(manifest.prefix, str(error)) from error
    for commit in range(merged_end, end):
        name = manifest.commit_name(commit)
        try:
            rows = _rows(storage, name, manifest.epoch_id(commit))
        except Damaged as error:
            damages.append(error)
            continue
        if commit >= from_commit:
            _replay(state, rows, name, {} if damages else jumps)
        tail.add(live_of(rows))
    damages += [jump.damage for (number, _), jump in jumps.items() if state.topic(number) is not None]
    return state, end


def _rows(storage: Storage, name: str, epoch_id: bytes) -> Sequence[Row]:
    written_in, rows = format.read_rows(storage.get(name), name)
    if written_in != epoch_id:
        raise Damaged(name, "was written in another epoch of this number: it is of a copy of the log")
    return rows


def _from_checkpoint(storage: Storage, manifest: Manifest, stream_id: bytes) -> tuple[ShardState, int]:
    """The state, and the commit it stands before; an empty state if the checkpoint, a mere shortcut, is lost or
    damaged."""
    entry = manifest.checkpoint
    if entry is not None:
        try:
            tables, meta = checkpoint.read(storage.get(entry.name), entry.name, entry.commit)
            return snapshot.load(stream_id, tables, meta), entry.commit
        except (Damaged, ValueError, KeyError):
            pass
    return ShardState(stream_id), manifest.begin


def _replay(state: ShardState, rows: Sequence[Row], name: str, jumps: _Jumps) -> None:
    """`jumps` takes in the first row of each partition that does not follow the one before it, or is of a partition
    that its topic does not have. That is damage unless a later row deletes the topic, or cuts the partition where it
    ended or below: a merge may have dropped the rows in between already, and not the one that made the topic."""
    for row in rows:
        key = row.topic, row.partition
        if key not in jumps and (jump := _jump(state, row, name)):
            jumps[key] = jump
        if key in jumps and _explains(row, jumps[key]):
            del jumps[key]
        try:
            effects.replay(state, row)
        except effects.LacksPartition as error:
            jumps.setdefault(key, _Jump(NO_OFFSET, Damaged(name, str(error))))
        except CorruptBatch as error:
            raise Damaged(name, str(error)) from error


def _jump(state: ShardState, row: Row, name: str) -> _Jump | None:
    """How a row does not follow the one before it in its partition; None if it does."""
    if row.kind not in _OF_PARTITION or state.topic_table.slot_of(row.topic, row.partition) < 0:
        return None
    end = state.partition(row.topic, row.partition).end
    if row.previous_end == end:
        return None
    where = f"topic number {row.topic}, partition {row.partition}"
    why = f"{where} ends at offset {end:,} before row {row.row}, which says {row.previous_end:,}"
    return _Jump(NO_OFFSET if end > row.previous_end else end, Damaged(name, why))


def _explains(row: Row, jump: _Jump) -> bool:
    """Whether the row is a cut that made dead all that may be missing before the jump."""
    return row.kind == Kind.TRUNCATE and NO_OFFSET < row.base_offset <= jump.end
