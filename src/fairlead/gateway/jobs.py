"""Runs the jobs of a cluster: batch after batch, from where the record says, until each has ended.

In: jobs, and for each kind the work that is done to a batch of topics. Out: how far they are, in their records. Owns
the tasks. Always true: a batch whose outcome was not recorded is done again, so the work changes nothing the second
time; a job waits and tries again as long as its work says that it may go later; one that fails leaves the others alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import structlog

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import CANCELLED, FAILED, BatchOutcome, JobRecord
from fairlead.gateway.links.running.timing import Backoff, Timing
from fairlead.model.errors import Closed, FairleadError, TryAgain

log = structlog.get_logger()


class Work(Protocol):
    """What is done to the topics of a job."""

    async def do(self, job: JobRecord, topics: Sequence[str]) -> BatchOutcome:
        """Deal with a batch; what an earlier call did already is neither done again nor refused.

        Raises:
            TryAgain: it may go later, and is tried again.
            FairleadError: the job has failed.
        """
        ...


class JobRunner:
    """`start` and `close` enclose its life."""

    def __init__(self, cluster: Cluster, work: Mapping[str, Work], timing: Timing | None = None) -> None:
        self._cluster = cluster
        self._work = work
        self._timing = timing or Timing()
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._rings: dict[bytes, asyncio.Event] = {}
        self._waits: dict[bytes, str] = {}
        """Why a job does not go on at this moment."""

    def start(self) -> None:
        """Go on with the jobs that were running when the server ended."""
        for job in self._cluster.jobs.all():
            self._begin(job)

    async def close(self) -> None:
        """Leave all jobs as they are recorded."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def add(self, job: JobRecord, topics: Sequence[str]) -> dict[str, Any]:
        """Record a job and begin; answers its `row`. Raises: Busy, StorageFull, StorageUnavailable."""
        await self._cluster.jobs.add(job, topics)
        self._begin(self._cluster.jobs.get(job.id))
        return self.row(job)

    async def cancel(self, id: bytes) -> JobRecord:
        """Let a job end after the batch that is under way; what was done stays. Raises: NotFound."""
        job = await self._cluster.jobs.end(id, CANCELLED)
        if id in self._rings:
            self._rings[id].set()
        return job

    def row(self, job: JobRecord) -> dict[str, Any]:
        """A job for people, options apart."""
        return {
            "id": job.id.hex(),
            "kind": job.kind,
            "path": job.path,
            "state": job.state,
            "topics": job.total,
            "done": job.done,
            "changed": job.changed,
            "refused": job.refused,
            "lacking": job.lacking,
            "brought": job.brought,
            "percent": 100 * job.done // job.total if job.total else 100,
            "waitsfor": self._waits.get(job.id, ""),
            "error": job.error,
            "createdat": job.created_at,
            "endedat": job.ended_at or 0,
        }

    def _begin(self, job: JobRecord) -> None:
        if not job.running or job.kind not in self._work:
            return
        self._rings[job.id] = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._run(job))
        self._tasks[job.id] = task
        task.add_done_callback(lambda _: self._forget(job.id))

    def _forget(self, id: bytes) -> None:
        for known in (self._tasks, self._rings, self._waits):
            known.pop(id, None)

    async def _run(self, job: JobRecord) -> None:
        backoff = Backoff(self._timing, self._cluster.randomness)
        while job.running:
            try:
                job = await self._batch(job)
                self._waits.pop(job.id, None)
                backoff.reset()
            except Closed:
                # The server stops; the next one goes on from the record.
                return
            except TryAgain as error:
                self._waits[job.id] = str(error)
                await self._rest(job.id, backoff.next_s())
                job = self._cluster.jobs.get(job.id)
            except FairleadError as error:
                await self._failed(job, error)
                return
            except Exception as error:
                log.error("a bug in a job", job=job.id.hex(), kind=job.kind, path=job.path, exc_info=error)
                await self._failed(job, FairleadError(f"a bug ({type(error).__name__}: {error}); the log tells more"))
                return
        log.info("job has ended", job=job.id.hex(), kind=job.kind, path=job.path, state=job.state, topics=job.done)

    async def _batch(self, job: JobRecord) -> JobRecord:
        topics = self._cluster.jobs.topics(job)
        outcome = await self._work[job.kind].do(job, topics)
        done = len(topics) if outcome.done is None else outcome.done
        return await self._cluster.jobs.note(job.id, done, outcome)

    async def _failed(self, job: JobRecord, error: FairleadError) -> None:
        log.warning("job has failed", job=job.id.hex(), kind=job.kind, path=job.path, error=str(error))
        backoff = Backoff(self._timing, self._cluster.randomness)
        while self._cluster.jobs.get(job.id).running:
            try:
                await self._cluster.jobs.end(job.id, FAILED, str(error))
            except Closed:
                return
            except FairleadError as failure:
                self._waits[job.id] = f"it has failed ({error}), which cannot be recorded: {failure}"
                await self._rest(job.id, backoff.next_s())

    async def _rest(self, id: bytes, seconds: float) -> None:
        # Not `wait_for`: before Python 3.12 it forgets that it was cancelled if what it waits for has just come.
        try:
            async with asyncio.timeout(seconds):
                await self._rings[id].wait()
        except TimeoutError:
            pass
