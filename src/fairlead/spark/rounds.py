"""How long a task gives rows to Spark, and when filler goes with them.

Before it waits, the reading side yields filler with the last ready packet: Spark hands a row on only when later bytes
push it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import Final

import pyarrow as pa

from fairlead.model.clock import Clock
from fairlead.spark.beside import Sender
from fairlead.spark.handover import Handover
from fairlead.spark.packets import COPIED_BYTES_MAX, Packet, filler_batch, to_batch

AHEAD_BYTES: Final = 16_000_000
"""Bytes of packets that may wait between the reader and Spark."""
WARM_UP_ROWS: Final = 400
"""Rows of filler for a new JVM, which interprets code that it has run less than 200 times: a row takes 3 ms instead of
1, and on a quiet link that would last for hours."""
_WARM_UP_PAUSE_SECONDS = 0.002
"""Pause between two rows of that filler, so that few of them lie before a packet."""
_LOOK_SECONDS = 1.0
"""How often a waiting reader looks whether Spark is still there."""


def seconds_left(left_ms: int, round_seconds: float) -> float:
    """The rest of a round in seconds; from half of it to all of it, however the clocks of two hosts differ."""
    return min(max(left_ms / 1000, round_seconds / 2), round_seconds)


def until_over(
    handover: Handover[Packet], seconds: float | None, warm_up_rows: int, clock: Clock, beside: Sender | None = None
) -> Iterator[pa.RecordBatch]:
    """The packets that are put, until the handover ends, the time is over, or Spark has gone; large ones go `beside`,
    if that is given."""
    deadline_ms = float("inf") if seconds is None else clock.monotonic_ms() + seconds * 1000
    parent = os.getppid()
    while not handover.ended and os.getppid() == parent:
        left = (deadline_ms - clock.monotonic_ms()) / 1000
        if left <= 0:
            return
        wait_seconds = _WARM_UP_PAUSE_SECONDS if warm_up_rows else _LOOK_SECONDS
        packets = handover.take_some(min(left, wait_seconds), COPIED_BYTES_MAX)
        if beside is not None:
            packets = [beside.beside(packet) for packet in packets]
        rows = [list(row) for _, row in groupby(packets, lambda packet: packet.address)]
        for number, row in enumerate(rows, 1):
            yield to_batch(row, last=number == len(rows) and not handover.waiting)
        if warm_up_rows:
            warm_up_rows -= 1
            yield filler_batch()
