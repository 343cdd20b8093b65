"""A site is killed: how long until a group that read there reads at the other site, with an ordinary client.

Two masters of one another. The client knows at once that its site is gone, so that its session time-out is left out:
from the kill to the first record at the other site. Beside it, in the same rounds, what the same client takes to go
there while both sites live: from its new consumer to the first record. The group has committed half of what it was
given; it is checked that nothing is skipped.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer
from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.systems import pair_fairlead
from benchmarks.systems.common import STREAM
from benchmarks.systems.fairlead import FairleadPair

RECORDS = 1000
_WAIT_SECONDS = 60


class Reader:
    """A member of a group of one; it reads one topic of one partition, and commits when it is told to."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def first(self) -> int:
        """The offset of the next record.

        Raises:
            CheckFailed: none came.
        """
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            if (message := self._consumer.poll(0.1)) is not None and message.error() is None:
                return _offset(message)
        raise CheckFailed("the group is given no record")

    def commit_half(self) -> int:
        """Read half of the records and commit them; the next offset."""
        while self.first() < RECORDS // 2 - 1:
            continue
        self._consumer.commit(asynchronous=False)
        return RECORDS // 2

    def close(self) -> None:
        self._consumer.close()


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def measure(folder: Path, point: Point) -> Figures:
    """Rounds of both, medians."""
    with pair_fairlead(folder) as pair:
        here, there = (f"/mapr/{each.site.name}{STREAM}" for each in (pair.source, pair.replica))
        pair.source.create_stream()
        line = ("-path", here, "-replica", there, "-multimaster", "true")
        pair.source.site.cli("stream", "replica", "autosetup", *line)
        pair.source.create_topics(1)
        topic = pair.source.topic(0)
        _write(pair, topic)
        alive, killed = [], []
        for number in range(point.settings["rounds"]):
            alive.append(_go(pair, f"alive-{number}", topic, lambda: None))
            killed.append(_go(pair, f"killed-{number}", topic, pair.source.site.kill))
            pair.source.site.start("server")
            wait_until(pair.in_sync, "the link goes on", _WAIT_SECONDS)
    return {
        "failover/reconnect": statistics.median(killed) / statistics.median(alive),
        "failover ms": 1000 * statistics.median(killed),
        "failover max ms": 1000 * max(killed),
        "reconnect ms": 1000 * statistics.median(alive),
    }


def _write(pair: FairleadPair, topic: str) -> None:
    producer = Producer({"bootstrap.servers": pair.source.bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, str(number))
    if producer.flush(_WAIT_SECONDS):
        raise KafkaException("not all was written")
    wait_until(pair.in_sync, "the other site has all", _WAIT_SECONDS)


def _go(pair: FairleadPair, group: str, topic: str, harm: Callable[[], None]) -> float:
    """Seconds from the harm to the first record at the other site."""
    before = Reader(pair.source.bootstrap, group, topic)
    committed = before.commit_half()
    wait_until(pair.in_sync, "the other site has all", _WAIT_SECONDS)
    began = time.monotonic()
    harm()
    after = Reader(pair.replica.bootstrap, group, topic)
    offset = after.first()
    took = time.monotonic() - began
    for reader in (after, before):
        reader.close()
    if offset > committed:
        raise CheckFailed(f"the group had committed {committed} and goes on at {offset}: records are skipped")
    return took


def _point(rounds: int) -> Point:
    return Point(f"{rounds}-rounds", {"rounds": rounds})


CASE = Case(name="failover", systems={HOME: measure}, points=[_point(20)], quick=[_point(2)])
