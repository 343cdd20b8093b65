"""Spark for all mirrors of a process: one JVM and one query, with a task for each worker of each mirror.

A query that dies is started again after a pause, and so is a JVM; the coordinators give their workers anew what they
had. Only a first start that fails ends the mirrors: then there is something that somebody must repair.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlead.mirror.lanes import LANES
from fairlead.mirror.spark.options import MirrorTasks, Place
from fairlead.mirror.workers.coordinator import Coordinator
from fairlead.mirror.workers.engine import WorkersEngine
from fairlead.mirror.workers.messages import Setup
from fairlead.model.clock import SystemRandomness
from fairlead.process import control_secret
from fairlead.spark.folder import Folder
from fairlead.spark.java import java_environment
from fairlead.spark.process import RESTART_SECONDS_MAX, RESTART_SECONDS_MIN, SparkFailed, SparkProcess
from fairlead.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

NAME: Final = "fairlead-mirror"
ROUND_SECONDS: Final = 3600.0
"""A round that turns costs its workers their connections and producers, which the registry remembers for ever."""
MEMORY_MB: Final = 512


class SparkHost:
    """Make it, let it make the engines, then `open` it. `say` gets lines for people."""

    def __init__(
        self,
        java: Path,
        environment: Mapping[str, str],
        say: Callable[[str], None],
        round_seconds: float = ROUND_SECONDS,
    ) -> None:
        self._environment = java_environment(java, environment)
        self._say = say
        self._round_seconds = round_seconds
        self._folder: Folder | None = None
        chance = SystemRandomness()
        self._secret = chance.id16() + chance.id16()
        self._coordinators: list[Coordinator] = []
        self._lives = 0
        self._running: asyncio.Task[None] | None = None

    def engine(self, workers: int, setup: Callable[[str], Setup]) -> WorkersEngine:
        """Of one mirror, which asks for so many workers; `setup` is what they are told, by the destination's id."""
        coordinator = Coordinator(min(workers, LANES), self._secret.hex())
        self._coordinators.append(coordinator)
        return WorkersEngine(coordinator, setup, self._watch)

    async def open(self) -> None:
        """Let workers come. Raises: StorageUnavailable: there is no place for temporary files."""
        self._folder = Folder(NAME)
        control_secret.write(self._folder.path, self._secret)
        file = str(self._folder.path / control_secret.FILE)
        places: list[Place] = []
        for coordinator in self._coordinators:
            address = await coordinator.open()
            places += [Place(address, file, worker) for worker in range(coordinator.workers)]
        self._running = asyncio.create_task(self._run(MirrorTasks(tuple(places), self._round_seconds)))

    async def close(self) -> None:
        """End Spark, and listen no more, also where no mirror came to use its engine."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError, SparkFailed):
                await self._running
        for coordinator in self._coordinators:
            await coordinator.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()

    async def _watch(self) -> None:
        """Raises: SparkFailed: it did not start."""
        assert self._running is not None
        await asyncio.shield(self._running)

    async def _run(self, tasks: MirrorTasks) -> None:
        """Spark's lives, one after the other."""
        pause, first = RESTART_SECONDS_MIN, True
        while True:
            spark = self._spark(len(tasks.places))
            try:
                await spark.start()
                first = False
                pause = await self._query(spark, tasks, pause)
            except SparkFailed as error:
                if first:
                    raise SparkFailed(f"{error}; --engine local carries without Spark") from error
                pause = await self._rest(str(error), pause)
            finally:
                await asyncio.shield(spark.stop())

    async def _query(self, spark: SparkProcess, tasks: MirrorTasks, pause: float) -> float:
        """Run the query, again when it dies, until Spark itself is gone; the next pause."""
        clock = asyncio.get_running_loop().time
        while spark.alive:
            began = clock()
            self._lives += 1
            reason = await spark.rounds(replace(tasks, life=self._lives).to_texts())
            if await asyncio.to_thread(spark.ended):
                reason = "its Java process ended"
            if clock() - began > RESTART_SECONDS_MAX:
                pause = RESTART_SECONDS_MIN
            pause = await self._rest(reason, pause)
        return pause

    async def _rest(self, reason: str, pause: float) -> float:
        self._say(f"Spark has to be started again, in {pause:g} s: {reason}")
        await asyncio.sleep(pause)
        return min(2 * pause, RESTART_SECONDS_MAX)

    def _spark(self, workers: int) -> SparkProcess:
        settings = SparkSettings(
            NAME,
            "fairlead.mirror.spark.worker_daemon",
            workers,
            memory_mb=MEMORY_MB,
            python=sys.executable,
            log_level="warning",
        )
        return SparkProcess(_source, settings, self._environment)


def _source() -> type[DataSource]:
    from fairlead.mirror.spark.format import MirrorDataSource

    return MirrorDataSource
