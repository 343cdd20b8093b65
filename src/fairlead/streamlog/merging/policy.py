"""When to merge what, and what a manifest says afterwards; pure.

The order is: runs whose data has expired, segments that are mostly so, commits that wait, runs with deleted topics,
small neighbouring runs. Runs
grow by factors of 8, so that a row is rewritten about three times on its way to the largest segment. The `appended_at`
of a run's data spans at most an eighth of the time-to-live: the run expires as a whole, at most that much late.

While space is short, deleted topics come before commits, and runs are not joined. A job's inputs stay for a grace after
it, so no job may write more than the room that is left. Expiry mostly writes only control rows, which are not counted,
but what is exempt is written anew: a run for which there is no room is passed over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from fairlead.storage import names
from fairlead.streamlog.merging.job import ROW_BYTES, SEGMENT_BYTES_MAX, TOMBSTONE_MS, MergeJob, MergeResult
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects.manifest import Manifest, SegmentEntry, order
from fairlead.streamlog.values import DeadFrom, LogObject

FAN: Final = 8
"""Fewer neighbouring runs of about one size than this are not joined; see above."""
SPAN_PARTS: Final = 8
"""The data of a run spans at most this fraction (an eighth) of the time-to-live; see above."""
RECLAIM_SHARE: Final = 0.25
"""A segment is rewritten for its deleted topics once they have this part of its bytes."""
RECLAIM_WAIT_MS: Final = 600_000
"""Deleted topics are dropped no sooner than this after their deletion, unless space is short."""
COMMIT_BYTES: Final = 4096
"""What a commit takes on disk besides its batches."""


class Waiting(Protocol):
    """A commit that waits for merging; `index.CommitStats` is one."""

    @property
    def commit(self) -> int: ...
    @property
    def appended_at(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """When merging starts, and how large segments become."""

    commits_min: int = 500
    idle_ms: int = 600_000
    """Fewer commits are merged when the oldest has waited this long."""
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    tombstone_ms: int = TOMBSTONE_MS


@dataclass(frozen=True, slots=True)
class Now:
    """What the writer knows when it asks for a job."""

    now_ms: int
    """`appended_at` of now."""
    ttl_ms: int
    """Life of a record; 0: for ever."""
    cut_off_ms: int | None
    """From the expiry guard; None: nothing expires now."""
    stream_id: bytes
    links_passed: int
    """Every link has sent the commits below this one; the end of the log if there is no link."""
    deleted: Mapping[int, int] = field(default_factory=dict)
    """Topic number → when it was deleted (`appended_at`), of all tombstones known."""
    compact: frozenset[int] = frozenset()
    exempt_less_at: int = 0
    """When topics were last seen to be in `compact` no more, or dead batches to be kept no more, or when the log was
    opened, since that may have been so before: what was spared for them before this may go."""
    kept: tuple[DeadFrom, ...] = ()
    """The cuts whose dead batches are not copied yet."""
    half_dead: frozenset[str] = frozenset()
    """Segments of which more than half are such batches."""
    urgent: bool = False
    """Space is short: deleted topics are dropped at once, whatever their share, before commits are merged."""
    producers_before_ms: int | None = None
    """Producers that were silent since are forgotten."""
    room_bytes: int | None = None
    """The most that a job may write, since its inputs are deleted only after a grace; None: no limit."""
    make_checkpoint: bool = True
    """If commits are merged, make a checkpoint too."""


class CommitRun(NamedTuple):
    """The segments that stand together for commits [first, end)."""

    first: int
    end: int
    segments: tuple[SegmentEntry, ...]

    @property
    def bytes(self) -> int:
        """Length of all its objects."""
        return sum(segment.bytes for segment in self.segments)

    def times(self) -> list[int]:
        """Oldest and newest `appended_at` of its record batches; empty if it has none."""
        data = [segment for segment in self.segments if segment.kind == "data"]
        return [min(s.oldest_at for s in data), max(s.newest_at for s in data)] if data else []


def runs(manifest: Manifest) -> list[CommitRun]:
    """The runs of a manifest in order."""
    grouped = itertools.groupby(manifest.segments, lambda s: (s.first, s.end))
    return [CommitRun(first, end, tuple(segments)) for (first, end), segments in grouped]


def plan(manifest: Manifest, waiting: Sequence[Waiting], now: Now, settings: MergeSettings) -> MergeJob | None:
    """The next job; None if nothing is worth it. `waiting` are the announced commits from `merged_end` on. What the
    merger must know of the state beyond this, the caller tells it."""
    found = runs(manifest)
    expiry = _expiry(manifest, found, now, settings) or _half_dead(manifest, found, now, settings)
    if expiry is not None:
        return expiry
    settings = _within(settings, now)
    if now.urgent:
        return _reclaim(manifest, found, now, settings) or _commits(manifest, waiting, now, settings)
    return (
        _commits(manifest, waiting, now, settings)
        or _reclaim(manifest, found, now, settings)
        or _tier(manifest, found, now, settings)
    )


def _within(settings: MergeSettings, now: Now) -> MergeSettings:
    """The settings with segments no larger than what a job may write."""
    if now.room_bytes is None or now.room_bytes >= settings.segment_bytes_max:
        return settings
    return replace(settings, segment_bytes_max=max(now.room_bytes, 0))


def _job(
    manifest: Manifest, first: int, end: int, inputs: Iterable[LogObject], now: Now, settings: MergeSettings
) -> MergeJob:
    return MergeJob(
        prefix=manifest.prefix,
        stream_id=now.stream_id,
        first=first,
        end=end,
        inputs=tuple(inputs),
        planned_at=now.now_ms,
        at_begin=first == manifest.begin,
        cut_off_ms=now.cut_off_ms,
        producers_before_ms=now.producers_before_ms,
        deleted=frozenset(now.deleted),
        compact=now.compact,
        kept=tuple(cut for cut in now.kept if cut[3] >= first),
        tombstone_ms=settings.tombstone_ms,
        links_passed=now.links_passed,
        segment_bytes_max=settings.segment_bytes_max,
        checkpoint=manifest.checkpoint,
    )


def _expiry(manifest: Manifest, found: Sequence[CommitRun], now: Now, settings: MergeSettings) -> MergeJob | None:
    """A job for the first run with data that has expired as a whole."""
    if now.cut_off_ms is None:
        return None
    for run in found:
        expired = [s for s in run.segments if s.kind == "data" and s.newest_at < now.cut_off_ms and _may_expire(s, now)]
        if expired and _has_room(expired, now):
            job = _dropping(expired, run, manifest, now, settings)
            return replace(job, only_losing=all(map(_was_spared, expired)))
    return None


def _half_dead(manifest: Manifest, found: Sequence[CommitRun], now: Now, settings: MergeSettings) -> MergeJob | None:
    """A job for the first run with segments that are mostly expired by topics' own settings. It writes less than half
    of what it reads."""
    for run in found:
        dead = [s for s in run.segments if s.name in now.half_dead]
        if dead and (now.room_bytes is None or sum(s.bytes for s in dead) // 2 <= now.room_bytes):
            return _dropping(dead, run, manifest, now, settings)
    return None


def _dropping(
    data: Sequence[SegmentEntry], run: CommitRun, manifest: Manifest, now: Now, settings: MergeSettings
) -> MergeJob:
    """A job for some of a run's data and the control rows, nothing else."""
    control = [segment for segment in run.segments if segment.kind == "control"]
    job = _job(manifest, run.first, run.end, (s.object for s in (*control, *data)), now, settings)
    return replace(job, whole_run=len(job.inputs) == len(run.segments))


