"""When readers are given partitions of a Kafka cluster anew, and what they say of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from tests.gateway.from_kafka.test_parting import Readers

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka.giving import Giving
from fairlead.gateway.from_kafka.granting import KafkaGranting
from fairlead.wire.control import KafkaReport

RECORD = KafkaUpstream(b"s" * 16, "old", b"l" * 16, "/file", "the-one", "ships")
STREAM = cast(Stream, None)


class Timers:
    """Those of a loop, which a test ends."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.ends: Callable[[], None] = lambda: None

    def call_later(self, seconds: float, ends: Callable[[], None]) -> asyncio.TimerHandle:
        self.seconds.append(seconds)
        self.ends = ends
        return cast(asyncio.TimerHandle, self)

    def cancel(self) -> None:
        self.ends = lambda: None


async def test_what_is_refused_again_is_given_later_each_time_until_records_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a batch that can never be taken would be read without end. Several refusals of one giving are one."""
    timers, woken = Timers(), list[None]()
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", timers.call_later)
    giving = Giving(cast(KafkaGranting, Readers()), 1.0, lambda: woken.append(None))

    def refused() -> None:
        giving.give(RECORD, STREAM, ())
        for _ in range(3):
            giving.refused(RECORD)
        assert not giving.is_due(RECORD, ())
        timers.ends()
        assert giving.is_due(RECORD, ())

    for _ in range(7):
        refused()
    giving.came()
    refused()
    assert timers.seconds == [1, 2, 4, 8, 16, 30, 30, 1]
    assert len(woken) == 8
    giving.refused(RECORD)
    giving.change()
    assert giving.is_due(RECORD, ())


def test_a_reader_that_reads_hides_no_other_one_that_waits() -> None:
    """What readers say holds until something else is given."""
    giving = Giving(cast(KafkaGranting, Readers()), 1.0, lambda: None)
    giving.give(RECORD, STREAM, ())
    giving.told(KafkaReport(1, "broker 2 is away", ()))
    giving.told(KafkaReport(2, "", ()))
    assert giving.waits_for == "broker 2 is away"
    giving.told(KafkaReport(1, "", ()))
    assert giving.waits_for == ""
    giving.told(KafkaReport(2, "broker 3 is away", ()))
    giving.give(RECORD, STREAM, ())
    assert giving.waits_for == ""
