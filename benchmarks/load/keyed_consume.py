"""Reads topics of several partitions with librdkafka and checks a copy by key.

Every record is there once, those of a partition in the order in which they were produced, those of a key in one.

Arguments: bootstrap, topics, partitions (of each topic), keys (as producer.py had), records (expected in all),
record_bytes; optional: deadline_seconds (60 without a record).
Figures: records, seconds, cpu_seconds.
"""

from __future__ import annotations

import time

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from benchmarks.load.content import Content, Longs, WrongContent, topic_names
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main

_AT_ONCE = 10_000


class KeyedCheck:
    """What has been read of topics whose records went to partitions by their keys."""

    def __init__(self, topics: int, partitions: int, keys: int, records: int) -> None:
        self._partitions = partitions
        self._keys = keys
        self._times = np.zeros((topics, -(-records // topics)), np.int64)
        self._last = np.full(topics * partitions, -1, np.int64)
        self._home = np.full(topics * keys, -1, np.int64)

    def take(self, topics_read: Longs, partitions: Longs, topics: Longs, sequences: Longs) -> None:
        """Records in the order of their arrival.

        Raises:
            WrongContent: one is in another topic, or out of order, or not where others with its key are.
        """
        if (topics_read != topics).any():
            raise WrongContent("a record was read in another topic than it was produced to")
        np.add.at(self._times, (topics, sequences), 1)
        places = topics * self._partitions + partitions
        order = np.argsort(places, kind="stable")
        places, sequences, partitions = places[order], sequences[order], partitions[order]
        starts = np.concatenate(([True], places[1:] != places[:-1]))
        before = np.where(starts, self._last[places], np.concatenate(([-1], sequences[:-1])))
        if (wrong := np.flatnonzero(sequences <= before)).size:
            raise WrongContent(f"record {sequences[wrong[0]]} of a partition after record {before[wrong[0]]}")
        ends = np.concatenate((starts[1:], [True]))
        self._last[places[ends]] = sequences[ends]
        owners = topics[order] * self._keys + sequences % self._keys
        fresh = self._home[owners] < 0
        self._home[owners[fresh]] = partitions[fresh]
        if (self._home[owners] != partitions).any():
            raise WrongContent("records of one key are in two partitions")

    def end(self, records: int) -> None:
        """Raises: WrongContent: not every record was there once."""
        once, more = int((self._times == 1).sum()), int((self._times > 1).sum())
        if once != records or more:
            raise WrongContent(f"{once} records once and {more} more often, of {records}")


def prepare(arguments: Arguments) -> Run:
    """Connect, and be at the beginnings."""
    names = topic_names(arguments["topics"])
    partitions = int(arguments["partitions"])
    consumer = Consumer({"bootstrap.servers": arguments["bootstrap"], "group.id": "check", "log_level": 2})
    consumer.assign([TopicPartition(name, part, OFFSET_BEGINNING) for name in names for part in range(partitions)])
    return lambda: _run(consumer, names, arguments)


def _run(consumer: Consumer, names: list[str], arguments: Arguments) -> Figures:
    began = time.monotonic()
    records, keys = int(arguments["records"]), int(arguments["keys"])
    content = Content(int(arguments["record_bytes"]))
    check = KeyedCheck(len(names), int(arguments["partitions"]), keys, records)
    numbers = {name: number for number, name in enumerate(names)}
    read = 0
    while read < records:
        found = consumer.consume(_AT_ONCE, float(arguments.get("deadline_seconds", 60)))
        if not found:
            raise Unaccounted(f"nothing more after {read} of {records} records")
        _take(check, content, numbers, found)
        read += len(found)
    consumer.close()
    check.end(records)
    return {"records": read, "seconds": time.monotonic() - began}


def _take(check: KeyedCheck, content: Content, numbers: dict[str, int], found: list[Message]) -> None:
    if errors := [each.error() for each in found if each.error() is not None]:
        raise KafkaException(errors[0])
    values = np.frombuffer(b"".join(each.value() or b"" for each in found), np.uint8)
    _, topics, sequences = content.read(values.reshape(-1, content.record_bytes))
    read_in = np.array([numbers[each.topic() or ""] for each in found])
    check.take(read_in, np.array([each.partition() for each in found]), topics, sequences)


if __name__ == "__main__":
    main(prepare)
