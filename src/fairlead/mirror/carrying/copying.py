"""One partition on its way: what was fetched of it and is not acknowledged, and how far it is mirrored.

Order is kept: sends go to the producer in the order of the source's offsets, and a producer keeps the order of each
partition of the destination. A batch of another origin goes through another producer, so it waits until everything
before it is acknowledged. A send that is refused for good stops the partition: nothing after it is sent, nothing lands
behind it where the partition keeps its number, and the position stays below it. One of many records that has become too
large, since the destination takes less than it said, is no such: once all is answered, the partition is fetched again
from its position, for smaller batches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.points import Segment
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.carrying.line import Line, Sent
from fairlead.mirror.carrying.settled import Settled, Step
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.lanes import Part
from fairlead.mirror.report import Tally
from fairlead.model.errors import BatchTooLarge, NotTried

BYTES_UNDER_WAY_MAX = 8 * 1024 * 1024
"""Of one partition; so that one whose leader is away does not take the memory of the others."""


class Sender(Protocol):
    """The producer of one origin."""

    def send(
        self, topic: str, partition: int, outgoing: Outgoing, *, in_order: bool = False
    ) -> asyncio.Future[int | None]:
        """Queue one batch; the future has its offset at the destination once it is durable there. `in_order`: nothing
        that was sent so behind it is durable before it."""
        ...


class Made(NamedTuple):
    """What became of one answer of the source for one partition: sends in the order of their offsets."""

    sends: Sequence[tuple[str, int, Outgoing]]
    """(origin, partition at the destination, batch)."""
    steps: Sequence[tuple[int, int, int]]
    """(number of sends, offset up to which everything is mirrored once they and all before are acknowledged, leader
    epoch of the record before that offset)."""
    stop: str | None = None
    """Why the partition cannot go on after these sends."""
    looped: int = 0
    """Records of the answer that were left out, since they came from the destination."""


class _Waiting(NamedTuple):
    origin: str
    partition: int
    outgoing: Outgoing
    step: Step


def is_to_be_split(outgoing: Outgoing, error: BaseException) -> bool:
    """Whether a batch was refused that may come in smaller ones."""
    return isinstance(error, BatchTooLarge) and outgoing.records > 1


class Copy(Standing):
    """A partition whose batches are sent in this process."""

    def __init__(
        self,
        part: Part,
        to: str,
        begin: Position,
        senders: Callable[[str], Sender],
        tally: Tally,
        moved: Callable[[Standing], None],
        end: int = -1,
        line: Line | None = None,
        again: Callable[[Copy], None] = lambda copy: None,
        smaller: Callable[[Copy, int], None] = lambda copy, size_bytes: None,
    ) -> None:
        """`line` is of a partition that keeps its number; `again` lets it be fetched again from its position, `smaller`
        makes batches of at most so many bytes from now on."""
        super().__init__(part, to, begin, tally, moved, end)
        self.frontier = begin.offset
        self._line = line
        self._looped = begin.looped
        self._settled = Settled(begin.offset, begin.epoch)
        self._senders = senders
        self._waiting: deque[_Waiting] = deque()
        self._sent = 0
        self._last: asyncio.Future[int | None] | None = None
        """What was sent last, until it was heard what became of it."""
        self._origin = ""
        self._again = again
        self._smaller = smaller
        self._goes_back = False
        """Once all is answered, it is fetched again from its position."""
        self._proven: int | None = None
        """So large batches were taken; None: none was too large yet."""
        self._alone = False
        """What has no answer yet is larger."""

    @property
    def position(self) -> Position:
        settled, looped = self._settled, self._looped + self._settled.looped
        position = Position(settled.offset, settled.epoch, self.part.topic, self.to, self.gone, looped=looped)
        return position if self._line is None else self._line.of(position)

    def take_kept(self) -> Sequence[Segment]:
        return () if self._line is None else self._line.take_kept()

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._settled.idle

    @property
    def at_rest(self) -> bool:
        """Whether an end need not wait for it."""
        return self.idle or self.stopped is not None

    def is_full(self, records_max: int) -> bool:
        """Whether no more of it is to be fetched for now."""
        return self.records_under_way >= records_max or self.bytes_under_way >= BYTES_UNDER_WAY_MAX

    def take(self, made: Made) -> None:
        """Send what was made of an answer, behind everything before."""
        if self.stopped is not None or self._goes_back:
            return
        sends = iter(made.sends)
        for number, (count, until, epoch) in enumerate(made.steps, 1):
            looped = made.looped if number == len(made.steps) else 0
            step = self._settled.add(until, epoch, count, looped)
            self.frontier = max(self.frontier or 0, until)
            for _ in range(count):
                self._queue(*next(sends), step)
        self._advanced()
        if made.stop is not None:
            self.stop(made.stop)
        self._pump()
        self._moved(self)

    def skip(self, until: int, lost: int) -> None:
        self.gone += lost
        self._settled.add(until, -1, 0)
        self.frontier = max(self.frontier or 0, until)
        self._advanced()
        self._moved(self)

    def _advanced(self) -> None:
        """The position may have moved over what needed no send."""
        if self._line is not None and self.stopped is None:
            self._line.passed(self._settled.offset)

    def _queue(self, origin: str, partition: int, outgoing: Outgoing, step: Step) -> None:
        self.records_under_way += outgoing.records
        self.bytes_under_way += outgoing.size_bytes
        self._waiting.append(_Waiting(origin, partition, outgoing, step))

    def _pump(self) -> None:
        while self._waiting and not self._fails and (self._sent == 0 or self._goes_along(self._waiting[0])):
            item = self._waiting.popleft()
            self._origin = item.origin
            self._alone = not self._is_proven(item)
            self._sent += 1
            # The partitions of others are theirs alone; where the key deals records, several come into one.
            in_order = self._line is not None
            future = self._senders(item.origin).send(self.to, item.partition, item.outgoing, in_order=in_order)
            future.add_done_callback(partial(self._answered, item))
            self._last = future

    @property
    def _fails(self) -> bool:
        """Whether what was sent last is refused, or was not tried, which is about to be heard."""
        last = self._last
        return last is not None and last.done() and not last.cancelled() and last.exception() is not None

    def _goes_along(self, item: _Waiting) -> bool:
        """Whether it may go behind what has no answer yet: if that is refused, nothing behind it may have landed."""
        return item.origin == self._origin and not self._alone and self._is_proven(item)

    def _is_proven(self, item: _Waiting) -> bool:
        return self._proven is None or item.outgoing.size_bytes <= self._proven

    def prove(self) -> None:
        """A batch for its topic was too large: from now on one that is larger than all that were taken goes alone."""
        self._proven = self._proven or 0

    def _answered(self, item: _Waiting, done: asyncio.Future[int | None]) -> None:
        self._sent -= 1
        self._last = None if done is self._last else self._last
        self.records_under_way -= item.outgoing.records
        self.bytes_under_way -= item.outgoing.size_bytes
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, NotTried):
            self._forget_waiting()
            self._goes_back = True
        elif error is not None and is_to_be_split(item.outgoing, error):
            self._forget_waiting()
            self._goes_back = True
            self._smaller(self, item.outgoing.size_bytes // 2)
        elif error is not None:
            self._forget_waiting()
            first, last = item.outgoing.first_offset, item.outgoing.last_offset
            self.refused = True
            self.stop(f"the destination refused what lies at offsets {first} to {last}: {error}")
            return
        else:
            if self._proven is not None:
                self._proven = max(self._proven, item.outgoing.size_bytes)
            self._tally.mirrored(self.part.topic, item.outgoing)
            self._tell(item.outgoing, item.partition, done.result())
            self._settled.acknowledged(item.step)
            self._advanced()
        self._pump()
        if self._goes_back and not self._sent and self.stopped is None:
            self._fetch_again()
        self._moved(self)

    def _fetch_again(self) -> None:
        """Nothing is under way: go on behind what is acknowledged."""
        position = self.position
        self._settled, self._looped = Settled(position.offset, position.epoch), position.looped
        self._goes_back = False
        self.went_back += 1
        self._again(self)

    def _tell(self, sent: Sent, partition: int, offset: int | None) -> None:
        """Where a batch lies at the destination. What lands behind a refused one is sent again some day."""
        if self._line is not None and self.stopped is None and not self._goes_back:
            self._line.heard(sent, offset)
        elif self._line is None and offset is not None:
            end = offset + sent.records
            self.ends[partition] = max(self.ends.get(partition, 0), end)

    def _forget_waiting(self) -> None:
        for item in self._waiting:
            self.records_under_way -= item.outgoing.records
            self.bytes_under_way -= item.outgoing.size_bytes
        self._waiting.clear()
