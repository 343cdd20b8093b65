"""Reads what ProducerPerformance has produced and checks every byte.

Each such producer sends the same records: letters from a java.util.SplittableRandom(0), one after the other. So with P
producers each record has to be there P times, and no other. One producer's are in order within each partition.

Arguments: bootstrap, topic, partitions, records (in all), record_bytes; optional: producers (1), deadline_seconds (60
without a record).
Figures: records, cpu_seconds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from numba import njit

from benchmarks.load.content import WrongContent
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main

_AT_ONCE = 10_000
_QUIET_SECONDS = 0.5
"""How long to look for records too many."""

Hashes = npt.NDArray[np.uint64]


@njit(cache=True)
def hashes_sent(records: int, record_bytes: int) -> Hashes:
    """A hash (FNV-1a) of each record that a producer sends, in order."""
    found = np.empty(records, np.uint64)
    seed = np.uint64(0)
    for number in range(records):
        state = np.uint64(0xCBF29CE484222325)
        for _ in range(record_bytes):
            while True:
                seed += np.uint64(0x9E3779B97F4A7C15)
                mixed = (seed ^ (seed >> np.uint64(33))) * np.uint64(0x62A9D9ED799705F5)
                mixed = (mixed ^ (mixed >> np.uint64(28))) * np.uint64(0xCB24D0A5C88C35B3)
                drawn = mixed >> np.uint64(33)
                letter = drawn % np.uint64(26)
                if drawn - letter + np.uint64(25) < np.uint64(1 << 31):  # else Java draws again, to be fair
                    break
            state = (state ^ (letter + np.uint64(65))) * np.uint64(0x100000001B3)
        found[number] = state
    return found


@njit(cache=True)
def hashes_of(rows: npt.NDArray[np.uint8]) -> Hashes:
    """The same of rows of bytes."""
    found = np.empty(len(rows), np.uint64)
    for number in range(len(rows)):
        state = np.uint64(0xCBF29CE484222325)
        for byte in rows[number]:
            state = (state ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        found[number] = state
    return found


def check(found: list[Hashes], records: int, record_bytes: int, producers: int) -> None:
    """`found` has the hashes of each partition's records, in order.

    Raises:
        WrongContent: a record is missing, altered, there too often or, with one producer, out of order.
    """
    sent = hashes_sent(records // producers, record_bytes)
    order = np.argsort(sent)
    expected = np.repeat(sent[order], producers)
    read = np.sort(np.concatenate(found))
    if len(read) != len(expected) or (read != expected).any():
        unknown = len(np.setdiff1d(read, expected))
        missing = len(np.setdiff1d(expected, read))
        raise WrongContent(
            f"{len(read)} records for {len(expected)}: {unknown} altered, {missing} missing, others too often"
        )
    for partition, hashes in enumerate(found):
        numbers = order[np.searchsorted(sent, hashes, sorter=order)]
        if producers == 1 and (np.diff(numbers) <= 0).any():
            raise WrongContent(f"partition {partition}: records are out of order")


def prepare(arguments: Arguments) -> Run:
    """Connect."""
    consumer = Consumer(
        {
            "bootstrap.servers": arguments["bootstrap"],
            "group.id": "check",
            "log_level": 2,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 10,
            "fetch.message.max.bytes": 4_000_000,
            "queued.max.messages.kbytes": 64_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    return lambda: _run(consumer, arguments)


def _run(consumer: Consumer, arguments: Arguments) -> Figures:
    topic, partitions, records = arguments["topic"], int(arguments["partitions"]), int(arguments["records"])
    record_bytes = int(arguments["record_bytes"])
    found: list[list[Hashes]] = [[] for _ in range(partitions)]
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    seen = 0
    while seen < records:
        messages = consumer.consume(min(_AT_ONCE, records - seen), float(arguments.get("deadline_seconds", 60)))
        if not messages:
            raise Unaccounted(f"{seen} of {records} records arrived")
        seen += len(messages)
        _take(found, messages, record_bytes)
    if more := consumer.consume(_AT_ONCE, _QUIET_SECONDS):
        raise Unaccounted(f"{len(more)} records more than {records}")
    consumer.close()
    check([_whole(each) for each in found], records, record_bytes, int(arguments.get("producers", 1)))
    return {"records": seen}


def _take(found: list[list[Hashes]], messages: list[Message], record_bytes: int) -> None:
    for message in messages:
        if (error := message.error()) is not None:
            raise KafkaException(error)
    values = b"".join([message.value() or b"" for message in messages])
    if len(values) != len(messages) * record_bytes:
        raise WrongContent(f"{len(values)} bytes in {len(messages)} records of {record_bytes}")
    hashes = hashes_of(np.frombuffer(values, np.uint8).reshape(-1, record_bytes))
    places = np.array([message.partition() for message in messages])
    for partition in np.unique(places):
        found[partition].append(hashes[places == partition])


def _whole(parts: list[Hashes]) -> Hashes:
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


if __name__ == "__main__":
    main(prepare)
