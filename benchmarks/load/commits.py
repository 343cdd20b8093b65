"""Commits offsets at a fixed rate whatever the server does: each request has the same partitions, and new offsets.

Request number n goes over connection n mod connections, and its latency counts from the moment at which it was due. The
last one goes alone, when all others have been answered, so it is known where the group is in the end.

Arguments: bootstrap, topics (partition 0 of each), group, rate (requests/s), seconds; optional: connections (20: a
connection has one request under way at a time, as far as the server goes), first (1: the first offset),
deadline_seconds (60).
Figures: requests, seconds, achieved_rate, offset (the last one), answered (`latency.spread`), cpu_seconds.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

from benchmarks.load.content import topic_names
from benchmarks.load.latency import spread
from benchmarks.load.program import Arguments, Figures, Run, main
from benchmarks.load.raw import Connection, Refused
from fairlead.protocol.wire import Reader, string

OFFSET_COMMIT, OFFSET_COMMIT_VERSION = 8, 2
"""Version 2: the oldest that every system serves, and not flexible."""
_TICK_SECONDS = 0.0005


class Form:
    """Requests that are alike but for number and offset."""

    def __init__(self, group: str, topics: Sequence[str]) -> None:
        self._head = struct.pack(">hh", OFFSET_COMMIT, OFFSET_COMMIT_VERSION)
        nobody = struct.pack(">i", -1) + string("", False) + struct.pack(">qi", -1, len(topics))
        self._before = string("benchmark", False) + string(group, False) + nobody
        self._names = [string(topic, False) + struct.pack(">ii", 1, 0) for topic in topics]

    def request(self, number: int, offset: int) -> bytes:
        """A whole one, of no member: the group is empty."""
        place = struct.pack(">q", offset) + string("", False)
        body = b"".join([self._head, struct.pack(">i", number), self._before, *(name + place for name in self._names)])
        return struct.pack(">i", len(body)) + body


def check_answer(answer: bytes, topics: int) -> None:
    """
    Raises:
        Refused: a partition was not committed.
    """
    reader = Reader(answer, False, 4)
    found = 0
    for _ in reader.items():
        name = reader.string()
        for _ in reader.items():
            reader.int32()
            if error := reader.int16():
                raise Refused(f"{name}: error {error}")
            found += 1
    if found != topics:
        raise Refused(f"{found} partitions in the answer to {topics}")


class Answers(threading.Thread):
    """Takes the answers of one connection, until one is an error or all have come."""

    def __init__(self, connection: Connection, numbers: Sequence[int], topics: int, answered: list[float]) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self._connection, self._numbers, self._topics, self._answered = connection, numbers, topics, answered

    def run(self) -> None:
        try:
            for number in self._numbers:
                check_answer(self._connection.receive(number), self._topics)
                self._answered[number] = time.monotonic()
        except Exception as error:
            self.failure = error


def prepare(arguments: Arguments) -> Run:
    """Connect."""
    topics = topic_names(arguments["topics"])
    deadline, count = float(arguments.get("deadline_seconds", 60)), int(arguments.get("connections", 20))
    connections = [Connection(arguments["bootstrap"], deadline) for _ in range(count)]

    def run() -> Figures:
        with ExitStack() as stack:
            for connection in connections:
                stack.enter_context(closing(connection))
            return _run(connections, topics, arguments)

    return run


def _run(connections: Sequence[Connection], topics: Sequence[str], arguments: Arguments) -> Figures:
    rate, first = float(arguments["rate"]), int(arguments.get("first", 1))
    count, form = int(rate * float(arguments["seconds"])), Form(arguments["group"], topics)
    answered = [0.0] * count
    takers = [
        Answers(connection, range(place, count, len(connections)), len(topics), answered)
        for place, connection in enumerate(connections)
    ]
    for taker in takers:
        taker.start()
    began = time.monotonic()
    for number in range(count):
        wait = began + number / rate - time.monotonic()
        if wait > 0:
            time.sleep(max(wait, _TICK_SECONDS))
        connections[number % len(connections)].send(form.request(number, first + number))
    for taker in takers:
        taker.join()
    ended = time.monotonic()
    for failure in filter(None, (taker.failure for taker in takers)):
        raise failure
    connections[0].send(form.request(count, first + count))
    check_answer(connections[0].receive(count), len(topics))
    return {
        "requests": count,
        "seconds": ended - began,
        "achieved_rate": count / (ended - began),
        "offset": first + count,
        "answered": spread([at - began - number / rate for number, at in enumerate(answered)]),
    }


if __name__ == "__main__":
    main(prepare)
