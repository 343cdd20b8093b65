"""What readers of one Kafka cluster hold: given when it, or who reads, has changed, and anew where something was
refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka.granting import KafkaGranting, Wanted
from fairlead.wire.control import KafkaReport

AGAIN_SECONDS_MAX: Final = 30.0
"""The longest pause where things are refused time and again."""
_DOUBLINGS_MAX: Final = 16


class Giving:
    """`wake` is called when what was refused may be given anew, `again_s` after the first time."""

    def __init__(self, granting: KafkaGranting, again_s: float, wake: Callable[[], None]) -> None:
        self._granting = granting
        self._again_s = again_s
        self._wake = wake
        self._given: tuple[Wanted, ...] | None = None
        self._waits: dict[int, str] = {}
        """By grant, what keeps its reader from reading."""
        self._refusals = 0
        """Since records came last."""
        self._pause: asyncio.TimerHandle | None = None
        """Nothing is given before it is over."""

    @property
    def waits_for(self) -> str:
        """What keeps a reader from reading; empty if all read."""
        return next(filter(None, self._waits.values()), "")

    def told(self, message: KafkaReport) -> None:
        """The reader of a grant that stands tells how it is."""
        self._waits[message.grant] = message.waits_for

    def is_due(self, record: KafkaUpstream, wanted: tuple[Wanted, ...]) -> bool:
        """Whether these are to be given now: something else is, or who reads has changed."""
        return self._pause is None and not (wanted == self._given and self._granting.stands(record))

    def give(self, record: KafkaUpstream, stream: Stream, wanted: tuple[Wanted, ...]) -> None:
        """Give these, and take back what was given before."""
        self._waits.clear()
        self._given = wanted if self._granting.give(record, stream, wanted) else None

    def take_back(self, record: KafkaUpstream, why: str) -> None:
        """Nothing is read until something is given again."""
        self._granting.take_back(record, why)
        self._given = None

    def refused(self, record: KafkaUpstream) -> None:
        """Something was refused or lost: all is given anew, each time later, while no record comes. What is refused
        again would be read without end."""
        self.take_back(record, "something was refused")
        if self._pause is None:
            seconds = min(self._again_s * 2.0 ** min(self._refusals, _DOUBLINGS_MAX), AGAIN_SECONDS_MAX)
            self._pause = asyncio.get_running_loop().call_later(seconds, self._end_pause)
            self._refusals += 1

    def came(self) -> None:
        """Records have come."""
        self._refusals = 0

    def change(self) -> None:
        """What is given is to be given in another way, at once."""
        self._given = None
        self._refusals = 0
        self.close()

    def close(self) -> None:
        """Wait for nothing."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _end_pause(self) -> None:
        self._pause = None
        self._wake()
