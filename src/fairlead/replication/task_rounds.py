"""What the two Python processes of a Spark task do in a round: one yields rows, the other takes and posts them.

After the last ready frame, before it waits, the reading side yields filler rows: Spark hands a row on only when later
bytes push it. Neither side keeps anything: the source server grants anew in each round.

The shells that Spark pickles (`link_source`, `link_sink`) import this when a task begins: Spark's planning processes
load them too, and need none of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa

from fairlead.replication.apply_connection import SinkSettings
from fairlead.replication.handover import Handover
from fairlead.replication.link_rows import COPIED_BYTES_MAX, FILLERS, LinkFrame, filler_batch, from_batch, to_batch
from fairlead.replication.options import LinkOptions
from fairlead.replication.reader_task import ReaderSettings, ReaderTask
from fairlead.replication.sink_task import SinkTask
from fairlead.replication.task_thread import TaskThread, worker_name

_AHEAD_BYTES = 16_000_000
"""Frames that wait between the reader and Spark."""
_LOOK_SECONDS = 1.0
"""How often a waiting reader looks whether Spark is still there."""
_GRACE_SECONDS = 0.3
"""What is in flight when a round ends is given this long; it is bounded by the window, not by the queue."""


def read(options: LinkOptions, until: float | None = None) -> Iterator[pa.RecordBatch]:
    """Frames of one task, with filler where Spark would hold the last one back, until `until` by `time.time()`; with
    None until everything that was announced has been applied."""
    seconds = None if until is None else seconds_left(until, options.round_seconds)
    handover: Handover[LinkFrame] = Handover(_AHEAD_BYTES)
    settings = ReaderSettings(options.slots, options.frame_bytes, options.position_bytes, options.once)
    reader = ReaderTask(options.server, worker_name(), settings, handover)
    thread = TaskThread("reader", reader.run)
    try:
        yield from _until_over(handover, seconds)
    finally:
        handover.close()
        thread.stop()


def seconds_left(until: float, round_seconds: float) -> float:
    """What is left of a round; at least half of it and no more than all, whatever the clocks of two hosts say."""
    return min(max(until - time.time(), round_seconds / 2), round_seconds)


def _until_over(handover: Handover[LinkFrame], seconds: float | None) -> Iterator[pa.RecordBatch]:
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    parent = os.getppid()
    pushed = True
    while not handover.ended and os.getppid() == parent:
        left = deadline - time.monotonic()
        if left <= 0:
            return
        frames = handover.take_some(min(left, _LOOK_SECONDS) if pushed else 0, COPIED_BYTES_MAX)
        if frames:
            yield from (to_batch(list(row)) for _, row in groupby(frames, lambda frame: frame.address))
            pushed = False
        elif not pushed:
            yield from (filler_batch() for _ in range(FILLERS))
            pushed = True


def write(options: LinkOptions, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """Hand every frame to a sink task as it comes; answers how many, and their bytes."""
    sink = SinkTask(options.server, worker_name(), SinkSettings(window_bytes=options.window_bytes))
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
