"""Reads many topics with Fetch requests over one plain socket and checks every record: for after the load.

Arguments: bootstrap, topics; optional: records (expected in all), record_bytes with check (true if record_bytes is
there): content, and that each sequence is there once and in order, producers ([0]), first_sequence (0),
topics_per_request (1,000), partition_bytes (1 MiB), answer_bytes (64 MiB), deadline_seconds (60 without an answer).
Figures: seconds, records, bytes (of values, with check), batches, answer_bytes, requests, topics, topic_records_min,
topic_records_max, cpu_seconds.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.load.content import Content, SequenceCheck, topic_names
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main
from benchmarks.load.raw import (
    FETCH,
    FETCH_VERSION,
    BatchRecords,
    Connection,
    Fetched,
    batches_of,
    fetch_body,
    frame,
    read_fetch_answer,
    values_of,
)
from fairlead.protocol.wire import string


class Reading:
    """Where each topic stands, and what was found so far."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self.names = [string(topic, True) for topic in topic_names(arguments["topics"])]
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self.offsets = np.zeros(len(self.names), np.int64)
        self.counts = np.zeros(len(self.names), np.int64)
        self.batches = self.answer_bytes = self.requests = 0
        self._connection = Connection(arguments["bootstrap"], float(arguments.get("deadline_seconds", 60)))
        self._content = Content(int(arguments["record_bytes"])) if arguments.get("record_bytes") else None
        first = int(arguments.get("first_sequence", 0))
        self._sequences = SequenceCheck(len(self.names), arguments.get("producers", [0]), first)

    def read(self, numbers: list[int]) -> None:
        """These topics, until each is at its end.

        Raises:
            Unaccounted: answers bring nothing, though there is more.
        """
        while numbers:
            before = self.answer_bytes, int(self.offsets[numbers].sum())
            fetched = self._fetch(numbers)
            left = self._take(fetched)
            if len(left) == len(numbers) and int(self.offsets[numbers].sum()) == before[1]:
                raise Unaccounted(f"nothing more of {self.names[left[0]]!r} after offset {self.offsets[left[0]]}")
            numbers = left

    def _fetch(self, numbers: list[int]) -> list[Fetched]:
        places = (
            int(self._arguments.get("partition_bytes", 1 << 20)),
            int(self._arguments.get("answer_bytes", 1 << 26)),
        )
        body = fetch_body([self.names[number] for number in numbers], self.offsets[numbers].tolist(), *places)
        self._connection.send(frame(FETCH, FETCH_VERSION, self.requests, body))
        answer = self._connection.receive(self.requests)
        self.requests += 1
        self.answer_bytes += len(answer)
        fetched = read_fetch_answer(answer)
        if len(fetched) != len(numbers):
            raise Unaccounted(f"{len(fetched)} topics in the answer to {len(numbers)}")
        return fetched

    def _take(self, fetched: list[Fetched]) -> list[int]:
        """Count and check; the topics that have more."""
        left = []
        found: list[BatchRecords] = []
        owners, counts = [], []
        for name, high_watermark, records in fetched:
            number = self._numbers[name]
            batches = batches_of(records)
            if batches:
                self.offsets[number] = batches[-1].next_offset
                count = sum(batch.record_count for batch in batches)
                self.counts[number] += count
                owners.append(number)
                counts.append(count)
                found += batches
            if self.offsets[number] < high_watermark:
                left.append(number)
        self.batches += len(found)
        if self._content is not None and found:
            values = values_of(found, self._content.record_bytes)
            self._sequences.take(np.repeat(owners, counts), *self._content.read(values))
        return left


def prepare(arguments: Arguments) -> Run:
    """Connect, and compile."""
    reading = Reading(arguments)
    values_of([BatchRecords(1, 0, b"")], 100)
    return lambda: _run(reading, arguments)


def _run(reading: Reading, arguments: Arguments) -> Figures:
    began = time.monotonic()
    per_request = int(arguments.get("topics_per_request", 1000))
    topics = len(reading.names)
    for start in range(0, topics, per_request):
        reading.read(list(range(start, min(topics, start + per_request))))
    seconds = time.monotonic() - began
    records = int(reading.counts.sum())
    if records != arguments.get("records", records):
        raise Unaccounted(f"{records} records, not {arguments['records']}")
    figures: Figures = {
        "seconds": seconds,
        "records": records,
        "batches": reading.batches,
        "answer_bytes": reading.answer_bytes,
        "requests": reading.requests,
        "topics": topics,
        "topic_records_min": int(reading.counts.min()),
        "topic_records_max": int(reading.counts.max()),
    }
    if arguments.get("record_bytes"):
        figures["bytes"] = records * int(arguments["record_bytes"])
    return figures


if __name__ == "__main__":
    main(prepare)
