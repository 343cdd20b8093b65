"""When what is merged, and what a manifest says afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.storage import names
from fairlead.streamlog.merging.garbage import replaced_by
from fairlead.streamlog.merging.histories import Histories
from fairlead.streamlog.merging.job import ANSWER, JOB, MergeFailure, MergeJob, MergeResult
from fairlead.streamlog.merging.policy import FAN, MergeSettings, Now, new_manifest, plan, runs
from fairlead.streamlog.objects.manifest import (
    CheckpointEntry,
    CommitRange,
    Manifest,
    SegmentEntry,
    SegmentKind,
    SliceCount,
    first_manifest,
)
from fairlead.streamlog.values import LogObject

MB = 1_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SETTINGS = MergeSettings(commits_min=10, idle_ms=60_000, segment_bytes_max=64 * MB)
STREAM = b"s" * 16


class Commit(NamedTuple):
    commit: int
    appended_at: int
    size_bytes: int


def now(now_ms: int = 100 * DAY_MS, ttl_ms: int = 7 * DAY_MS, **changes: object) -> Now:
    found = Now(now_ms, ttl_ms, now_ms - ttl_ms if ttl_ms else None, STREAM, 0)
    return replace(found, **changes)  # type: ignore[arg-type]


def segment(
    first: int,
    end: int,
    kind: SegmentKind = "data",
    size: int = 1000,
    at: int = 100 * DAY_MS,
    span: int = 0,
    **changes: object,
) -> SegmentEntry:
    counts = tuple(SliceCount(1 if slice == 3 else 0, 10, 1) for slice in range(17))
    name = names.segment("meta", f"{kind:>7}{first:>9}".encode())
    made = SegmentEntry(name, kind, first, end, 5, size, at, at, 0, 0, -1, -1, counts)
    return replace(made, **changes)  # type: ignore[arg-type]


def manifest(*segments: SegmentEntry) -> Manifest:
    return replace(first_manifest("meta", 1, b"1" * 16), segments=segments)


def waiting(count: int, *, first: int = 0, at: int = 100 * DAY_MS, step: int = 0, size: int = 100) -> list[Commit]:
    return [Commit(first + n, at + n * step, size) for n in range(count)]


def test_few_young_commits_wait() -> None:
    """An idle stream is not rewritten all the time."""
    assert plan(manifest(), [], now(), SETTINGS) is None
    assert plan(manifest(), waiting(9), now(), SETTINGS) is None


def test_enough_commits_are_merged_with_a_checkpoint() -> None:
    """From the end of the last run on."""
    job = plan(manifest(segment(0, 5)), waiting(12, first=5), now(), SETTINGS)
    assert job is not None
    assert (job.first, job.end, job.at_begin, job.whole_run, job.make_checkpoint) == (5, 17, False, True, True)
    assert (job.inputs, job.commits) == ((), (CommitRange(1, 5, 17),))
    assert [item.end for item in job.replay] == [5]
    assert plan(manifest(), waiting(12), now(), SETTINGS).at_begin  # type: ignore[union-attr]


def test_few_commits_are_merged_once_they_have_waited() -> None:
    """So that a restart has little to replay."""
    job = plan(manifest(), waiting(2, at=99 * DAY_MS), now(), SETTINGS)
    assert job is not None
    assert job.end == 2


def test_large_commits_do_not_wait() -> None:
    """And a run is no larger than a segment may be."""
    job = plan(manifest(), waiting(9, size=10 * MB), now(), SETTINGS)
    assert job is not None
    assert job.end == 6


def test_a_run_spans_an_eighth_of_the_time_to_live_at_most() -> None:
    """So it expires as a whole, that much late at most."""
    commits = waiting(50, step=HOUR_MS)
    job = plan(manifest(), commits, now(), SETTINGS)
    assert job is not None
    assert commits[job.end - 1].appended_at - commits[0].appended_at <= 7 * DAY_MS / 8
    assert job.end == 22
    endless = plan(manifest(), commits, now(ttl_ms=0), SETTINGS)
    assert endless is not None
    assert (endless.end, endless.cut_off_ms) == (50, None)


def test_expired_data_is_dropped_without_being_rewritten() -> None:
    """Only it and the run's control rows are read; other data of the run stays."""
    old = 92 * DAY_MS
    found = manifest(
        segment(0, 5, "control"),
        segment(0, 5, at=old),
        segment(0, 5, at=99 * DAY_MS, name=names.segment("meta", b"x" * 16)),
    )
    job = plan(found, [], now(), SETTINGS)
    assert job is not None
    assert [item.name for item in job.inputs] == [found.segments[0].name, found.segments[1].name]
    assert (job.first, job.end, job.whole_run, job.make_checkpoint) == (0, 5, False, False)
    assert plan(found, [], now(cut_off_ms=None), SETTINGS) is None


