"""The Spark side of the reader: format `fairlead.link`, for reading, in long rounds.

A round is one micro-batch of minutes. Driver: `latestOffset` answers the next number, always; `partitions` gives a few
equal workers and asks nobody. Executor: `read` runs once per worker and round and yields frames as the asyncio reader
hands them on, until the round's time is over. After the last ready frame, before it waits, it yields filler rows: Spark
hands a row on only when later bytes push it. `read` keeps nothing: the source server grants anew in each round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from fairlead.replication.handover import Handover
from fairlead.replication.link_rows import FILLERS, LinkFrame, filler_batch, to_batch
from fairlead.replication.options import LinkOptions
from fairlead.replication.reader_task import ReaderSettings, ReaderTask
from fairlead.replication.task_thread import TaskThread, worker_name

_AHEAD_BYTES = 16_000_000
"""Frames that wait between the reader and Spark."""
_LOOK_SECONDS = 1.0
"""How often a waiting reader looks whether Spark is still there."""


@dataclass(frozen=True)
class Worker(InputPartition):
    """One task of a round; workers do not differ in what they may be granted."""

    index: int


class LinkStreamReader(DataSourceStreamReader):
    """Pickled on the driver, used there and on executors; holds options only."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"round": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The next round's number: a round begins as soon as the one before has ended."""
        return {"round": start["round"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """As many workers as the option says; a dead server must not fail the query."""
        return [Worker(index) for index in range(self._options.workers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Frames until the round's time is over."""
        return read_round(self._options)


class LinkBatchReader(DataSourceReader):
    """The same for a catch-up that ends: each worker ends when nothing is left to carry."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [Worker(index) for index in range(self._options.workers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Frames until everything that was announced has been applied."""
        return read_round(self._options)


def read_round(options: LinkOptions) -> Iterator[pa.RecordBatch]:
    """Frames of one task and round, with filler where Spark would hold the last one back."""
    handover: Handover[LinkFrame] = Handover(_AHEAD_BYTES)
    settings = ReaderSettings(options.slots, options.frame_bytes, options.position_bytes, options.once)
    reader = ReaderTask(options.server, worker_name(), settings, handover)
    thread = TaskThread("reader", reader.run)
    try:
        yield from _until_over(handover, None if options.once else options.round_seconds)
    finally:
        handover.close()
        thread.stop()


def _until_over(handover: Handover[LinkFrame], seconds: float | None) -> Iterator[pa.RecordBatch]:
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    parent = os.getppid()
    pushed = True
    while not handover.ended and os.getppid() == parent:
        left = deadline - time.monotonic()
        if left <= 0:
            return
        frame = handover.take(min(left, _LOOK_SECONDS) if pushed else 0)
        if frame is not None:
            yield to_batch(frame)
            pushed = False
        elif not pushed:
            yield from (filler_batch() for _ in range(FILLERS))
            pushed = True
