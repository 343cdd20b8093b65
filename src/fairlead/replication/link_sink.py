"""The Spark side of the sink: format `fairlead.link`, for writing.

`write` runs in a Python process of the executor, once per task and round, with an iterator that yields rows as the
reader of the same task hands them on; all else is `sink_task`. Nothing is committed through Spark: what a destination
has recorded is the only progress there is, so a round may be lost or repeated at any moment without harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from fairlead.replication.apply_connection import SinkSettings
from fairlead.replication.link_rows import from_batch
from fairlead.replication.options import LinkOptions
from fairlead.replication.sink_task import SinkTask
from fairlead.replication.task_thread import TaskThread, worker_name

_GRACE_SECONDS = 0.3
"""What is in flight when a round ends is given this long; it is bounded by the window, not by the queue."""


@dataclass(frozen=True, slots=True)
class Carried(WriterCommitMessage):
    """What one task took from Spark in a round."""

    frames: int
    size_bytes: int


class LinkStreamWriter(DataSourceStreamArrowWriter):
    """Pickled on the driver, used on executors; holds options only."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Post frames until the reader of this task ends; never fails because a destination does."""
        return carry(self._options, iterator, _GRACE_SECONDS)


class LinkBatchWriter(DataSourceArrowWriter):
    """The same for a catch-up that ends."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Post frames until the reader of this task ends, which is after their answers."""
        return carry(self._options, iterator, _GRACE_SECONDS)


def carry(options: LinkOptions, batches: Iterator[pa.RecordBatch], grace_seconds: float) -> Carried:
    """Hand every frame to a sink task as it comes."""
    sink = SinkTask(options.server, worker_name(), SinkSettings(window_bytes=options.window_bytes))
    thread = TaskThread("sink", sink.run)
    frames = size_bytes = 0
    try:
        for batch in batches:
            for frame in from_batch(batch):
                frames, size_bytes = frames + 1, size_bytes + frame.size_bytes
                thread.call(sink.offer, frame)
        thread.wait(sink.finish(grace_seconds))
    finally:
        thread.stop()
    return Carried(frames, size_bytes)