def test_what_is_exempt_is_not_looked_at_again_and_again() -> None:
    """A segment that an expiry left holds only exempt topics."""
    left = segment(0, 5, at=50 * DAY_MS, expired_to=60 * DAY_MS)
    assert plan(manifest(left), [], now(compact=frozenset({3})), SETTINGS) is None
    assert plan(manifest(left), [], now(), SETTINGS) is not None


def test_deleted_topics_are_looked_for_where_they_may_be() -> None:
    """Once, ten minutes after the deletion, or at once if space is short."""
    data = segment(0, 5, cleaned_at=99 * DAY_MS)
    deleted_at = 100 * DAY_MS - 1000
    assert plan(manifest(data), [], now(deleted={3: deleted_at}), SETTINGS) is None
    assert plan(manifest(data), [], now(deleted={3: 98 * DAY_MS}), SETTINGS) is None
    assert plan(manifest(data), [], now(now_ms=101 * DAY_MS, deleted={4: deleted_at}), SETTINGS) is None
    later = plan(manifest(data), [], now(now_ms=101 * DAY_MS, deleted={3: deleted_at}), SETTINGS)
    urgent = plan(manifest(data), [], now(deleted={3: deleted_at}, urgent=True), SETTINGS)
    assert later is not None
    assert urgent is not None
    assert later.reclaim_share > urgent.reclaim_share > 0


def test_a_job_writes_no_more_than_the_room_that_is_left() -> None:
    """Its inputs stay for ten minutes: merging must not take the space that deletions are written to."""
    commits = waiting(10, size=MB)
    whole = plan(manifest(), commits, now(), SETTINGS)
    part = plan(manifest(), commits, now(room_bytes=4 * MB), SETTINGS)
    assert whole is not None
    assert part is not None
    assert (whole.end, part.end) == (10, 3)
    assert plan(manifest(), commits, now(room_bytes=MB), SETTINGS) is None
    assert plan(manifest(), commits, now(room_bytes=-MB), SETTINGS) is None
    data = segment(0, 5, size=8 * MB)
    deleted = {3: 100 * DAY_MS + 1}
    for room, planned in ((8 * MB, True), (8 * MB - 1, False)):
        job = plan(manifest(data), [], now(101 * DAY_MS, deleted=deleted, urgent=True, room_bytes=room), SETTINGS)
        assert (job is not None) is planned


def test_expiry_is_held_up_by_nothing() -> None:
    """It writes control rows alone where all expires, and it makes room."""
    job = plan(manifest(segment(0, 5, size=8 * MB)), [], now(200 * DAY_MS, urgent=True, room_bytes=0), SETTINGS)
    assert job is not None
    assert job.segment_bytes_max == SETTINGS.segment_bytes_max


def test_an_expiry_that_must_write_more_than_the_room_that_is_left_holds_up_nothing() -> None:
    """What never expires is written anew: then later runs have their turn. Nor does it count what goes."""
    old = 50 * DAY_MS
    exempt = segment(0, 5, size=8 * MB, at=old, slices=slices({3: 7 * MB, 4: MB}))
    other = segment(5, 9, at=old, slices=slices({4: 100}))
    reclaimed = segment(9, 12, size=1000)
    compact = frozenset({3})
    deleted = {3: 99 * DAY_MS}

    def first(room_bytes: int | None, *segments: SegmentEntry, **changes: Any) -> int | None:
        job = plan(manifest(*segments), [], now(room_bytes=room_bytes, compact=compact, **changes), SETTINGS)
        return None if job is None else job.first

    assert first(1, exempt, other) == 5
    assert first(1, exempt) is None
    assert first(1000, exempt, reclaimed, deleted=deleted, urgent=True) == 9
    assert first(None, exempt, other) == 0
    assert first(8 * MB, exempt, other) == 0
    assert first(7 * MB, exempt, other) == 5  # the rows' columns too
    kept = ((4, 0, 0, 20, 0),)
    assert first(1, other, kept=kept) is None


