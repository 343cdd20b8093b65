"""`kill -9` of the owner, and of the copy, while an idempotent producer writes at the copy, which puts aside."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import httpx
import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.conftest import PREFIX, STREAM, Pair
from tests.crash.test_forwarding import known
from tests.support.records import read_all
from tests.support.sites import Site
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

TOPIC = "put-aside"
PROBE = "probe"


class Writer:
    """An idempotent producer of librdkafka with its records, and at which offsets these were acknowledged."""

    def __init__(self, bootstrap: str, topic: str = TOPIC, timeout_ms: int = 120_000) -> None:
        self._topic = PREFIX + topic
        self.acknowledged: dict[bytes, int] = {}
        self.failed: list[str] = []
        self.sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": timeout_ms,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.ms": 50,
            }
        )

    def writes(self, records: int) -> None:
        """Send so many records, without waiting."""
        for _ in range(records):
            value = b"%d" % self.sent
            self._producer.produce(self._topic, value, partition=self.sent % 2, on_delivery=self._delivered)
            self.sent += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        offset, value = message.offset(), message.value()
        assert value is not None
        self.acknowledged[bytes(value)] = -1 if offset is None else offset

    def has_all(self) -> bool:
        """Whether everything is acknowledged."""
        self._producer.poll(0.05)
        assert self.failed == []
        return len(self.acknowledged) == self.sent

    def writes_until(self, condition: Callable[[], bool], what: str) -> None:
        """Write on, record after record, until something is so."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, what
            self.writes(1)
            wait_until(self.has_all, "the record is acknowledged")

    @property
    def last_offset(self) -> int:
        """Of the record that was sent last, in a batch of its own: librdkafka counts on from the -1 of a batch."""
        return self.acknowledged[b"%d" % (self.sent - 1)]

    def goes_aside(self) -> bool:
        """Whether the next record is put aside."""
        wait_until(self.has_all, "all is acknowledged")
        self.writes(1)
        wait_until(self.has_all, "the next is acknowledged")
        return self.last_offset == -1

    def tries(self) -> bool:
        """Whether a record is put aside before its time is over."""
        self.writes(1)
        self._producer.flush(WAIT_SECONDS)
        return set(self.acknowledged.values()) == {-1}


def knows_its_owner_is_away(replica: Site) -> bool:
    """A batch that was on its way when the owner went waits for it; those that come later are put aside."""
    return Writer(replica.kafka, PROBE, timeout_ms=3_000).tries()


def test_a_producer_goes_on_over_kills_and_each_record_is_in_the_topic_once(pair: Pair) -> None:
    """The owner is killed, then the copy while it puts aside; the producer goes on aside after its restart, and to the
    owner once that is back. Then the copy is made the owner, and claims what it has put aside."""
    source, replica = pair.source, pair.replica
    here, there = f"/mapr/{source.name}{STREAM}", f"/mapr/{replica.name}{STREAM}"
    source.cli("stream", "replica", "edit", "-path", here, "-replica", there, "-acceptwrites", "true")
    replica.cli("stream", "edit", "-path", there, "-forwardwrites", "true", "-pending", "true")
    admin = AdminClient({"bootstrap.servers": source.kafka})
    for future in admin.create_topics([NewTopic(PREFIX + each, 2) for each in (TOPIC, PROBE)]).values():
        future.result(WAIT_SECONDS)
    wait_until(lambda: known(replica, [TOPIC, PROBE]), "the copy knows the topics")
    writer = Writer(replica.kafka)
    writer.writes(100)
    assert not writer.goes_aside()
    source.kill()
    wait_until(lambda: knows_its_owner_is_away(replica), "the copy knows that its owner is away")
    writer.writes(100)
    assert writer.goes_aside()
    writer.writes(500)
    replica.kill()
    replica.start()
    assert writer.goes_aside(), "it goes on where it was"
    source.start()
    writer.writes_until(lambda: writer.last_offset >= 0, "the producer writes to the owner again")
    wait_until(lambda: source.in_sync(STREAM), "the copy has all of it")
    source.cli(
        *(
            "stream",
            "topic",
            "transfer",
            "-path",
            here,
            "-topic",
            TOPIC,
            "-to",
            replica.name,
            "-oneway",
            "true",
            "--yes",
        )
    )
    wait_until(lambda: owned_at(pair, there), "the copy is the owner")
    replica.cli("stream", "topic", "claim", "-path", there, "-topic", f"{TOPIC}.pending.{replica.name}")
    writer.writes(100)
    wait_until(writer.has_all, "the copy writes it now")
    stored = Counter(content.value for content in read_all(replica.kafka, [TOPIC], prefix=PREFIX).values())
    assert stored == Counter(writer.acknowledged.keys())
    replica.cli("stream", "edit", "-path", there, "-pending", "false")


def owned_at(pair: Pair, path: str) -> bool:
    """The copy knows that it owns the topic."""
    params = {"path": STREAM, "topic": TOPIC}
    answer = httpx.get(f"{pair.replica.url}/rest/stream/topic/info", params=params, timeout=WAIT_SECONDS).json()
    return all(row["owner"] == path and row["pendingrecords"] == 0 for row in answer["data"])
