"""Produces requests that were encoded before the gate opens, over plain sockets: many topics a request, or the most
that one topic takes. acks is all, partition 0, uncompressed.

Arguments: bootstrap, topics, record_bytes, records (in all, a multiple of topics x batch_records); optional:
batch_records (1), topics_per_request (1,000; at most the topics of a connection), in_flight (8 requests a connection),
connections (1; each has its own topics), rate (records/s of all connections; absent: as fast as answers come), shuffle
(false; true takes the topics in random order), encode_ahead (true; false encodes while sending: a load larger than
memory), producer (0), first_sequence (0), deadline_seconds (60 without an answer).
Figures: seconds (first request to last answer), records, bytes (of values), requests, request_bytes, requests_latency
(see `latency.spread`: each request to its answer, at a rate from the time that was intended), late (at a rate: how much
after that time it was sent), cpu_seconds. All records of a request are intended for the same moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.load.content import Content, topic_names
from benchmarks.load.latency import spread
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main
from benchmarks.load.raw import (
    PRODUCE,
    PRODUCE_VERSION,
    BatchForm,
    Connection,
    check_produce_answer,
    frame,
    produce_body,
)
from fairlead.protocol.wire import string


class Request(NamedTuple):
    """A request, and the names of its topics as they stand in the answer."""

    data: bytes
    names: list[bytes]


class Plan(NamedTuple):
    """What one connection sends."""

    content: Content
    form: BatchForm
    producer: int
    first_sequence: int
    numbers: np.ndarray
    names: list[bytes]
    rounds: int
    """Batches to each topic."""
    per_request: int

    def requests(self) -> Iterator[Request]:
        """In the order of sending: each topic's next batch, topic after topic, then again."""
        correlation = 0
        for turn in range(self.rounds):
            for start in range(0, len(self.numbers), self.per_request):
                numbers = self.numbers[start : start + self.per_request]
                names = [self.names[number] for number in numbers]
                body = produce_body(names, self.form.build(self._values(numbers, turn), int(1000 * time.time())))
                yield Request(frame(PRODUCE, PRODUCE_VERSION, correlation, body), names)
                correlation += 1

    def _values(self, numbers: np.ndarray, turn: int) -> np.ndarray:
        count = self.form.count
        begin = self.first_sequence + turn * count
        sequences = np.tile(np.arange(begin, begin + count), len(numbers))
        rows = self.content.values(self.producer, np.repeat(numbers, count), sequences)
        return rows.reshape(len(numbers), count, -1)

    @property
    def request_count(self) -> int:
        return self.rounds * -(-len(self.numbers) // self.per_request)


class Lane:
    """One connection: a thread sends, another takes the answers, so that neither end waits for the other to read."""

    def __init__(self, arguments: Arguments, plan: Plan, rate: float | None) -> None:
        self._deadline = float(arguments.get("deadline_seconds", 60))
        self._connection = Connection(arguments["bootstrap"], self._deadline)
        self._plan = plan
        self._requests: Iterator[Request] | list[Request] = plan.requests()
        if arguments.get("encode_ahead", True):
            self._requests = list(self._requests)
        per_second = None if rate is None else rate / (plan.form.count * min(plan.per_request, len(plan.numbers)))
        self._interval = None if per_second is None else 1 / per_second
        self._room = threading.Semaphore(int(arguments.get("in_flight", 8)))
        self._waiting: list[list[bytes]] = []
        self._sent = threading.Semaphore(0)
        self.begins = np.zeros(plan.request_count)
        self.late = np.zeros(plan.request_count)
        self.ends = np.zeros(plan.request_count)
        self.bytes = 0
        self.failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._guard, args=(each,)) for each in (self._send, self._receive)]

    def start(self) -> None:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Return when all is answered.

        Raises:
            Exception: what went wrong first.
        """
        for thread in self._threads:
            thread.join()
        self._connection.close()
        if self.failures:
            raise self.failures[0]
        if not self.ends.all():
            raise Unaccounted(f"{np.count_nonzero(self.ends == 0)} requests without an answer")

    def _guard(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except Exception as error:
            self.failures.append(error)
            self._connection.close()
            self._room.release()
            self._sent.release()

    def _send(self) -> None:
        for number, request in enumerate(self._requests):
            intended = None if self._interval is None else self._began + number * self._interval
            if intended is not None and (wait := intended - time.monotonic()) > 0:
                time.sleep(wait)
            self._room.acquire()
            if self.failures:
                return
            now = time.monotonic()
            self.begins[number] = now if intended is None else intended
            self.late[number] = now - self.begins[number]
            self._waiting.append(request.names)
            self._sent.release()
            self._connection.send(request.data)
            self.bytes += len(request.data)

    def _receive(self) -> None:
        for number in range(len(self.ends)):
            # No longer than a request's deadline, once one is under way: the socket has its own.
            self._sent.acquire()
            if self.failures:
                return
            answer = self._connection.receive(number)
            self.ends[number] = time.monotonic()
            check_produce_answer(answer, self._waiting[number])
            self._waiting[number] = []
            self._room.release()


def prepare(arguments: Arguments) -> Run:
    """Encode, and connect."""
    topics = topic_names(arguments["topics"])
    content = Content(int(arguments["record_bytes"]))
    count = int(arguments.get("batch_records", 1))
    rounds, more = divmod(int(arguments["records"]), len(topics) * count)
    if more or not rounds:
        raise ValueError(f"records must be a multiple of topics x batch_records, {len(topics) * count}")
    numbers = np.arange(len(topics))
    if arguments.get("shuffle"):
        numbers = np.random.default_rng(2).permutation(numbers)
    names = [string(topic, True) for topic in topics]
    form = BatchForm(count, content.record_bytes)
    connections = int(arguments.get("connections", 1))
    lanes = []
    for own in np.array_split(numbers, connections):
        plan = Plan(
            content=content,
            form=form,
            producer=int(arguments.get("producer", 0)),
            first_sequence=int(arguments.get("first_sequence", 0)),
            numbers=own,
            names=names,
            rounds=rounds,
            per_request=min(int(arguments.get("topics_per_request", 1000)), len(own)),
        )
        rate = arguments.get("rate")
        lanes.append(Lane(arguments, plan, None if rate is None else rate * len(own) / len(topics)))
    return lambda: _run(lanes, arguments, content.record_bytes)


def _run(lanes: list[Lane], arguments: Arguments, record_bytes: int) -> Figures:
    began = time.monotonic()
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.finish()
    begins, ends = (np.concatenate([getattr(lane, name) for lane in lanes]) for name in ("begins", "ends"))
    records = int(arguments["records"])
    figures: Figures = {
        "seconds": float(ends.max()) - began,
        "records": records,
        "bytes": records * record_bytes,
        "requests": len(ends),
        "request_bytes": sum(lane.bytes for lane in lanes),
        "requests_latency": spread(ends - begins),
    }
    if arguments.get("rate") is not None:
        figures["late"] = spread(np.concatenate([lane.late for lane in lanes]))
    return figures


if __name__ == "__main__":
    main(prepare)
