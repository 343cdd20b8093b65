"""What the two Python processes of a task do in a round: one is the reader of a worker, the other its sink.

Either fails when it loses the coordinator, or when its own work fails: then Spark starts the task again, and the
coordinator gives what it had to the new one.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from fairlead.mirror.spark.options import MirrorTasks, Place
from fairlead.mirror.workers.messages import Hello
from fairlead.mirror.workers.opening import OpensKafka
from fairlead.mirror.workers.reader import Reader
from fairlead.mirror.workers.sink import Sink
from fairlead.model.clock import SystemClock
from fairlead.model.errors import FairleadError, another
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet, from_batch
from fairlead.spark.rounds import AHEAD_BYTES, WARM_UP_ROWS, seconds_left, until_over
from fairlead.spark.task_thread import TaskThread

GRACE_SECONDS: Final = 30.0
"""How long what is under way at the end of a round has to be acknowledged."""


class _Program:
    """A program whose error is raised in the thread that Spark drives."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._failure: FairleadError | None = None

    async def run(self) -> None:
        try:
            await self._work
        except FairleadError as error:
            self._failure = error

    def check(self) -> None:
        """Raises: FairleadError: it has failed."""
        if self._failure is not None:
            raise another(self._failure)


def read(tasks: MirrorTasks, index: int, until_ms: int, *, cold: bool) -> Iterator[pa.RecordBatch]:
    """Rows of one worker until the round is over, by the driver's clock; `cold`: as `Task` has it."""
    clock = SystemClock()
    seconds = seconds_left(until_ms - clock.wall_ms(), tasks.round_seconds)
    place = tasks.places[index]
    handover: Handover[Packet] = Handover(AHEAD_BYTES)
    reader = Reader(place.address, place.secret_file, _hello(tasks, place), OpensKafka(), handover)
    program = _Program(reader.run())
    thread = TaskThread("reader", program.run)
    try:
        yield from until_over(handover, seconds, WARM_UP_ROWS if cold else 0, clock)
        thread.call(reader.finish)
        # What it said before its last word belongs to the round.
        yield from until_over(handover, None, 0, clock)
    finally:
        handover.close()
        thread.stop()
    program.check()


def write(tasks: MirrorTasks, batches: Iterator[pa.RecordBatch]) -> None:
    """Be the sink of one worker until its reader ends."""
    context = TaskContext.get()
    assert context is not None
    place = tasks.places[context.partitionId()]
    sink = Sink(place.address, place.secret_file, _hello(tasks, place), OpensKafka())
    program = _Program(sink.run())
    thread = TaskThread("sink", program.run)
    try:
        for batch in batches:
            program.check()
            found = from_batch(batch)
            if found:
                thread.call(sink.offer, *found)
        program.check()
        thread.wait(sink.finish(GRACE_SECONDS))
    finally:
        thread.stop()
    program.check()


def _hello(tasks: MirrorTasks, place: Place) -> Hello:
    """A later attempt has a higher number, also one of a later JVM."""
    context = TaskContext.get()
    assert context is not None
    return Hello(place.worker, (tasks.life << 32) + context.taskAttemptId(), os.getpid())
