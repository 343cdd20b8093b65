"""Produces at a fixed rate whatever the server does, and says when each record was acknowledged and consumed.

Every record has an intended moment, start + number / rate, and all latencies count from it: a server that stalls is
charged for the records that it kept from being sent (no coordinated omission). Acknowledgement and consumption are
seen in this process, so one monotonic clock tells all times. Record number n goes to topic n mod topics, partition 0.

Arguments: bootstrap, topics, rate (records/s, 0.5 to 10,000), seconds; optional: record_bytes (200), consume_bootstrap
(absent: nothing is consumed), consume_topics (topics), consume_from ("end" | "beginning"), warm_records (0: so many
first ones are accounted for but not in the figures), producer (0; records of other producers are passed over), acks
("all"), linger_ms (0), batch_bytes, compression, idempotent (as producer.py), fetch_wait_ms (500), deadline_seconds
(60 after the last record), config and consume_config (more settings of librdkafka).
Figures: records, seconds, achieved_rate (records sent per second), cpu_seconds, and `latency.spread` of late (intended
to given to the client), acknowledged, consumed (with a consumer), acknowledged_to_consumed.
"""

from __future__ import annotations

import threading
import time

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from benchmarks.load import producer as fast
from benchmarks.load.content import Content, WrongContent, topic_names
from benchmarks.load.latency import spread
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main

_TICK_SECONDS = 0.0005
"""The sender sleeps no shorter than this: at 10,000 records/s it would else wake for each, and take its core."""
_AT_ONCE = 1_000


