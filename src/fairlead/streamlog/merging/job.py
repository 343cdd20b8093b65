"""What the writer asks of the merger and what it answers, as values and as JSON for the merger's pipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.streamlog.objects.manifest import (
    CheckpointEntry,
    CommitRange,
    SegmentEntry,
    segment_from_json,
    segment_to_json,
)
from fairlead.streamlog.payloads import History
from fairlead.streamlog.rows import LOCAL_KINDS, Row
from fairlead.streamlog.values import LogObject

TOMBSTONE_MS: Final = 30 * 86_400_000
SEGMENT_BYTES_MAX: Final = 256_000_000


@dataclass(frozen=True, slots=True)
class MergeJob:
    """Make the run [first, end) anew out of `inputs`; whatever else a manifest names of the run stays."""

    prefix: str
    stream_id: bytes
    first: int
    end: int
    inputs: tuple[LogObject, ...]
    """Segments."""
    planned_at: int
    """`appended_at` of now, milliseconds."""
    commits: tuple[CommitRange, ...] = ()
    """Inputs too, behind the segments."""
    at_begin: bool = False
    """The run is the log's first, so nothing lies before it that a deletion must still undo."""
    cut_off_ms: int | None = None
    """Record batches appended before this are dropped."""
    deleted: frozenset[int] = frozenset()
    """Topic numbers of deleted incarnations: their rows are dropped."""
    compact: frozenset[int] = frozenset()
    """Topic numbers that never expire."""
    whole_run: bool = False
    """`inputs` are all that stands for the run, so something must be left in its place, if only an empty segment."""
    histories: Mapping[tuple[int, int], History] = field(default_factory=dict)
    """Epoch history by (topic number, partition), where it is another than epoch 0 from offset 0 on."""
    tombstone_ms: int = TOMBSTONE_MS
    links_passed: int = 0
    """Every link has sent all commits below this one."""
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    reclaim_share: float = 0.0
    """An input is left as it is if less than this part of its bytes belongs to deleted topics. 0: all are rewritten."""
    checkpoint: CheckpointEntry | None = None
    replay: tuple[LogObject, ...] = ()
    """What lies before `first`: the new checkpoint needs what is not in the old one, or all if that is damaged."""
    make_checkpoint: bool = False
    """A checkpoint of the state at `end` is wanted."""

    def forgets(self, row: Row) -> bool:
        """Whether a deletion may be dropped: nothing lies before it, and all who must know of it do."""
        if not self.at_begin:
            return False
        if row.kind in LOCAL_KINDS:
            return True
        return row.appended_at < self.planned_at - self.tombstone_ms and row.commit < self.links_passed


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What was made. Nothing of it is read before a manifest names it."""

    first: int
    end: int
    planned_at: int
    added: tuple[SegmentEntry, ...]
    removed: tuple[str, ...]
    """Segments that `added` stands for beside all commits of the job; to be deleted ten minutes after the manifest."""
    starts: int
    """So many `start` rows were made; they are in `control`."""
    control: str | None
    """Name of the new segment of control rows."""
    checkpoint: CheckpointEntry | None = None
    """A new one; None: the old one still holds."""
    kept: tuple[str, ...] = ()
    """Segments that were looked at for deleted topics and are left as they are."""


def job_to_json(job: MergeJob) -> dict[str, Any]:
    """The job as JSON."""
    return {
        "prefix": job.prefix,
        "stream_id": job.stream_id.hex(),
        "run": [job.first, job.end],
        "inputs": [_object(item) for item in job.inputs],
        "commits": [list(commits) for commits in job.commits],
        "planned_at": job.planned_at,
        "at_begin": job.at_begin,
        "cut_off_ms": job.cut_off_ms,
        "deleted": sorted(job.deleted),
        "compact": sorted(job.compact),
        "whole_run": job.whole_run,
        "histories": [[*key, history] for key, history in job.histories.items()],
        "tombstone_ms": job.tombstone_ms,
        "links_passed": job.links_passed,
        "segment_bytes_max": job.segment_bytes_max,
        "reclaim_share": job.reclaim_share,
        "checkpoint": _checkpoint(job.checkpoint),
        "replay": [_object(item) for item in job.replay],
        "make_checkpoint": job.make_checkpoint,
    }


def job_from_json(fields: Mapping[str, Any]) -> MergeJob:
    """The reverse. Raises: KeyError, ValueError, TypeError."""
    histories = {
        (number, partition): tuple((epoch, first) for epoch, first in history)
        for number, partition, history in fields["histories"]
    }
    return MergeJob(
        prefix=fields["prefix"],
        stream_id=bytes.fromhex(fields["stream_id"]),
        first=fields["run"][0],
        end=fields["run"][1],
        inputs=tuple(LogObject(*item) for item in fields["inputs"]),
        planned_at=fields["planned_at"],
        commits=tuple(CommitRange(*commits) for commits in fields["commits"]),
        at_begin=fields["at_begin"],
        cut_off_ms=fields["cut_off_ms"],
        deleted=frozenset(fields["deleted"]),
        compact=frozenset(fields["compact"]),
        whole_run=fields["whole_run"],
        histories=histories,
        tombstone_ms=fields["tombstone_ms"],
        links_passed=fields["links_passed"],
        segment_bytes_max=fields["segment_bytes_max"],
        reclaim_share=fields["reclaim_share"],
        checkpoint=_checkpoint_from(fields["checkpoint"]),
        replay=tuple(LogObject(*item) for item in fields["replay"]),
        make_checkpoint=fields["make_checkpoint"],
    )


def result_to_json(result: MergeResult) -> dict[str, Any]:
    """The result as JSON."""
    return {
        "run": [result.first, result.end],
        "planned_at": result.planned_at,
        "added": [segment_to_json(segment) for segment in result.added],
        "removed": list(result.removed),
        "starts": result.starts,
        "control": result.control,
        "checkpoint": _checkpoint(result.checkpoint),
        "kept": list(result.kept),
    }


def result_from_json(fields: Mapping[str, Any]) -> MergeResult:
    """The reverse. Raises: KeyError, ValueError, TypeError."""
    return MergeResult(
        first=fields["run"][0],
        end=fields["run"][1],
        planned_at=fields["planned_at"],
        added=tuple(segment_from_json(segment) for segment in fields["added"]),
        removed=tuple(fields["removed"]),
        starts=fields["starts"],
        control=fields["control"],
        checkpoint=_checkpoint_from(fields["checkpoint"]),
        kept=tuple(fields["kept"]),
    )


def _object(item: LogObject) -> list[Any]:
    return [item.name, item.first, item.end, item.segment]


def _checkpoint(entry: CheckpointEntry | None) -> list[Any] | None:
    return None if entry is None else [entry.name, entry.commit]


def _checkpoint_from(fields: list[Any] | None) -> CheckpointEntry | None:
    return None if fields is None else CheckpointEntry(fields[0], fields[1])