def _may_expire(segment: SegmentEntry, now: Now) -> bool:
    """False for a segment of exempt topics and kept batches only, which an earlier expiry left."""
    spared = _was_spared(segment) and segment.cleaned_at >= now.exempt_less_at
    return not (now.compact or now.kept) or not spared


def _has_room(data: Sequence[SegmentEntry], now: Now) -> bool:
    """Whether there is room for what an expiry of these segments leaves: rows of the exempt topics' slices at most."""
    exempt = {slice_of_number(number) for number in (*now.compact, *(cut[0] for cut in now.kept))}
    counts = [segment.slices[slice] for segment in data for slice in exempt]
    size = sum(count.bytes + count.rows * ROW_BYTES for count in counts)
    return not size or now.room_bytes is None or size <= now.room_bytes


def _was_spared(segment: SegmentEntry) -> bool:
    return segment.newest_at < segment.expired_to


def _commits(manifest: Manifest, waiting: Sequence[Waiting], now: Now, settings: MergeSettings) -> MergeJob | None:
    start = manifest.merged_end
    ready = [commit for commit in waiting if commit.commit >= start]
    if not ready:
        return None
    taken, size = _take(ready, now, settings)
    if not taken:
        return None
    enough = len(taken) < len(ready) or len(taken) >= settings.commits_min or 4 * size >= settings.segment_bytes_max
    if not enough and now.now_ms - ready[0].appended_at < settings.idle_ms:
        return None
    end = taken[-1].commit + 1
    job = _job(manifest, start, end, (), now, settings)
    job = replace(job, commits=manifest.commit_ranges(start, end), whole_run=True)
    known = manifest.checkpoint
    # A checkpoint of a clean stop may stand at a later commit: an earlier state cannot be made from it.
    if not now.make_checkpoint or (known is not None and known.commit > end):
        return job
    return replace(job, make_checkpoint=True, replay=tuple(manifest.objects(manifest.begin, start)))


