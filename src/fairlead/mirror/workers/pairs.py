"""Which attempt at a worker's task holds its lanes: one, and only once both processes of the one before are gone.

Spark starts a task again when one of its processes dies, and may do so while the other still lives. That one is told to
withdraw; it ends its connection only when it sends nothing any more. So no two sinks send the same partition, as long
as a sink heeds what it is told. One that is suspended does not: `WITHDRAW_SECONDS` later its connection is cut, its
partitions go on elsewhere, and if it wakes, what it had queued may still be written, behind newer records. The new sink
sends all of that too: nothing is lost, but the doubles are out of order. In transactions it is fenced by then, and
nothing of it takes effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead.mirror.workers.line import Line
from fairlead.mirror.workers.messages import End, Withdraw

WITHDRAW_SECONDS: Final = 10.0
"""After so long, the connection of a sink that does not withdraw is cut."""


class Pair:
    """The two processes of one attempt."""

    def __init__(self) -> None:
        self.reader: Line | None = None
        self.sink: Line | None = None
        self.numbers: list[int] = []
        """Of the partitions that it was given."""
        self.broken = False
        """It will never hold anything again."""

    @property
    def complete(self) -> bool:
        return not self.broken and self.reader is not None and self.sink is not None

    @property
    def empty(self) -> bool:
        return self.reader is None and self.sink is None


class Slot:
    """One worker, whichever attempt does its task. `held` is called when an attempt becomes the holder, `lost` when it
    is gone."""

    def __init__(self, held: Callable[[Pair], None], lost: Callable[[Pair], None]) -> None:
        self.holder: Pair | None = None
        self._pairs: dict[int, Pair] = {}
        self._held = held
        self._lost = lost
        self.over = False
        """No attempt becomes the holder any more."""

    def reader_came(self, attempt: int, line: Line) -> Pair:
        """A reader is there."""
        pair = self._pair(attempt)
        pair.reader = line
        self._settle()
        return pair

    def sink_came(self, attempt: int, line: Line) -> Pair:
        """A sink is there."""
        pair = self._pair(attempt)
        pair.sink = line
        self._settle()
        return pair

    def gone(self, attempt: int, line: Line) -> None:
        """A process is not there any more."""
        pair = self._pairs[attempt]
        if pair.reader is line:
            pair.reader = None
        if pair.sink is line:
            pair.sink = None
        if not line.said_bye:
            self._break(pair)
        if pair.empty:
            del self._pairs[attempt]
            if self.holder is pair:
                self.holder = None
                self._lost(pair)
        self._settle()

    def end(self) -> None:
        """Its task ends in order, and nobody holds it after that."""
        self.over = True
        if self.holder is not None and self.holder.reader is not None:
            self.holder.reader.send(End())

    def _pair(self, attempt: int) -> Pair:
        return self._pairs.setdefault(attempt, Pair())

    def _settle(self) -> None:
        newest = self._pairs[max(self._pairs)] if self._pairs else None
        for pair in self._pairs.values():
            if pair is not newest and not pair.broken:
                self._break(pair)
        if newest is None or self.over or self.holder is not None or len(self._pairs) > 1 or not newest.complete:
            return
        self.holder = newest
        self._held(newest)

    def _break(self, pair: Pair) -> None:
        if pair.broken:
            return
        pair.broken = True
        if pair.reader is not None:
            pair.reader.cut()
        if pair.sink is not None:
            pair.sink.send(Withdraw())
            asyncio.get_running_loop().call_later(WITHDRAW_SECONDS, pair.sink.cut)
