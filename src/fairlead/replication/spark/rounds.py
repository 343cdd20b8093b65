"""What the two Python processes of a Spark task do in a round: one yields rows, the other takes and posts them.

Before it waits, the reading side yields filler with the last ready frame: Spark hands a row on only when later bytes
push it. Neither side keeps anything: the source server grants anew in each round.

The shells that Spark pickles (`source`, `sink`) import this only when a task begins: Spark's planning processes load
the shells too, and need nothing of this.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa

from fairlead.model.clock import Clock, SystemClock
from fairlead.replication.carried.rows import COPIED_BYTES_MAX, LinkFrame, filler_batch, from_batch, to_batch
from fairlead.replication.reader.handover import Handover
from fairlead.replication.reader.task import ReaderSettings, ReaderTask
from fairlead.replication.sink.connection import SinkSettings
from fairlead.replication.sink.task import SinkTask
from fairlead.replication.spark.options import LinkOptions
from fairlead.replication.spark.task_thread import TaskThread, worker_name

_AHEAD_BYTES = 16_000_000
"""Bytes of frames that may wait between the reader and Spark."""
_LOOK_SECONDS = 1.0
"""How often a waiting reader looks whether Spark is still there."""
_GRACE_SECONDS = 0.3
"""How long frames in flight at the end of a round have to be answered; the window bounds them, not the queue."""
_WARM_UP_ROWS = 400
"""Rows of filler for a new JVM, which interprets code that it has run less than 200 times: a row takes 3 ms instead of
1, and on a quiet link that would last for hours."""
_WARM_UP_PAUSE_SECONDS = 0.002
"""Pause between two rows of that filler, so that few of them lie before a frame."""


def read(options: LinkOptions, until_ms: int | None = None, *, cold: bool = False) -> Iterator[pa.RecordBatch]:
    """Frames of one task, with filler where Spark would hold the last one back, until `until_ms` by the wall clock, or
    with None until everything announced has been applied. A `cold` JVM also gets filler to warm up."""
    clock = SystemClock()
    seconds = None if until_ms is None else seconds_left(until_ms - clock.wall_ms(), options.round_seconds)
    handover: Handover[LinkFrame] = Handover(_AHEAD_BYTES)
    settings = ReaderSettings(options.slots, options.frame_bytes, options.position_bytes, options.once)
    reader = ReaderTask(options.server, worker_name(), settings, handover, secret_file=options.secret_file)
    thread = TaskThread("reader", reader.run)
    try:
        yield from until_over(handover, seconds, _WARM_UP_ROWS if cold else 0, clock)
    finally:
        handover.close()
        thread.stop()


def seconds_left(left_ms: int, round_seconds: float) -> float:
    """The rest of a round in seconds; from half of it to all of it, however the clocks of two hosts differ."""
    return min(max(left_ms / 1000, round_seconds / 2), round_seconds)


def until_over(
    handover: Handover[LinkFrame], seconds: float | None, warm_up_rows: int, clock: Clock
) -> Iterator[pa.RecordBatch]:
    """The frames that are put, until the handover ends, the time is over, or Spark has gone."""
    deadline_ms = float("inf") if seconds is None else clock.monotonic_ms() + seconds * 1000
    parent = os.getppid()
    while not handover.ended and os.getppid() == parent:
        left = (deadline_ms - clock.monotonic_ms()) / 1000
        if left <= 0:
            return
        wait_seconds = _WARM_UP_PAUSE_SECONDS if warm_up_rows else _LOOK_SECONDS
        frames = handover.take_some(min(left, wait_seconds), COPIED_BYTES_MAX)
        rows = [list(row) for _, row in groupby(frames, lambda frame: frame.address)]
        for number, row in enumerate(rows, 1):
            yield to_batch(row, last=number == len(rows) and not handover.waiting)
        if warm_up_rows:
            warm_up_rows -= 1
            yield filler_batch()


def write(options: LinkOptions, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """Hand every frame to a sink task as it comes; returns their number and bytes."""
    settings = SinkSettings(window_bytes=options.window_bytes)
    sink = SinkTask(options.server, worker_name(), settings, secret_file=options.secret_file)
    thread = TaskThread("sink", sink.run)
    frames = size_bytes = 0
    try:
        for batch in batches:
            found = from_batch(batch)
            if found:
                thread.call(sink.offer, *found)
            frames, size_bytes = frames + len(found), size_bytes + sum(frame.size_bytes for frame in found)
        thread.wait(sink.finish(_GRACE_SECONDS))
    finally:
        thread.stop()
    return frames, size_bytes
