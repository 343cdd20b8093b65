"""What the two Python processes of a Spark task do in a round: one yields rows, the other takes and posts them.

Neither side keeps anything: the source server grants anew in each round.

The shells that Spark pickles (`source`, `sink`) import this only when a task begins: Spark's planning processes load
the shells too, and need nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from fairlead.model.clock import SystemClock
from fairlead.replication.reader.task import ReaderSettings, ReaderTask
from fairlead.replication.sink.connection import SinkSettings
from fairlead.replication.sink.task import SinkTask
from fairlead.replication.spark.options import LinkOptions
from fairlead.spark.beside import Receiver, Sender
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet, filler_batch, from_batch
from fairlead.spark.rounds import AHEAD_BYTES, WARM_UP_ROWS, seconds_left, until_over
from fairlead.spark.task_thread import TaskThread, worker_name

_GRACE_SECONDS = 0.3
"""How long frames in flight at the end of a round have to be answered; the window bounds them, not the queue."""
_TAKEN_SECONDS = 10.0
"""How long the sink has to take what its rows say lies beside them. It waits for nobody, and is as far as Spark is."""


def read(options: LinkOptions, until_ms: int | None = None, *, cold: bool = False) -> Iterator[pa.RecordBatch]:
    """Frames of one task, with filler where Spark would hold the last one back, until `until_ms` by the wall clock, or
    with None until everything announced has been applied. A `cold` JVM also gets filler to warm up."""
    clock = SystemClock()
    seconds = None if until_ms is None else seconds_left(until_ms - clock.wall_ms(), options.round_seconds)
    handover: Handover[Packet] = Handover(AHEAD_BYTES)
    settings = ReaderSettings(options.slots, options.frame_bytes, options.position_bytes, options.once)
    reader = ReaderTask(options.server, worker_name(), settings, handover, secret_file=options.secret_file)
    thread = TaskThread("reader", reader.run)
    beside = Sender()
    try:
        yield from until_over(handover, seconds, WARM_UP_ROWS if cold else 0, clock, beside)
        handover.close()
        yield filler_batch()  # pushes a last row, whose bytes may wait beside
        beside.finish(_TAKEN_SECONDS)
    finally:
        handover.close()
        beside.close()
        thread.stop()


def write(options: LinkOptions, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """Hand every frame to a sink task as it comes; returns their number and bytes."""
    settings = SinkSettings(window_bytes=options.window_bytes)
    sink = SinkTask(options.server, worker_name(), settings, secret_file=options.secret_file)
    thread = TaskThread("sink", sink.run)
    beside = Receiver()
    frames = size_bytes = 0
    try:
        for batch in batches:
            found = [beside.whole(packet) for packet in from_batch(batch)]
            if found:
                thread.call(sink.offer, *found)
            frames, size_bytes = frames + len(found), size_bytes + sum(frame.size_bytes for frame in found)
        thread.wait(sink.finish(_GRACE_SECONDS))
    finally:
        beside.close()
        thread.stop()
    return frames, size_bytes
