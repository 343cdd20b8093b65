"""The replicator process: `python -m fairlead.replication --server URL --data DIR`.

It waits on /control/replicator without a JVM until the source server has links with work. Then it starts Spark and runs
one query for all links, round after round. Once there has been no link for a while, it ends Spark and waits again. A
query that dies is started again, and the reason is logged. SIGTERM or SIGINT end everything within seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import FairleadError, InvalidValue, Unreachable
from fairlead.model.settings import Settings, load
from fairlead.process import control_secret
from fairlead.process.interrupts import ctrl_c_ignored, end_at_once
from fairlead.process.logs import configure_logs
from fairlead.process.parent import end_with_parent
from fairlead.replication.control_client import open_control
from fairlead.replication.self_report import SelfReport
from fairlead.replication.spark.options import LinkOptions
from fairlead.spark.control import RECONNECT_SECONDS, Control
from fairlead.spark.java import find_java, java_environment
from fairlead.spark.process import RESTART_SECONDS_MAX, RESTART_SECONDS_MIN, SparkFailed, SparkProcess, first_line
from fairlead.spark.settings import SparkSettings
from fairlead.wire.control import LeftWanted, LinkEnds, LinksActive, LinksLeft
from fairlead.wire.first_of import first_of
from fairlead.wire.messages import REPLICATOR_HEARS

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

CONTROL_PATH = "/control/replicator"
IDLE_SECONDS = 60.0
"""Spark is kept this long after the last link went: pausing and resuming a link must not cost a start."""

log = structlog.get_logger("fairlead.replication")


@dataclass(frozen=True, slots=True)
class ReplicatorOptions:
    """What one replicator process does."""

    link: LinkOptions
    memory_mb: int
    log_level: str = "info"
    idle_seconds: float = IDLE_SECONDS


class Wanted:
    """Whether some link wants to move data, as the server last said."""

    def __init__(self) -> None:
        self.links = 0
        self._changed = asyncio.Condition()

    async def set(self, links: int) -> None:
        """Note how many links the server named."""
        async with self._changed:
            self.links = links
            self._changed.notify_all()

    async def until_some(self) -> None:
        """Wait until there is a link with work."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.links > 0)

    async def until_none_for(self, seconds: float) -> None:
        """Wait until there has been no such link for this long."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self.links == 0)
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._changed.wait_for(lambda: self.links > 0)
                if self.links == 0:
                    return


class Replicator:
    """Runs until cancelled."""

    def __init__(self, options: ReplicatorOptions, environment: Mapping[str, str]) -> None:
        self._options = options
        self._environment = environment
        self._wanted = Wanted()
        self._pause = RESTART_SECONDS_MIN
        """Before the query is started again: longer each time that it dies soon, whichever JVM it runs in."""
        self._report = SelfReport(SystemClock(), SystemRandomness())

    async def run(self) -> None:
        """Wait for links, carry their data while there are any, wait again. It ends with what watches for links: a
        process that hears nothing any more would carry nothing, for ever.

        Raises:
            JavaUnusable: Java is missing or too old.
        """
        await first_of(self._watch(), self._work())

    async def _work(self) -> None:
        try:
            while True:
                self._report.doing("waiting")
                await self._wanted.until_some()
                await self._carry()
        except Exception as error:
            self._report.failed(first_line(error))
            await self._report.heard()
            raise

    async def _watch(self) -> None:
        server, secret_file = self._options.link.server, self._options.link.secret_file
        told = False
        while True:
            try:
                async with open_control(server, CONTROL_PATH, REPLICATOR_HEARS, secret_file) as control:
                    told = False
                    await first_of(self._listen(control), self._report.tell(control))
            except (Unreachable, InvalidValue) as error:
                # While the server is away its links are left as they were: it may only be restarting.
                if not told:
                    log.info("waiting for the server", server=server, error=str(error))
                told = True
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self, control: Control) -> None:
        while True:
            message = await control.receive()
            assert isinstance(message, LinksActive)
            if message.links != self._wanted.links:
                log.info("links to carry", links=message.links)
            await self._wanted.set(message.links)

    async def _carry(self) -> None:
        """One life of Spark."""
        self._report.doing("starting")
        java = await asyncio.to_thread(find_java, self._environment)
        spark = _spark(self._options, java_environment(java, self._environment))
        try:
            await spark.start()
            self._report.doing("carrying")
            querying = asyncio.ensure_future(self._query(spark))
            idle = asyncio.ensure_future(self._wanted.until_none_for(self._options.idle_seconds))
            try:
                await asyncio.wait({querying, idle}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (querying, idle):
                    task.cancel()
        finally:
            await asyncio.shield(spark.stop())

    async def _query(self, spark: SparkProcess) -> None:
        """Run the query, and start it again when it dies; ends when Spark itself is gone."""
        clock = asyncio.get_running_loop().time
        while spark.alive:
            began = clock()
            well = asyncio.get_running_loop().call_later(RESTART_SECONDS_MAX, self._report.well)
            try:
                reason = await spark.rounds(self._options.link.to_texts())
            finally:
                well.cancel()
            if await asyncio.to_thread(spark.ended):
                reason = "Spark's Java process ended"
            if clock() - began > RESTART_SECONDS_MAX:
                self._pause = RESTART_SECONDS_MIN
            pause, self._pause = self._pause, min(2 * self._pause, RESTART_SECONDS_MAX)
            self._report.failed(reason)
            log.error("the query ended, starting it again", reason=reason, pause_seconds=pause)
            await asyncio.sleep(pause)
            self._report.doing("carrying")


def _spark(options: ReplicatorOptions, environment: Mapping[str, str]) -> SparkProcess:
    settings = SparkSettings(
        name="fairlead-replicator",
        daemon="fairlead.replication.spark.worker_daemon",
        workers=options.link.workers,
        memory_mb=options.memory_mb,
        python=sys.executable,
        log_level=options.log_level,
    )
    return SparkProcess(_source, settings, environment)


def _source() -> type[DataSource]:
    from fairlead.replication.spark.format import LinkDataSource

    return LinkDataSource


async def run_once(options: ReplicatorOptions, environment: Mapping[str, str]) -> None:
    """One catch-up as a batch job.

    Raises:
        JavaUnusable: Java is missing or too old.
        Unreachable: no server answers; this is found out before Spark starts.
        SparkFailed: Spark says why, or the server that a destination does not answer, or that links lack something of
            what was there when it began.
    """
    active, left = await _left(options, None)
    if active.links == 0:
        log.info("there is no link to carry")
        return
    java = await asyncio.to_thread(find_java, environment)
    once = replace(options, link=replace(options.link, once=True))
    spark = _spark(once, java_environment(java, environment))
    try:
        await spark.start()
        lacking = math.inf
        while True:
            await spark.once(once.link.to_texts())
            active, left = await _left(options, left.ends)
            if active.waiting or not 0 < left.commits + left.partitions < lacking:
                break
            # Its destination answered when the tasks had ended already.
            lacking = left.commits + left.partitions
    finally:
        await asyncio.shield(spark.stop())
    why = f"{options.link.server}/health says why"
    if active.waiting:
        raise SparkFailed(f"not all was carried: {active.waiting} of {active.links} links cannot be carried now; {why}")
    if left.links:
        what = f"{left.commits:,} commits of before this began, and {left.partitions:,} partitions are behind"
        raise SparkFailed(f"not all was carried: {left.links} of {active.links} links lack {what}; {why}")


async def _left(options: ReplicatorOptions, ends: tuple[LinkEnds, ...] | None) -> tuple[LinksActive, LinksLeft]:
    """What the server says of its links now, and what they lack below these ends."""
    link = options.link
    async with open_control(link.server, CONTROL_PATH, REPLICATOR_HEARS, link.secret_file) as control:
        await control.send(LeftWanted(ends))
        active = await control.receive()
        while not isinstance(answer := await control.receive(), LinksLeft):
            active = answer  # links came or went meanwhile
        assert isinstance(active, LinksActive)
        return active, answer


def options_from(server: str, settings: Settings, secret_file: str = "") -> ReplicatorOptions:
    """The options that a site's settings give."""
    link = LinkOptions(
        server,
        secret_file=secret_file,
        workers=settings.replicator_workers,
        round_seconds=settings.round_seconds,
        frame_bytes=settings.frame_bytes,
        window_bytes=settings.window_bytes,
        position_bytes=settings.position_bytes,
    )
    return ReplicatorOptions(link, settings.spark_memory_mb, settings.log_level)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code.

    0: it was told to end, or `--once` is done; 1: it failed, with one line of error; 128 and the signal's number: a
    signal ended `--once`.
    """
    parser = argparse.ArgumentParser(prog="fairlead replicator", description="Carries the links of one cluster.")
    parser.add_argument("--server", required=True, help="HTTP address of the cluster's server, http://HOST:PORT")
    secret = parser.add_mutually_exclusive_group(required=True)
    secret.add_argument("--data", type=Path, help="the server's data directory, which has its secret")
    secret.add_argument("--secret-file", type=Path, help="the file of the server's secret, if it lies elsewhere")
    parser.add_argument("--once", action="store_true", help="carry what is there now, then end")
    parser.add_argument("--settings", type=Path, help="settings file (TOML)")
    parser.add_argument("--with-parent", type=int, metavar="PID", help="end when this process, which started it, does")
    chosen = parser.parse_args(arguments)
    if chosen.with_parent is not None:
        end_with_parent(chosen.with_parent)
    settings: Settings | None = None
    try:
        settings = load(chosen.settings, os.environ)
        configure_logs(settings.log_level, settings.log_format)
        secret_file = chosen.secret_file or chosen.data / control_secret.FILE
        options = options_from(chosen.server, settings, str(secret_file.absolute()))
        program = run_once(options, os.environ) if chosen.once else Replicator(options, os.environ).run()
        try:
            told = asyncio.run(until_told(program))
        finally:
            end_at_once()
    except FairleadError as error:
        if settings is not None and settings.log_format == "json":
            log.error(str(error))
        else:
            print(f"fairlead replicator: {error}", file=sys.stderr)
        return 1
    # Who is told to end has done its task; `--once` has not, as its caller must know.
    return 128 + told if told is not None and chosen.once else 0


async def until_told(program: Coroutine[Any, Any, None]) -> signal.Signals | None:
    """Run until the program ends or a signal says so; returns the signal. Later ones change nothing: a server that is
    killed sends SIGTERM as its threads end, once for each, and Spark would be left while it is being stopped. Where the
    starter had Ctrl-C ignored (nohup), it stays ignored."""
    task = asyncio.ensure_future(program)
    loop = asyncio.get_running_loop()
    told: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        told.append(number)
        if len(told) == 1:
            task.cancel()

    for number in [signal.SIGTERM] if ctrl_c_ignored() else [signal.SIGTERM, signal.SIGINT]:
        loop.add_signal_handler(number, end, number)
    with suppress(asyncio.CancelledError):
        await task
    return told[0] if told else None
