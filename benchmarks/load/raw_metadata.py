"""Asks for the Metadata of all topics, again and again, while another connection ticks: whom does that delay?

A tick is an ApiVersions request and, on a connection of its own, a Produce of one record; both latencies count from
the moment at which the tick was due.

Arguments: bootstrap, topic (for the records), record_bytes; optional: times (5), tick_ms (5), producer (0),
deadline_seconds (60).
Figures: topics_bytes (of an answer), answer_seconds (the longest), versions and produced (each `latency.spread` while
Metadata was asked for), quiet (the same of Produce in the second before), records (that were produced), cpu_seconds.
"""

from __future__ import annotations

import threading
import time

import numpy as np

from benchmarks.load.content import Content
from benchmarks.load.latency import spread
from benchmarks.load.program import Arguments, Figures, Run, main
from benchmarks.load.raw import (
    METADATA,
    METADATA_VERSION,
    PRODUCE,
    PRODUCE_VERSION,
    VERSIONS,
    VERSIONS_VERSION,
    BatchForm,
    Connection,
    check_produce_answer,
    frame,
    metadata_body,
    produce_body,
)
from fairlead.protocol.wire import string

_QUIET_SECONDS = 1.0


class Ticker(threading.Thread):
    """Ticks until it is stopped."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self.due: list[float] = []
        self.versions: list[float] = []
        self.produced: list[float] = []
        self.failure: Exception | None = None
        self._connections = [Connection(arguments["bootstrap"], _deadline(arguments)) for _ in range(2)]
        self._every = float(arguments.get("tick_ms", 5)) / 1000
        self._content = Content(int(arguments["record_bytes"]))
        self._form = BatchForm(1, self._content.record_bytes)
        self._producer = int(arguments.get("producer", 0))
        self._name = string(arguments["topic"], True)
        self._ended = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while not self._ended.is_set():
            due = began + len(self.due) * self._every
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                self._tick(due)
            except Exception as error:
                self.failure = error
                return

    def _tick(self, due: float) -> None:
        number = len(self.due)
        asking, producing = self._connections
        asking.send(_versions(number))
        producing.send(self._record(number))
        asking.receive(number)
        self.versions.append(time.monotonic() - due)
        check_produce_answer(producing.receive(number), [self._name])
        self.produced.append(time.monotonic() - due)
        self.due.append(due)

    def _record(self, number: int) -> bytes:
        values = self._content.values(self._producer, 0, number)[np.newaxis]
        batch = self._form.build(values, int(1000 * time.time()))
        return frame(PRODUCE, PRODUCE_VERSION, number, produce_body([self._name], batch))

    def finish(self) -> None:
        """Stop it.

        Raises:
            Exception: what went wrong in it.
        """
        self._ended.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def _versions(number: int) -> bytes:
    """A request with a header of version 1, whose body is empty."""
    header = VERSIONS.to_bytes(2) + VERSIONS_VERSION.to_bytes(2) + number.to_bytes(4) + b"\xff\xff"
    return len(header).to_bytes(4) + header


def _deadline(arguments: Arguments) -> float:
    return float(arguments.get("deadline_seconds", 60))


def prepare(arguments: Arguments) -> Run:
    """Connect."""
    asker = Connection(arguments["bootstrap"], _deadline(arguments))
    ticker = Ticker(arguments)
    return lambda: _run(asker, ticker, int(arguments.get("times", 5)))


def _run(asker: Connection, ticker: Ticker, times: int) -> Figures:
    ticker.start()
    time.sleep(_QUIET_SECONDS)
    began = time.monotonic()
    seconds, size = [], 0
    for number in range(times):
        asked = time.monotonic()
        asker.send(frame(METADATA, METADATA_VERSION, number, metadata_body(None)))
        size = asker.skip()
        seconds.append(time.monotonic() - asked)
    ticker.finish()
    # A tick that was due before and answered after the first request belongs to it.
    busy = np.array(ticker.due) + ticker.produced >= began
    versions, produced = np.array(ticker.versions), np.array(ticker.produced)
    return {
        "topics_bytes": size,
        "answer_seconds": max(seconds),
        "versions": spread(versions[busy]),
        "produced": spread(produced[busy]),
        "quiet": spread(produced[~busy]),
        "records": len(ticker.due),
    }


if __name__ == "__main__":
    main(prepare)