class Ledger:
    """The times of every record, on the monotonic clock; 0 is not yet."""

    def __init__(self, content: Content, arguments: Arguments, topics: int) -> None:
        count = int(float(arguments["rate"]) * float(arguments["seconds"]))
        if count < 1:
            raise ValueError("no record in so many seconds at that rate")
        self.producer = int(arguments.get("producer", 0))
        self._topics = topics
        numbers = np.arange(count)
        rows = content.values(self.producer, numbers % topics, numbers // topics)
        self.values = [row.tobytes() for row in rows]
        self.sent, self.acknowledged, self.consumed = ([0.0] * count for _ in range(3))
        self._last = [-1] * topics
        self.unconsumed = count
        self.failures: list[Exception] = []

    def note_acknowledged(self, error: KafkaError | None, message: Message) -> None:
        """Of one record; called by the client's poll."""
        now = time.monotonic()
        if error is not None:
            self.failures.append(KafkaException(error))
            return
        _, number = self.number_of(message.value() or b"")
        if self.acknowledged[number]:
            self.failures.append(Unaccounted(f"record {number} was acknowledged twice"))
        self.acknowledged[number] = now

    def note_consumed(self, message: Message, now: float) -> None:
        """Of one record.

        Raises:
            WrongContent: it is not as it was sent, came before, or came before an earlier one of its topic.
        """
        value = message.value() or b""
        producer, number = self.number_of(value)
        if producer != self.producer:
            return
        if number >= len(self.values) or self.values[number] != value:
            raise WrongContent(f"record {number} differs from what was produced")
        sequence, topic = divmod(number, self._topics)
        if sequence != self._last[topic] + 1:
            raise WrongContent(f"topic {topic}: record {sequence} arrived where {self._last[topic] + 1} was due")
        self._last[topic] = sequence
        self.consumed[number] = now
        self.unconsumed -= 1

    def number_of(self, value: bytes) -> tuple[int, int]:
        """Producer and number of a record."""
        topic = int.from_bytes(value[:6], "little")
        return int.from_bytes(value[6:8], "little"), int.from_bytes(value[8:16], "little") * self._topics + topic


class Reader:
    """Consumes in a thread of its own until everything has arrived or it is told to stop."""

    def __init__(self, arguments: Arguments, topics: list[str], ledger: Ledger) -> None:
        self._ledger = ledger
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._consumer = Consumer(
            {
                "bootstrap.servers": arguments["consume_bootstrap"],
                "group.id": "benchmark",
                "log_level": 2,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": arguments.get("fetch_wait_ms", 500),
                **arguments.get("consume_config", {}),
            }
        )
        places = [TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics]
        if arguments.get("consume_from", "end") == "end":
            for place in places:
                place.offset = self._consumer.get_watermark_offsets(place, timeout=30)[1]
        self._consumer.assign(places)
        self._consumer.poll(1)  # connections to the brokers are made now

    def start(self) -> None:
        self._thread.start()

    def finish(self, deadline: float) -> None:
        """Return when all has arrived, at the deadline, or at a failure; then look once for records too many."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        self._stop.set()
        self._thread.join()
        if not self._ledger.failures:
            self._guard(lambda: self._take(self._consumer.consume(_AT_ONCE, 0.2)))
        self._consumer.close()

    def _run(self) -> None:
        self._guard(self._consume)

    def _consume(self) -> None:
        while self._ledger.unconsumed and not self._stop.is_set():
            # consume() alone would wait for its whole time, or for that many.
            if (first := self._consumer.poll(0.1)) is not None:
                self._take([first])
                self._take(self._consumer.consume(_AT_ONCE, 0))

    def _take(self, messages: list[Message]) -> None:
        now = time.monotonic()
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            self._ledger.note_consumed(message, now)

    def _guard(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except Exception as error:
            self._ledger.failures.append(error)


def prepare(arguments: Arguments) -> Run:
    """Make the records, connect both ends."""
    topics = topic_names(arguments["topics"])
    content = Content(int(arguments.get("record_bytes", 200)))
    ledger = Ledger(content, arguments, len(topics))
    defaults = {"linger_ms": 0, "record_bytes": content.record_bytes}
    settings = fast.settings({**defaults, **arguments}, fast.queue_records(content.record_bytes))
    producer = Producer({**settings, "delivery.report.only.error": False, "on_delivery": ledger.note_acknowledged})
    fast.know(producer, topics)
    reader = None
    if arguments.get("consume_bootstrap"):
        reader = Reader(arguments, topic_names(arguments.get("consume_topics", topics)), ledger)
    return lambda: _run(producer, topics, ledger, reader, arguments)


def _run(producer: Producer, topics: list[str], ledger: Ledger, reader: Reader | None, arguments: Arguments) -> Figures:
    stop = threading.Event()
    poller = threading.Thread(target=_poll, args=(producer, stop))
    poller.start()
    if reader is not None:
        reader.start()
    try:
        intended = _send(producer, topics, ledger, float(arguments["rate"]))
        deadline = time.monotonic() + float(arguments.get("deadline_seconds", 60))
        left = producer.flush(max(0.0, deadline - time.monotonic()))
    finally:
        stop.set()
        poller.join()
        if reader is not None:
            reader.finish(time.monotonic() if ledger.failures else deadline)
    if ledger.failures:
        raise ledger.failures[0]
    unacknowledged = ledger.acknowledged.count(0.0)
    if left or unacknowledged:
        raise Unaccounted(f"{unacknowledged} of {len(intended)} records were not acknowledged")
    if reader is not None and ledger.unconsumed:
        raise Unaccounted(f"{ledger.unconsumed} of {len(intended)} records were not consumed")
    return _figures(ledger, intended, reader is not None, int(arguments.get("warm_records", 0)))


def _poll(producer: Producer, stop: threading.Event) -> None:
    while not stop.is_set():
        producer.poll(0.05)


def _send(producer: Producer, topics: list[str], ledger: Ledger, rate: float) -> np.ndarray:
    """The intended times."""
    began = time.monotonic() + _TICK_SECONDS
    count, places = len(ledger.values), len(topics)
    number = 0
    while number < count and not ledger.failures:
        wait = began + number / rate - time.monotonic()
        if wait > 0:
            time.sleep(max(wait, _TICK_SECONDS))
        now = time.monotonic()
        while number < count and began + number / rate <= now:
            ledger.sent[number] = time.monotonic()
            try:
                producer.produce(topics[number % places], ledger.values[number], partition=0)
            except BufferError:
                time.sleep(0.001)
                continue
            number += 1
    return began + np.arange(count) / rate


def _figures(ledger: Ledger, intended: np.ndarray, consumed: bool, warm: int) -> Figures:
    sent, acknowledged = np.array(ledger.sent), np.array(ledger.acknowledged)
    figures: Figures = {
        "records": len(intended) - warm,
        "seconds": float(acknowledged.max() - intended[0]),
        "achieved_rate": len(sent) / max(float(sent[-1] - intended[0]) + float(np.diff(intended[:2]).sum()), 1e-9),
        "late": spread((sent - intended)[warm:]),
        "acknowledged": spread((acknowledged - intended)[warm:]),
    }
    if consumed:
        arrived = np.array(ledger.consumed)
        figures["consumed"] = spread((arrived - intended)[warm:])
        figures["acknowledged_to_consumed"] = spread((arrived - acknowledged)[warm:])
    return figures


if __name__ == "__main__":
    main(prepare)
