"""Spark's JVM with its session, seen from the process that started it: its start, its query, its end.

This loads neither Spark nor Arrow: a process that only waits for work has neither.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from fairlead.model.errors import FairleadError
from fairlead.process.children import kill_children
from fairlead.spark.folder import Folder
from fairlead.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

RESTART_SECONDS_MIN = 1.0
RESTART_SECONDS_MAX = 30.0
"""The longest pause before a query is started again; a query that ran longer than this counts as one that worked."""
_ENDING_SECONDS = 1.0
"""A JVM that has closed its connections is gone by then."""
_STOP_SECONDS = 10.0
"""A JVM that has not stopped by then does not answer, and is killed."""
_LOOK_SECONDS = 0.1
"""Between two looks whether the start of Spark has ended after its JVM was killed."""

log = structlog.get_logger("fairlead.spark")

T = TypeVar("T")


class SparkFailed(FairleadError):
    """Spark did not start, or ended before everything was carried."""


class SparkProcess:
    """One JVM with its session, and the folder of its temporary files."""

    def __init__(
        self, source: Callable[[], type[DataSource]], settings: SparkSettings, environment: Mapping[str, str]
    ) -> None:
        """`source` loads what the session carries by."""
        self._source = source
        self._settings = settings
        self._environment = environment
        self._folder: Folder | None = None
        self._queries = 0
        # Spark finds our source by the session of the calling thread, so one thread makes the session and uses it.
        self._thread = ThreadPoolExecutor(1, "spark")
        self._starting: Future[SparkSession] | None = None
        self._session: SparkSession | None = None

    async def start(self) -> None:
        """Start the JVM; takes some seconds.

        Raises:
            SparkFailed: it did not start.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        self._starting = self._thread.submit(self._start)
        starting = asyncio.wrap_future(self._starting)
        # Where nobody waits any more, `stop` kills what is being started; asyncio would tell of its failure by itself.
        starting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            self._session = await asyncio.shield(starting)
        except Exception as error:
            raise SparkFailed(f"Spark did not start: {first_line(error)}") from error
        log.info("Spark started", seconds=round(clock() - began, 1))

    def _start(self) -> SparkSession:
        from fairlead.spark import session as spark

        self._folder = Folder(self._settings.name)
        return spark.start_session(self._source(), self._settings, self._folder.path, self._environment)

    @property
    def alive(self) -> bool:
        """Whether the JVM runs."""
        return self._jvm is not None and self._jvm.poll() is None

    def ended(self) -> bool:
        """Whether the JVM has ended, or is ending: its connections are closed some time before that."""
        if self._jvm is not None:
            with suppress(subprocess.TimeoutExpired):
                self._jvm.wait(_ENDING_SECONDS)
        return not self.alive

    @property
    def _jvm(self) -> subprocess.Popen[bytes] | None:
        gateway: Any = self._session.sparkContext._gateway if self._session else None
        return None if gateway is None else gateway.proc

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def rounds(self, texts: Mapping[str, str]) -> str:
        """Run the query with these options until it ends; returns why it did."""
        return await self._in_thread(partial(self._rounds, texts))

    def _rounds(self, texts: Mapping[str, str]) -> str:
        from fairlead.spark import session as spark

        assert self._session is not None
        assert self._folder is not None
        self._queries += 1
        checkpoint = self._folder.path / f"checkpoint-{self._queries}"
        try:
            spark.start_rounds(self._session, self._source(), texts, checkpoint).awaitTermination()
        except Exception as error:
            return first_line(error)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
        return "stopped"

    async def once(self, texts: Mapping[str, str]) -> None:
        """Carry what is there, and wait until it has been applied.

        Raises:
            SparkFailed: Spark says why.
        """
        from fairlead.spark import session as spark

        assert self._session is not None
        try:
            await self._in_thread(partial(spark.run_once, self._session, self._source(), texts))
        except Exception as error:
            raise SparkFailed(f"not all was carried: {first_line(error)}") from error

    async def stop(self) -> None:
        """End the JVM, also one that is just being started, and remove the folder."""
        while self._session is None and self._starting is not None:
            if self._starting.done():
                self._session = None if self._starting.exception() else self._starting.result()
                break
            kill_children()
            await asyncio.sleep(_LOOK_SECONDS)
        if self._session is not None:
            await self._stop(self._session)
            log.info("Spark stopped")
        self._thread.shutdown(wait=False)
        if self._folder is not None:
            self._folder.remove()

    async def _stop(self, session: SparkSession) -> None:
        from fairlead.spark import session as spark

        stopping = asyncio.ensure_future(asyncio.to_thread(spark.stop_session, session))
        await asyncio.wait({stopping}, timeout=_STOP_SECONDS)
        if not stopping.done() and self._jvm is not None:
            log.warning("Spark does not answer, killing it")
            self._jvm.kill()
        await stopping


def first_line(error: BaseException) -> str:
    """What an error of Spark says before its stack trace."""
    lines = str(error).strip().splitlines()
    causes = [line.strip() for line in lines if line.strip().startswith("Caused by:")]
    return " · ".join([*lines[:1], *causes[-1:]]) or type(error).__name__
