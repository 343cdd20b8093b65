"""Records of every kind, written all the while: each has a number of its own in its partition, in a header.

What a source has taken is what counts; a writer that is refused goes on with the next number.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from tests.crash.mirrors.ends import End
from tests.support.mirrors import grow_topic, make_topic

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
STAMP: Final = "stamp"
COMPACTED_KEYS: Final = 40
_BATCH: Final = 10
_DAY_MS: Final = 86_400_000


@dataclass
class Topic:
    """One that is written."""

    name: str
    partitions: int
    compacted: bool = False
    old: bool = False
    """Its records are ten days old. Kafka forgets a producer once its newest record, by the record's own time, is a day
    old, at the latest when the broker begins anew: then it takes again what it has taken already."""
    written: dict[int, int] = field(default_factory=dict)
    """By partition: the next number."""


class Load:
    """Writes until the block ends. `pause_seconds` lies between two batches of a writer."""

    def __init__(self, source: End, prefix: str, seed: int, pause_seconds: float = 0.05) -> None:
        self.topics: list[Topic] = []
        self._source = source
        self._prefix = prefix
        self._choose = random.Random(seed)
        self._pause = pause_seconds
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failed: list[BaseException] = []
        self._made = 0
        self._began_ms = int(time.time() * 1000)

    def begin(self) -> None:
        """One topic of each kind; a partition for each codec."""
        plain = self._topic("codecs", len(CODECS))
        for partition, codec in enumerate(CODECS):
            self._write(plain, [partition], codec)
        self.new_topic()
        self._write(self._topic("compacted", 1, compacted=True), [0], "lz4")
        if self._source.keeps_all:
            self._write(self._topic("old", 1, old=True), [0], "zstd")
        if self._source.transactions:
            topic = self._topic("transactions", 2)
            self._spawn(lambda: self._transact(topic))

    def new_topic(self) -> None:
        """One more topic is made, and written at once."""
        self._made += 1
        topic = self._topic(f"new-{self._made}", 1)
        self._write(topic, [0], self._choose.choice(CODECS))

    def more_partitions(self) -> None:
        """The newest topic gets one more partition, which is written at once."""
        topic = [each for each in self.topics if "-new-" in each.name][-1]
        topic.partitions += 1
        grow_topic(self._source.inside, topic.name, topic.partitions)
        self._write(topic, [topic.partitions - 1], "zstd")

    @property
    def names(self) -> list[str]:
        return [topic.name for topic in self.topics]

    def end(self) -> None:
        """Write no more. Raises: what ended a writer."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        for error in self._failed:
            raise error

    def _topic(self, name: str, partitions: int, *, compacted: bool = False, old: bool = False) -> Topic:
        configs = {"retention_ms": "-1"}
        if compacted:
            configs |= {"cleanup_policy": "compact"}
            if self._source.compacts:
                configs |= {"segment_ms": "1000", "min_cleanable_dirty_ratio": "0.01", "max_compaction_lag_ms": "1000"}
        topic = Topic(f"{self._prefix}-{name}", partitions, compacted, old)
        make_topic(self._source.inside, topic.name, partitions, replicas=self._source.replicas, **configs)
        self.topics.append(topic)
        return topic

    # ------------------------------------------------------------ writers

    def _spawn(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self._failed.append(error)

        thread = threading.Thread(target=guarded)
        self._threads.append(thread)
        thread.start()

    def _write(self, topic: Topic, partitions: list[int], codec: str) -> None:
        self._spawn(lambda: self._write_batches(topic, partitions, codec))

    def _write_batches(self, topic: Topic, partitions: list[int], codec: str) -> None:
        # Idempotent, and as patient as it takes: what a broker has taken is there once and in order.
        producer = Producer(
            {
                "bootstrap.servers": self._source.inside,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "compression.type": codec,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        while not self._ending.is_set():
            for partition in partitions:
                self._put(producer, topic, partition)
            producer.poll(0)
            self._ending.wait(self._pause)
        assert producer.flush(120) == 0, f"{topic.name}: the source takes no more"

    def _put(self, producer: Producer, topic: Topic, partition: int) -> None:
        for _ in range(_BATCH):
            number = topic.written.get(partition, 0)
            topic.written[partition] = number + 1
            producer.produce(topic.name, partition=partition, **_record(number, topic, self._began_ms))

    def _transact(self, topic: Topic) -> None:
        """Every other transaction is aborted. What a broker does not let end, another producer of that id aborts."""
        turn = 0
        while not self._ending.is_set():
            try:
                producer = self._transactional(topic)
                while not self._ending.is_set():
                    producer.begin_transaction()
                    for partition in range(topic.partitions):
                        self._put(producer, topic, partition)
                    producer.flush(30)
                    turn += 1
                    (producer.abort_transaction if turn % 2 else producer.commit_transaction)(30)
                    self._ending.wait(2 * self._pause)
            except KafkaException:
                self._ending.wait(0.2)
        self._transactional(topic)  # nothing is left open

    def _transactional(self, topic: Topic) -> Producer:
        settings = {"transactional.id": topic.name, "transaction.timeout.ms": 20_000, "log_level": 0}
        producer = Producer({"bootstrap.servers": self._source.inside, **settings})
        producer.init_transactions(60)
        return producer


def _record(number: int, topic: Topic, now_ms: int) -> Mapping[str, Any]:
    """What a producer takes: with and without key and value, empty ones, headers without value, its own time."""
    kind = number % 7
    stamp = b"%d" % number
    key: bytes | None = b"key %d" % (number % COMPACTED_KEYS)
    value: bytes | None = stamp * (1 + number % 40)
    if kind == 1 and not topic.compacted:
        key = None
    elif kind == 2:
        value = None
    elif kind == 3 and not topic.compacted:
        key = value = b""
    headers: list[tuple[str, bytes | None]] = [(STAMP, stamp)]
    if kind == 4:
        headers += [("empty", None), ("twice", b"1"), ("twice", b"2")]
    return {"key": key, "value": value, "headers": headers, "timestamp": now_ms - 10 * _DAY_MS * topic.old + number}