def _take(ready: Sequence[Waiting], now: Now, settings: MergeSettings) -> tuple[list[Waiting], int]:
    """The first commits that fit one run by size and time."""
    taken: list[Waiting] = []
    size = 0
    for commit in ready:
        more = commit.size_bytes + COMMIT_BYTES
        if taken and (
            size + more > settings.segment_bytes_max or _too_long(commit.appended_at - taken[0].appended_at, now)
        ):
            break
        taken.append(commit)
        size += more
    if now.room_bytes is not None and size > now.room_bytes:
        return [], 0
    return taken, size


def _too_long(span_ms: int, now: Now) -> bool:
    return now.ttl_ms > 0 and span_ms * SPAN_PARTS > now.ttl_ms


def _reclaim(manifest: Manifest, found: Sequence[CommitRun], now: Now, settings: MergeSettings) -> MergeJob | None:
    """A job for the first run that may hold rows of a topic deleted since the run was last looked at."""
    if not now.deleted:
        return None
    before = now.now_ms - (1 if now.urgent else RECLAIM_WAIT_MS)
    newest: dict[int, int] = {}
    for number, at in now.deleted.items():
        if at <= before:
            slice = slice_of_number(number)
            newest[slice] = max(at, newest.get(slice, at))
    for run in found:
        touched = [s for s in run.segments if _touched(s, newest)]
        if touched and (now.room_bytes is None or run.bytes <= now.room_bytes):
            job = _job(manifest, run.first, run.end, (s.object for s in run.segments), now, settings)
            return replace(job, whole_run=True, reclaim_share=1e-9 if now.urgent else RECLAIM_SHARE)
    return None


def _touched(segment: SegmentEntry, newest: Mapping[int, int]) -> bool:
    return segment.kind == "data" and any(
        segment.cleaned_at < at and segment.slices[slice].rows for slice, at in newest.items()
    )


def _tier(manifest: Manifest, found: Sequence[CommitRun], now: Now, settings: MergeSettings) -> MergeJob | None:
    """A job that joins eight neighbours or more of about one size that fit one run."""
    unit = settings.segment_bytes_max // FAN**2
    for level in range(3):
        largest = unit * FAN**level
        for together in _neighbours(found, largest, now, settings):
            if len(together) >= FAN:
                inputs = [segment.object for run in together for segment in run.segments]
                job = _job(manifest, together[0].first, together[-1].end, inputs, now, settings)
                return replace(job, whole_run=True)
    return None


def _neighbours(
    found: Sequence[CommitRun], largest: int, now: Now, settings: MergeSettings
) -> Iterable[list[CommitRun]]:
    """Stretches of neighbouring runs, none larger than `largest`, that together fit one run by size and time."""
    group: list[CommitRun] = []
    for run in found:
        if run.bytes > largest or not _fits([*group, run], now, settings):
            if group:
                yield group
            group = []
        if run.bytes <= largest:
            group.append(run)
    if group:
        yield group


def _fits(group: Sequence[CommitRun], now: Now, settings: MergeSettings) -> bool:
    times = [time for run in group for time in run.times()]
    if len(group) > 1 and sum(run.bytes for run in group) > settings.segment_bytes_max:
        return False
    return not times or not _too_long(max(times) - min(times), now)


def new_manifest(manifest: Manifest, result: MergeResult) -> Manifest:
    """The manifest that follows once the result is installed.

    Raises:
        ValueError: the manifest has changed in the result's run since the job was planned.
    """
    mine = [s for s in manifest.segments if s.first >= result.first and s.end <= result.end]
    known = {s.name for s in mine}
    removed = set(result.removed)
    if not {name for name in removed if names.is_segment(name)} <= known:
        raise ValueError(f"the result for commits [{result.first}, {result.end}) is of an older manifest")
    looked_at = set(result.kept)
    kept = [replace(s, cleaned_at=result.planned_at - 1) if s.name in looked_at else s for s in mine]
    kept = [segment for segment in kept if segment.name not in removed]
    others = [s for s in manifest.segments if s.name not in known]
    return replace(
        manifest,
        k=manifest.k + 1,
        segments=order([*others, *kept, *result.added]),
        checkpoint=result.checkpoint or manifest.checkpoint,
    )
