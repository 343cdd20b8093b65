"""What the writer asks of the merger and what it answers, as values and as JSON for the merger's pipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from fairlead.model.errors import Damaged, FairleadError, Missing, StorageFull, StorageUnavailable
from fairlead.model.strict_json import AsText, JsonForm, Words
from fairlead.streamlog.merging.histories import NO_HISTORIES, Histories
from fairlead.streamlog.objects.manifest import CheckpointEntry, CommitRange, SegmentEntry
from fairlead.streamlog.rows import LOCAL_KINDS, Row
from fairlead.streamlog.values import DeadFrom, LogObject

TOMBSTONE_MS: Final = 30 * 86_400_000
"""Merging keeps a tombstone at least this long; see `docs/formats/stream-log.md`."""
SEGMENT_BYTES_MAX: Final = 256_000_000
"""Largest segment, unless a single row is larger; the disk's reserve leaves room for one."""
ROW_BYTES: Final = 110
"""What a row costs in a segment besides its batch, rounded up."""


@dataclass(frozen=True, slots=True)
class MergeJob:
    """Make the run [first, end) anew out of `inputs`; other objects that a manifest names for the run stay."""

    prefix: str
    stream_id: bytes
    first: int
    end: int
    inputs: tuple[LogObject, ...]
    """Segments."""
    planned_at: int
    """`appended_at` of now, milliseconds."""
    commits: tuple[CommitRange, ...] = ()
    """More inputs, which come after the segments."""
    at_begin: bool = False
    """The run is the log's first, so nothing lies before it that a deletion must still undo."""
    cut_off_ms: int | None = None
    """Record batches appended before this are dropped."""
    producers_before_ms: int | None = None
    """Producers that appended nothing since are left out of a checkpoint."""
    deleted: frozenset[int] = frozenset()
    """Topic numbers of deleted incarnations: their rows are dropped."""
    compact: frozenset[int] = frozenset()
    """Topic numbers that never expire."""
    whole_run: bool = False
    """`inputs` are all that stands for the run, so its place must be filled, if only by an empty segment."""
    histories: Annotated[Histories, AsText(Histories.read, Histories.text)] = field(default=NO_HISTORIES, compare=False)
    """Of the partitions of which records may go."""
    deleted_to: tuple[tuple[int, int, int], ...] = ()
    """(topic number, partition, offset below which its owner has deleted all records): whole batches are dropped."""
    deleted_before: tuple[tuple[int, int, int, int], ...] = ()
    """(topic number, partition, epoch of its owner, offset below which the owners before had deleted): of those in
    `deleted_to` whose owner has changed."""
    expired_below: tuple[tuple[int, int, int], ...] = ()
    """(topic number, partition, offset): batches below it have expired by their topic's own settings, and go."""
    cuts: tuple[DeadFrom, ...] = ()
    """What is dead: neither expired nor turned into START rows, but dropped."""
    kept: tuple[DeadFrom, ...] = ()
    """Those of the cuts whose dead batches stay, since they are not copied yet."""
    tombstone_ms: int = TOMBSTONE_MS
    links_passed: int = 0
    """Every link has sent all commits below this one."""
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    reclaim_share: float = 0.0
    """An input is left as it is if less than this part of its bytes belongs to deleted topics. 0: all are rewritten."""
    only_losing: bool = False
    """Inputs with record batches that all stay are left as they are; if all do, so is the run."""
    checkpoint: CheckpointEntry | None = None
    replay: tuple[LogObject, ...] = ()
    """Objects before `first`: the new checkpoint needs the rows that the old one lacks, or all if that is damaged."""
    make_checkpoint: bool = False
    """A checkpoint of the state at `end` is wanted."""

    def forgets(self, row: Row) -> bool:
        """Whether a deletion may be dropped: nothing lies before it, and all who must know of it do.

        A checkpoint that goes on ruling must know too: what it holds would come back once the log no longer deletes it.
        """
        if not self.at_begin or not self._checkpoint_knows(row):
            return False
        if row.kind in LOCAL_KINDS:
            return True
        return row.appended_at < self.planned_at - self.tombstone_ms and row.commit < self.links_passed

    def _checkpoint_knows(self, row: Row) -> bool:
        return self.make_checkpoint or self.checkpoint is None or row.commit < self.checkpoint.commit


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What was made. Nothing of it is read before a manifest names it."""

    first: int
    end: int
    planned_at: int
    added: tuple[SegmentEntry, ...]
    removed: tuple[str, ...]
    """Segments that `added` replaces, as it does all commits of the job; deleted ten minutes after the manifest."""
    starts: int
    """How many `start` rows were made; they are in `control`."""
    control: str | None
    """Name of the new segment of control rows."""
    checkpoint: CheckpointEntry | None = None
    """A new one; None: the old one still holds."""
    kept: tuple[str, ...] = ()
    """Segments that were searched for what goes, and are left as they are."""


@dataclass(frozen=True, slots=True)
class MergeFailure:
    """Why nothing was made."""

    kind: str
    """`missing`, `damaged`, `full` or `unavailable`."""
    name: str = ""
    """Name of the object."""
    why: Words = ""
    free_bytes: int = 0
    reserve_bytes: int = 0

    @staticmethod
    def of(error: FairleadError) -> MergeFailure:
        """The failure to report for an error."""
        if isinstance(error, Missing):
            return MergeFailure("missing", error.name)
        if isinstance(error, Damaged):
            return MergeFailure("damaged", error.name, error.why)
        if isinstance(error, StorageFull):
            return MergeFailure("full", free_bytes=error.free_bytes, reserve_bytes=error.reserve_bytes)
        return MergeFailure("unavailable", why=str(error))

    def error(self) -> FairleadError:
        """The error that this failure reports."""
        if self.kind == "missing":
            return Missing(self.name)
        if self.kind == "damaged":
            return Damaged(self.name, self.why)
        if self.kind == "full":
            return StorageFull("merging", self.free_bytes, self.reserve_bytes)
        return StorageUnavailable(self.why)


JOB: Final = JsonForm(MergeJob)
"""A job's line on the merger's pipe; `ANSWER` is the line that comes back."""
ANSWER: Final[JsonForm[MergeResult | MergeFailure]] = JsonForm(MergeResult | MergeFailure)  # type: ignore[arg-type]
