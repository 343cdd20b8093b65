"""Jobs as they run: to their end, over failures and a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fairlead.cluster.jobs import BATCH, BatchOutcome, JobRecord, Refusal
from fairlead.gateway.jobs import JobRunner
from fairlead.model.errors import NotAllowed, StorageFull, Unreachable
from tests.gateway.rig import FAST, SHIPS, Site
from tests.support.waiting import until

NAMES = [f"container-{number:05}" for number in range(2 * BATCH + 7)]


class Hand:
    """Work that only remembers; `fails` says what a call raises."""

    def __init__(self) -> None:
        self.batches: list[Sequence[str]] = []
        self.fails: Callable[[], Exception | None] = lambda: None
        self.hold = asyncio.Event()
        self.hold.set()

    async def do(self, job: JobRecord, topics: Sequence[str]) -> BatchOutcome:
        await self.hold.wait()
        error = self.fails()
        if error is not None:
            raise error
        self.batches.append(topics)
        return BatchOutcome(len(topics) - 1, [Refusal(topics[0], "set aside")])


def job_of(site: Site, total: int = len(NAMES), kind: str = "hand") -> JobRecord:
    stream = site.cluster.stream(SHIPS)
    return JobRecord(site.cluster.randomness.id16(), kind, stream.id, SHIPS, {}, total, 1)


def runner_of(site: Site, hand: Hand) -> JobRunner:
    return JobRunner(site.cluster, {"hand": hand}, FAST)


async def test_a_job_runs_to_its_end(sf: Site) -> None:
    """In batches, in the order of the list, each once; what it refused is in its row."""
    hand = Hand()
    runner = runner_of(sf, hand)
    job = job_of(sf)
    await runner.add(job, NAMES)
    await until(lambda: not sf.cluster.jobs.get(job.id).running)
    assert [name for batch in hand.batches for name in batch] == NAMES
    assert [len(batch) for batch in hand.batches] == [BATCH, BATCH, 7]
    row = runner.row(sf.cluster.jobs.get(job.id))
    assert (row["state"], row["percent"], row["changed"], row["refused"]) == ("done", 100, len(NAMES) - 3, 3)


async def test_a_job_waits_where_a_neighbour_does_not_answer_and_goes_on_by_itself(sf: Site) -> None:
    """It says why it waits; no topic is left out, none has its turn twice."""
    hand = Hand()
    away = Unreachable("no gateway answers")
    hand.fails = lambda: away
    runner = runner_of(sf, hand)
    job = job_of(sf)
    await runner.add(job, NAMES)
    await until(lambda: runner.row(job)["waitsfor"] == "no gateway answers")
    hand.fails = lambda: None
    await until(lambda: not sf.cluster.jobs.get(job.id).running)
    assert [name for batch in hand.batches for name in batch] == NAMES
    assert runner.row(job)["waitsfor"] == ""


async def test_topics_of_a_batch_that_had_no_turn_are_handed_on_once_more(sf: Site) -> None:
    """Its work may stop within a batch; what was done before that is noted."""
    hand = Hand()

    async def some(job: JobRecord, topics: Sequence[str]) -> BatchOutcome:
        done = min(len(topics), 300)
        hand.batches.append(topics[:done])
        return BatchOutcome(done, done=done)

    hand.do = some  # type: ignore[method-assign]
    job = job_of(sf)
    await runner_of(sf, hand).add(job, NAMES)
    await until(lambda: not sf.cluster.jobs.get(job.id).running)
    assert [name for batch in hand.batches for name in batch] == NAMES
    assert sf.cluster.jobs.get(job.id).changed == len(NAMES)


async def test_a_job_goes_on_where_the_server_ended(sf: Site) -> None:
    """The batch that was under way has its turn again; what was noted before has not."""
    hand = Hand()
    job = job_of(sf)
    hand.hold.clear()
    first = runner_of(sf, hand)
    await first.add(job, NAMES)
    await sf.cluster.jobs.note(job.id, BATCH, BatchOutcome(BATCH))
    await first.close()
    hand.hold.set()
    second = runner_of(sf, hand)
    second.start()
    await until(lambda: not sf.cluster.jobs.get(job.id).running)
    assert [name for batch in hand.batches for name in batch] == NAMES[BATCH:]
    await second.close()


@pytest.mark.parametrize(
    ("error", "said"), [(NotAllowed("a partner"), "a partner"), (KeyError("x"), "a bug (KeyError: 'x')")]
)
async def test_a_job_that_cannot_go_on_has_failed_and_says_why(sf: Site, error: Exception, said: str) -> None:
    """Others go on: a job is one person's command."""
    hand, other = Hand(), Hand()
    hand.fails = lambda: error
    runner = JobRunner(sf.cluster, {"hand": hand, "other": other}, FAST)
    jobs = [job_of(sf), job_of(sf, kind="other")]
    for job in jobs:
        await runner.add(job, NAMES)
    await until(lambda: not any(sf.cluster.jobs.get(job.id).running for job in jobs))
    failed, done = (sf.cluster.jobs.get(job.id) for job in jobs)
    assert (failed.state, done.state) == ("failed", "done")
    assert said in failed.error


async def test_a_job_whose_failure_cannot_be_recorded_says_so_until_it_can(
    sf: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be shown as running, with nobody at work, until the server is started again."""
    hand = Hand()
    hand.fails = lambda: NotAllowed("a partner")
    runner = runner_of(sf, hand)
    end, away = sf.cluster.jobs.end, [StorageFull("disk", 0, 1)]

    async def later(*said: Any) -> JobRecord:
        if away:
            raise away[0]
        return await end(*said)

    monkeypatch.setattr(sf.cluster.jobs, "end", later)
    job = job_of(sf)
    await runner.add(job, NAMES)
    await until(lambda: "failed (a partner), which cannot be recorded: disk" in runner.row(job)["waitsfor"])
    away.clear()
    await until(lambda: not sf.cluster.jobs.get(job.id).running)
    failed = sf.cluster.jobs.get(job.id)
    assert (failed.state, failed.error) == ("failed", "a partner")


async def test_a_cancelled_job_ends_after_its_batch_also_while_it_waits(sf: Site) -> None:
    """What it has done stays and is counted."""
    hand = Hand()
    runner = runner_of(sf, hand)
    hand.hold.clear()
    working, waiting = job_of(sf), job_of(sf)
    await runner.add(working, NAMES)
    await runner.cancel(working.id)
    hand.hold.set()
    await until(lambda: sf.cluster.jobs.get(working.id).done == BATCH)
    assert sf.cluster.jobs.get(working.id).state == "cancelled"
    hand.fails = lambda: Unreachable("no gateway answers")
    await runner.add(waiting, NAMES)
    await until(lambda: runner.row(waiting)["waitsfor"] != "")
    await runner.cancel(waiting.id)
    await until(lambda: runner.row(waiting)["waitsfor"] == "")
    assert sf.cluster.jobs.get(waiting.id).done == 0
    assert len(hand.batches) == 1


async def test_a_job_of_a_kind_that_is_not_known_stays_as_it_is(sf: Site) -> None:
    """An older program leaves it to the one that began it."""
    runner = runner_of(sf, Hand())
    job = job_of(sf, kind="takeover")
    await runner.add(job, NAMES)
    runner.start()
    assert sf.cluster.jobs.get(job.id).running
    await runner.close()