def slices(size_bytes: dict[int, int]) -> tuple[SliceCount, ...]:
    """Of each of these slices so many bytes, in rows of a thousand each."""
    return tuple(
        SliceCount(size // 1000 + 1, size, 1) if (size := size_bytes.get(n, 0)) else SliceCount(0, 0, 0)
        for n in range(17)
    )


def test_while_space_is_short_deleted_topics_come_first_and_nothing_is_joined() -> None:
    """Joining frees nothing and takes room for ten minutes."""
    small = [segment(n, n + 1) for n in range(FAN)]
    assert plan(manifest(*small), [], now(urgent=True), SETTINGS) is None
    short = now(101 * DAY_MS, deleted={3: 100 * DAY_MS + 1}, urgent=True)
    job = plan(manifest(*small), waiting(100, first=FAN), short, SETTINGS)
    assert job is not None
    assert job.first == 0


def test_eight_small_neighbours_become_one() -> None:
    """Seven wait."""
    small = [segment(n, n + 1, kind) for n in range(8) for kind in ("control", "data")]
    assert plan(manifest(*small[:-2]), [], now(), SETTINGS) is None
    job = plan(manifest(*small), [], now(), SETTINGS)
    assert job is not None
    assert (job.first, job.end, len(job.inputs)) == (0, 8, 16)


def test_runs_that_are_far_apart_in_time_stay_apart() -> None:
    """Control rows alone have no age that matters."""
    assert plan(manifest(*[segment(n, n + 1, at=(93 + n) * DAY_MS) for n in range(8)]), [], now(), SETTINGS) is None
    control = [segment(n, n + 1, "control", at=n * DAY_MS) for n in range(8)]
    assert plan(manifest(*control), [], now(), SETTINGS) is not None


@given(st.lists(st.integers(1, 70 * MB), max_size=40))
def test_merging_comes_to_rest(sizes: list[int]) -> None:
    """However large the runs are, there is an end, and no run is larger than a segment by merging."""
    found = manifest(*[segment(n, n + 1, size=size) for n, size in enumerate(sizes)])
    for _ in range(len(sizes) + 1):
        job = plan(found, [], now(), SETTINGS)
        if job is None:
            break
        size = sum(s.bytes for s in found.segments if job.first <= s.first < job.end)
        assert size <= SETTINGS.segment_bytes_max
        found = new_manifest(found, result(job, segment(job.first, job.end, size=size)))
    else:
        pytest.fail("merging goes on for ever")
    assert sum(run.bytes < SETTINGS.segment_bytes_max // FAN**2 for run in runs(found)) <= len(sizes)


def result(job: MergeJob, *added: SegmentEntry, checkpoint: CheckpointEntry | None = None) -> MergeResult:
    removed = tuple(item.name for item in job.inputs)
    return MergeResult(job.first, job.end, job.planned_at, added, removed, 0, None, checkpoint)


def test_a_manifest_names_what_was_made_and_no_more_its_inputs() -> None:
    """The old manifest, its checkpoint and the inputs are to be deleted."""
    before = replace(manifest(segment(0, 5)), checkpoint=CheckpointEntry(names.checkpoint("meta", b"a" * 16), 5))
    job = plan(before, waiting(12, first=5), now(), SETTINGS)
    assert job is not None
    entry = CheckpointEntry(names.checkpoint("meta", b"b" * 16), 17)
    answer = result(job, segment(5, 17), checkpoint=entry)
    after = new_manifest(before, answer)
    assert (after.k, after.merged_end, after.checkpoint) == (1, 17, entry)
    assert [s.first for s in after.segments] == [0, 5]
    assert before.checkpoint is not None
    commits = {names.commit("meta", 1, number) for number in range(5, 17)}
    gone = replaced_by(before, after, answer)
    assert set(gone.all("meta")) == {*answer.removed, *commits, before.name, before.checkpoint.name}


def test_a_result_for_another_manifest_is_refused() -> None:
    """Its inputs are no longer what stands for the run."""
    small = [segment(n, n + 1) for n in range(8)]
    job = plan(manifest(*small), [], now(), SETTINGS)
    assert job is not None
    answer = result(job, segment(0, 8))
    with pytest.raises(ValueError, match="older manifest"):
        new_manifest(new_manifest(manifest(*small), answer), answer)


def test_jobs_and_results_pass_the_pipe_unchanged() -> None:
    """A line each."""
    job = MergeJob(
        "meta",
        STREAM,
        0,
        9,
        (LogObject("a", 0, 9, segment=True),),
        5,
        at_begin=True,
        cut_off_ms=4,
        deleted=frozenset({1, 2}),
        compact=frozenset({3}),
        commits=(CommitRange(2, 3, 9),),
        histories=Histories.given({(1, 2): ((0, 0), (3, 4))}),
        links_passed=7,
        reclaim_share=0.5,
        checkpoint=CheckpointEntry("c", 3),
        replay=(LogObject("b", 0, 1, segment=False),),
        make_checkpoint=True,
        whole_run=True,
    )
    read = JOB.read(JOB.write(job))
    assert read == job
    assert [read.histories.of(key) for key in ((1, 1), (1, 2), (2, 1))] == [(), ((0, 0), (3, 4)), ()]
    result = MergeResult(0, 9, 5, (segment(0, 9),), ("a",), 3, "d", CheckpointEntry("c", 9), ("k",))
    failure = MergeFailure("damaged", "a", "broken")
    for answer in (result, failure):
        assert ANSWER.read(ANSWER.write(answer)) == answer
