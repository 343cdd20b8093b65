"""Commands that touch many topics, as the cluster's own log keeps them."""

from __future__ import annotations

from dataclasses import replace

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
)
from fairlead.cluster.keys import WORKLIST
from fairlead.model.errors import Busy, NotFound

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
