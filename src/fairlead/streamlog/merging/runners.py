"""Who carries out merge jobs: one process for all shards of a directory, or a thread where there is no directory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Protocol, TypeVar

from fairlead.model.clock import Randomness
from fairlead.storage.interface import Storage
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.job import MergeJob, MergeResult
from fairlead.streamlog.merging.process import MergerProcess

T = TypeVar("T")


class Merger(Protocol):
    """Does one job at a time."""

    async def run(self, job: MergeJob) -> MergeResult: ...
    async def close(self) -> None: ...


async def on_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Do it on a thread. If this is cancelled, the work ends first: nothing is written to a log once it is closed."""
    working = asyncio.get_running_loop().run_in_executor(executor, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


class ThreadMerger:
    """Does jobs on a thread of this process: for storage that another process cannot reach."""

    def __init__(self, storage: Storage, randomness: Randomness, executor: Executor) -> None:
        self._storage = storage
        self._randomness = randomness
        self._executor = executor

    async def run(self, job: MergeJob) -> MergeResult:
        """Do a job. Raises: as `run_job.run`."""
        return await on_thread(self._executor, partial(run_job.run, self._storage, self._randomness, job))

    async def close(self) -> None:
        """Nothing to end: whoever cancels a job waits for it."""


class SharedMerger:
    """A merging process that several shards use; it ends with the last of them."""

    _of_directory: dict[tuple[int, str], SharedMerger] = {}  # noqa: RUF012 - one per event loop and directory

    def __init__(self, key: tuple[int, str], storage: LocalStorage) -> None:
        self._key = key
        self._process = MergerProcess(storage.root)
        self._users = 0

    @classmethod
    def of(cls, storage: LocalStorage) -> SharedMerger:
        """The one of this directory, used once more."""
        key = (id(asyncio.get_running_loop()), str(storage.root))
        merger = cls._of_directory.get(key)
        if merger is None:
            merger = cls._of_directory[key] = cls(key, storage)
        merger._users += 1
        return merger

    async def run(self, job: MergeJob) -> MergeResult:
        """Do a job, after those of other shards that came before. Raises: as `MergerProcess.run`."""
        return await self._process.run(job)

    async def close(self) -> None:
        """One user less; after the last one the process ends."""
        self._users -= 1
        if self._users == 0:
            del self._of_directory[self._key]
            await self._process.close()


def merger_of(storage: Storage, randomness: Randomness, executor: Executor) -> Merger:
    """Who does the jobs of a shard on this storage; close it when the shard closes."""
    if isinstance(storage, LocalStorage):
        return SharedMerger.of(storage)
    return ThreadMerger(storage, randomness, executor)
