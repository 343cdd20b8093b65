"""Commands that touch many topics, as the cluster's own log keeps them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from tests.cluster.opening import Open

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import (
    BATCH,
    CANCELLED,
    DONE,
    ENDED_KEPT,
    FAILED,
    REFUSALS_SHOWN,
    RUNNING_MAX,
    BatchOutcome,
    JobRecord,
    Refusal,
    _put_lists,
)
from fairlead.cluster.keys import WORKLIST
from fairlead.model.errors import Busy, NotFound
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.sealed import Announcement

NAMES = [f"container-{number:05}" for number in range(2 * BATCH + 1)]


def job_of(cluster: Cluster, total: int = len(NAMES)) -> JobRecord:
    stream = cluster.streams()[0]
    options = {"to": "/mapr/newyork/ships"}
    return JobRecord(cluster.randomness.id16(), "transfer", stream.id, stream.path, options, total, 1)


def lists(cluster: Cluster) -> int:
    return sum(key.startswith(WORKLIST) for key in cluster.meta.state.entries)


async def test_a_job_hands_its_topics_out_in_batches_and_a_restart_changes_nothing(open_cluster: Open) -> None:
    """What had its turn is noted with each batch, so a server that is killed goes on where it was."""
    cluster = await open_cluster("sf")
    job = job_of(cluster)
    await cluster.jobs.add(job, NAMES)
    assert list(cluster.jobs.topics(job)) == NAMES[:BATCH]
    refused = Refusal(NAMES[3], "set aside")
    job = await cluster.jobs.note(job.id, BATCH, BatchOutcome(BATCH - 1, [refused]))
    again = await open_cluster("sf")
    assert again.jobs.get(job.id) == job
    assert (job.done, job.changed, job.refused, job.refusals) == (BATCH, BATCH - 1, 1, (refused,))
    assert list(again.jobs.topics(job)) == NAMES[BATCH : 2 * BATCH]


async def test_a_job_that_has_ended_leaves_no_list(open_cluster: Open) -> None:
    """Fifty thousand names are not kept for a command that is over; however it ended, it does not go on."""
    cluster = await open_cluster("sf")
    done, cancelled, failed = (job_of(cluster) for _ in range(3))
    for job in (done, cancelled, failed):
        await cluster.jobs.add(job, NAMES)
    assert lists(cluster) == 9
    for count in (BATCH, BATCH, 1):
        done = await cluster.jobs.note(done.id, count, BatchOutcome(count))
    cancelled = await cluster.jobs.end(cancelled.id, CANCELLED)
    failed = await cluster.jobs.end(failed.id, FAILED, "the stream was deleted")
    assert [job.state for job in (done, cancelled, failed)] == [DONE, CANCELLED, FAILED]
    assert failed.error == "the stream was deleted"
    assert all(job.ended_at for job in (done, cancelled, failed))
    assert lists(cluster) == 0
    assert not cluster.jobs.topics(cancelled)
    assert (await cluster.jobs.end(done.id, CANCELLED)).state == DONE
    late = await cluster.jobs.note(cancelled.id, BATCH, BatchOutcome(BATCH))
    assert (late.state, late.done) == (CANCELLED, BATCH)


async def test_a_long_list_is_recorded_in_small_commits(open_cluster: Open) -> None:
    """Each holds the loop, and so every producer of the server. The job is there once all of its list is."""
    cluster = await open_cluster("sf")
    rows: list[int] = []
    known: list[int] = []

    def seen(announcement: Announcement) -> None:
        rows.append(lists(cluster) - sum(rows))
        known.append(len(cluster.jobs.all()))

    cluster.meta.add_listener(seen)
    names = [f"container-{number:05}" for number in range(9 * BATCH + 1)]
    await cluster.jobs.add(job_of(cluster, len(names)), names)
    assert (rows, known) == ([4, 4, 2, 0], [0, 0, 0, 1])


async def test_a_server_that_is_killed_while_it_records_a_job_leaves_no_list_for_ever(open_cluster: Open) -> None:
    """The next job that is recorded takes the lists away that belong to none; those of a job that runs stay."""
    cluster = await open_cluster("sf")
    await cluster.jobs.add(running := job_of(cluster), NAMES)
    lost = asyncio.create_task(cluster.jobs.add(job_of(cluster, 50 * BATCH), [f"box-{n}" for n in range(50 * BATCH)]))

    def kill(_: Announcement) -> None:
        lost.cancel()

    cluster.meta.add_listener(kill)
    await asyncio.wait([lost])
    cluster = await open_cluster("sf")
    assert lists(cluster) > 3
    await cluster.jobs.add(job_of(cluster, 1), NAMES[:1])
    assert (len(cluster.jobs.all()), lists(cluster)) == (2, 3 + 1)
    assert list(cluster.jobs.topics(running)) == NAMES[:BATCH]


async def test_a_job_that_is_recorded_meanwhile_leaves_the_lists_of_another_alone(open_cluster: Open) -> None:
    """They belong to no job yet."""
    cluster = await open_cluster("sf")
    meanwhile: list[asyncio.Task[None]] = []

    def begin_another(_: Announcement) -> None:
        if not meanwhile:
            meanwhile.append(asyncio.create_task(cluster.jobs.add(job_of(cluster, 1), NAMES[:1])))

    cluster.meta.add_listener(begin_another)
    await cluster.jobs.add(job := job_of(cluster, 9 * BATCH), [f"box-{number}" for number in range(9 * BATCH)])
    await meanwhile[0]
    assert lists(cluster) == 9 + 1
    assert list(cluster.jobs.topics(job)) == [f"box-{number}" for number in range(BATCH)]


async def test_a_job_that_was_given_up_while_it_was_recorded_is_whole_or_not_there(open_cluster: Open) -> None:
    """Its last request may be carried out all the same, before or behind that of another job, which takes away the
    lists that belong to none."""
    cluster = await open_cluster("sf")
    put_new = cluster.jobs._put_new  # noqa: SLF001 - nobody waits for it any more
    before, other, behind = (job_of(cluster, 1) for _ in range(3))
    for job in (before, behind):
        await cluster.meta.submit(partial(_put_lists, job.id, [NAMES[:1]], 0))
    requests = [partial(put_new, before, 1), partial(put_new, other, 0), partial(put_new, behind, 1)]

    def at_once(draft: Draft) -> list[str]:
        refused: list[str] = []
        for request in requests:
            try:
                request(draft)
            except NotFound as error:
                refused.append(str(error))
        return refused

    (refused,) = await cluster.meta.submit(at_once)
    assert refused.startswith(f"job {behind.id.hex()} does not exist")
    assert {job.id for job in cluster.jobs.all()} == {before.id, other.id}
    assert (lists(cluster), list(cluster.jobs.topics(before))) == (1, NAMES[:1])


async def test_a_job_of_no_topics_is_done(open_cluster: Open) -> None:
    """There is no batch that would end it."""
    cluster = await open_cluster("sf")
    job = job_of(cluster, 0)
    await cluster.jobs.add(job, [])
    assert cluster.jobs.get(job.id).state == DONE


async def test_the_first_refusals_are_kept_and_all_are_counted(open_cluster: Open) -> None:
    """An entry that grew with every refused topic would be written again after each batch."""
    cluster = await open_cluster("sf")
    job = job_of(cluster)
    await cluster.jobs.add(job, NAMES)
    for first in (0, BATCH):
        refused = [Refusal(name, "set aside") for name in NAMES[first : first + BATCH]]
        job = await cluster.jobs.note(job.id, BATCH, BatchOutcome(0, refused))
    assert job.refused == 2 * BATCH
    assert [each.topic for each in job.refusals] == NAMES[:REFUSALS_SHOWN]


async def test_only_the_newest_ended_jobs_are_kept_and_running_ones_are_bounded(open_cluster: Open) -> None:
    """The log of the cluster does not grow with every command that was ever given."""
    cluster = await open_cluster("sf")
    ended = [replace(job_of(cluster, 0), created_at=number) for number in range(ENDED_KEPT + 3)]
    for job in ended:
        await cluster.jobs.add(job, [])
    kept = [job.id for job in cluster.jobs.all()]
    assert kept == [job.id for job in ended[-len(kept) :]]
    assert len(kept) == ENDED_KEPT + 1
    with pytest.raises(NotFound, match="fairlead job list"):
        cluster.jobs.get(ended[0].id)
    for _ in range(RUNNING_MAX):
        await cluster.jobs.add(job_of(cluster, 1), NAMES[:1])
    with pytest.raises(Busy, match="100 jobs are running"):
        await cluster.jobs.add(job_of(cluster, 1), NAMES[:1])
