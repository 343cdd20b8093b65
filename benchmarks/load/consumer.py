"""Consumes with librdkafka from the first record: what it counts is timed, what it checks is asked for.

Arguments: bootstrap, topics; optional: records (default: up to the high watermarks at the start), record_bytes (needed
to check), check (false): every record's content, and that each sequence arrives once and in order, producers ([0]),
first_sequence (0), fetch_bytes (a partition's in one answer, 4 MB), deadline_seconds (600), config (more settings of
librdkafka).
Figures: seconds (assignment to last record), first_record_seconds, records, bytes (of values), cpu_seconds; with check:
sequence_min, sequence_max (records of the shortest and the longest sequence). Without check no record is touched: the
messages are counted, and in the end the offsets at which the partitions stand must say the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from benchmarks.load.content import Content, SequenceCheck, WrongContent, topic_names
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main

_AT_ONCE = 10_000
_LOOK_SECONDS = 0.02
"""The longest wait for so many; the first record is noticed no later than this."""
_QUIET_SECONDS = 1.0
"""How long to look for records too many after the last one, when checking."""

Check = Callable[[Sequence[Message]], None]


def prepare(arguments: Arguments) -> Run:
    """Connect, and see where each topic ends."""
    topics = topic_names(arguments["topics"])
    consumer = Consumer(settings(arguments))
    records = arguments.get("records")
    if records is None:
        places = [TopicPartition(topic, 0) for topic in topics]
        ends = [consumer.get_watermark_offsets(place, timeout=30) for place in places]
        records = sum(high - low for low, high in ends)
    sequences = SequenceCheck(len(topics), arguments.get("producers", [0]), int(arguments.get("first_sequence", 0)))
    check = checker(topics, int(arguments["record_bytes"]), sequences) if arguments.get("check") else None
    consumer.list_topics(topics[0], timeout=30)
    return lambda: _run(consumer, topics, int(records), check, sequences, arguments)


def settings(arguments: Arguments) -> dict[str, object]:
    """librdkafka's: a deep queue, no commits."""
    return {
        "bootstrap.servers": arguments["bootstrap"],
        "group.id": "benchmark",
        "log_level": 2,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "check.crcs": bool(arguments.get("check", False)),
        "fetch.wait.max.ms": 10,  # everything is there: a long wait would only hold up partitions that start later
        "fetch.message.max.bytes": arguments.get("fetch_bytes", 4_000_000),
        "fetch.max.bytes": 64_000_000,
        "receive.message.max.bytes": 100_000_000,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 128_000,
        "fetch.queue.backoff.ms": 10,
        **arguments.get("config", {}),
    }


def checker(topics: Sequence[str], record_bytes: int, sequences: SequenceCheck) -> Check:
    """What takes the consumed records, in order, and holds them against what was produced."""
    content = Content(record_bytes)
    numbers = {topic: number for number, topic in enumerate(topics)}

    def check(messages: Sequence[Message]) -> None:
        values = b"".join([message.value() or b"" for message in messages])
        if len(values) != len(messages) * record_bytes:
            raise WrongContent(f"{len(values)} bytes in {len(messages)} records of {record_bytes}")
        rows = np.frombuffer(values, np.uint8).reshape(len(messages), record_bytes)
        sequences.take([numbers[message.topic() or ""] for message in messages], *content.read(rows))

    return check


def _run(
    consumer: Consumer,
    topics: list[str],
    records: int,
    check: Check | None,
    sequences: SequenceCheck,
    arguments: Arguments,
) -> Figures:
    began = last = time.monotonic()
    deadline = began + float(arguments.get("deadline_seconds", 600))
    first_seconds = None
    seen = 0
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    while seen < records:
        messages = consumer.consume(min(_AT_ONCE, records - seen), _LOOK_SECONDS)
        if messages:
            last = time.monotonic()
            first_seconds = last - began if first_seconds is None else first_seconds
            seen += _count(messages, check)
        elif time.monotonic() > deadline:
            raise Unaccounted(f"{seen} of {records} records arrived in time")
    figures: Figures = {"seconds": last - began, "first_record_seconds": first_seconds, "records": seen}
    if "record_bytes" in arguments:
        figures["bytes"] = seen * int(arguments["record_bytes"])
    stands = sum(max(0, place.offset) for place in consumer.position([TopicPartition(topic, 0) for topic in topics]))
    if check is None and stands != records:
        raise Unaccounted(f"{records} messages, but the partitions stand at {stands} records")
    if check is not None:
        if more := consumer.consume(_AT_ONCE, _QUIET_SECONDS):
            raise Unaccounted(f"{_count(more, check)} records more than {records}")
        figures["sequence_min"], figures["sequence_max"] = sequences.spread()
    consumer.close()
    return figures


def _count(messages: Sequence[Message], check: Check | None) -> int:
    for message in messages if check is not None else (messages[0], messages[-1]):
        if (error := message.error()) is not None:
            raise KafkaException(error)
    if check is not None:
        check(messages)
    return len(messages)


if __name__ == "__main__":
    main(prepare)
