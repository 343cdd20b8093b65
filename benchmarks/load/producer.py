"""Produces with librdkafka as fast as it goes: batches of records to topic after topic, partition 0.

Arguments: bootstrap ("mock": librdkafka's own broker in this process, which shows the ceiling of the client), topics,
records (in all), record_bytes; optional: producer (0) a number that the records carry, first_sequence (0),
topic_numbers (0, 1, ..), acks ("all"), linger_ms (5), batch_bytes (1,000,000), compression ("none"), idempotent
(false), turn (records to a topic before the next one has its turn), keys (0: none; so many, in turns by the sequence),
config (more settings of librdkafka).
The client's time for a record grows with the number of topics when turns are short: raw_produce.py is for many topics.
Figures: seconds (first produce to last acknowledgement), queued_seconds (to the last produce), records, bytes (of
values), cpu_seconds (of this process).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from confluent_kafka import KafkaError, Message, Producer

from benchmarks.load.content import Content, as_bytes, topic_names
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main

_TURN_RECORDS = 10_000
"""Records that are made at once, and the most that go to one topic before the next."""
_TURN_BYTES = 8_000_000
"""The same in bytes, for large records."""
_QUEUE_BYTES = 256_000_000
"""Values that wait in librdkafka: enough for full batches, small beside the server's memory."""
_QUEUE_RECORDS_MAX = 500_000
_METADATA_TOPICS_MAX = 2_000
"""More topics than this are not asked for one by one before the gate opens."""
_METADATA_SECONDS = 30.0
_SECONDS = 600.0
"""For the last acknowledgements; librdkafka gives up on a record after 300."""


def prepare(arguments: Arguments) -> Run:
    """Connect, and know the topics."""
    topics = topic_names(arguments["topics"])
    failures: list[str] = []

    def failed(error: KafkaError, message: Message) -> None:
        if error is not None:
            failures.append(f"{message.topic()}: {error}")

    content = Content(int(arguments["record_bytes"]))
    room = queue_records(content.record_bytes)
    producer = Producer({**settings(arguments, room), "on_delivery": failed})
    know(producer, topics[:_METADATA_TOPICS_MAX])
    content.messages(0, 0, 0, 1)
    return lambda: _run(producer, content, topics, arguments, failures, room)


def know(producer: Producer, topics: Sequence[str]) -> None:
    """Have the client know where the topics lie; a topic that was only just made may take a moment.

    Raises:
        Unaccounted: a topic cannot be had.
    """
    deadline = time.monotonic() + _METADATA_SECONDS
    for topic in topics:
        while (error := producer.list_topics(topic, timeout=_METADATA_SECONDS).topics[topic].error) is not None:
            if time.monotonic() > deadline:
                raise Unaccounted(f"{topic}: {error}")
            time.sleep(0.1)


def turn_records(record_bytes: int) -> int:
    """Records of that size that are made at once."""
    return max(1, min(_TURN_RECORDS, _TURN_BYTES // record_bytes))


def queue_records(record_bytes: int) -> int:
    """Records that may wait in librdkafka."""
    return max(2 * turn_records(record_bytes), min(_QUEUE_RECORDS_MAX, _QUEUE_BYTES // record_bytes))


def settings(arguments: Arguments, room: int) -> dict[str, object]:
    """librdkafka's, for these arguments. Only failed records are called back: one a record costs more than all else."""
    mock = arguments["bootstrap"] == "mock"
    return {
        "bootstrap.servers": "" if mock else arguments["bootstrap"],
        **({"test.mock.num.brokers": 1} if mock else {}),
        "log_level": 2,  # what matters is raised; stderr is for one line
        "acks": arguments.get("acks", "all"),
        "linger.ms": arguments.get("linger_ms", 5),
        "batch.size": arguments.get("batch_bytes", 1_000_000),
        "batch.num.messages": 1_000_000,
        "message.max.bytes": max(1_000_000, 2 * int(arguments.get("batch_bytes", 1_000_000))),
        "compression.type": arguments.get("compression", "none"),
        "enable.idempotence": arguments.get("idempotent", False),
        "queue.buffering.max.messages": 2 * room,
        "queue.buffering.max.kbytes": 2_000_000,
        "delivery.report.only.error": True,
        **arguments.get("config", {}),
    }


class Turn(NamedTuple):
    """Records that go to one topic before the next has its turn."""

    topic: int
    sequence: int
    records: int


def turns(records: int, topics: int, longest: int) -> Iterator[Turn]:
    """In order; in the end the topics have equally many records, or one more."""
    each, more = divmod(records, topics)
    done = 0
    while done < each + bool(more):
        for topic in range(topics):
            count = min(longest, each + (topic < more) - done)
            if count > 0:
                yield Turn(topic, done, count)
        done += longest


def blocks(all_turns: Iterable[Turn], records: int) -> Iterator[list[Turn]]:
    """Turns put together until they are `records` or more, which are worth making as one array."""
    block: list[Turn] = []
    size = 0
    for turn in all_turns:
        block.append(turn)
        size += turn.records
        if size >= records:
            yield block
            block, size = [], 0
    if block:
        yield block


def _messages(
    content: Content, producer: int, block: list[Turn], numbers: Sequence[int], first: int, keys: Sequence[bytes]
) -> Iterator[dict[str, bytes]]:
    """The records of all the turns, as produce_batch takes them."""
    places, sequences, counts = np.array(block).T
    starts = np.cumsum(counts) - counts
    each = np.repeat(first + sequences - starts, counts) + np.arange(counts.sum())
    values = as_bytes(content.values(producer, np.repeat([numbers[place] for place in places], counts), each))
    if not keys:
        return iter([{"value": value} for value in values])
    return iter(
        [{"value": value, "key": keys[key]} for value, key in zip(values, (each % len(keys)).tolist(), strict=True)]
    )


def _run(
    producer: Producer, content: Content, topics: list[str], arguments: Arguments, failures: list[str], room: int
) -> Figures:
    records, number = int(arguments["records"]), int(arguments.get("producer", 0))
    first = int(arguments.get("first_sequence", 0))
    numbers = arguments.get("topic_numbers") or range(len(topics))
    keys = [b"%06d" % key for key in range(int(arguments.get("keys", 0)))]
    at_once = turn_records(content.record_bytes)
    longest = min(int(arguments.get("turn") or max(1, at_once // len(topics))), at_once)
    began = time.monotonic()
    for block in blocks(turns(records, len(topics), longest), at_once):
        messages = _messages(content, number, block, numbers, first, keys)
        for topic, _, count in block:
            # A queue that was full in the middle of a batch would let the records after it overtake those before it.
            while len(producer) + count > room:
                producer.poll(0.002)
            queued = producer.produce_batch(topics[topic], list(islice(messages, count)), 0)
            if queued != count:
                raise Unaccounted(f"the client's queue took {queued} of {count} records")
        producer.poll(0)
        if failures:
            raise Unaccounted(failures[0])
    queued_at = time.monotonic()
    left = producer.flush(_SECONDS)
    ended = time.monotonic()
    if left or failures:
        raise Unaccounted(f"{left} records without an answer, {len(failures)} refused; {failures[:1]}")
    return {
        "seconds": ended - began,
        "queued_seconds": queued_at - began,
        "records": records,
        "bytes": records * content.record_bytes,
    }


if __name__ == "__main__":
    main(prepare)
