"""One partition on its way, each record once: what is fetched of it goes into transactions with the position behind it.

A step of its batches is a portion of a strand. Memory counts until batches are acknowledged, the position moves when
their transaction is committed. When one has failed, all that was under way is forgotten, and the partition is fetched
again from the last position that was committed. A batch that the destination refuses for good fails its transaction;
the second time nothing is sent from there on, so that what lies before it gets through.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairlead.mirror.books.book import Position
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.carrying.copying import Copy, Made, is_to_be_split
from fairlead.mirror.carrying.line import Line
from fairlead.mirror.carrying.settled import Settled, Step
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.exactly.lane import Lane
from fairlead.mirror.exactly.portions import Send
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Sender
from fairlead.mirror.report import Tally
from fairlead.model.errors import BadRequest


class _Sent(NamedTuple):
    """A batch that was acknowledged, without its bytes."""

    first_offset: int
    last_offset: int
    records: int
    size_bytes: int
    mixed: bool
    how: str
    partition: int
    at: int | None
    """Its offset at the destination."""


class _Portion:
    """A step, as a strand takes it."""

    def __init__(self, copy: ExactCopy, origin: str, sends: Sequence[Send], step: Step, looped: int) -> None:
        """`looped` records were left out up to here, in all."""
        self.part = copy.part
        self.origin = origin
        self.waits = False
        self.size_bytes = sum(send.outgoing.size_bytes for send in sends)
        self.step = step
        self.gone = False
        """It was dropped; answers that come later are nobody's."""
        self.sent: list[_Sent] = []
        """Batches that were acknowledged."""
        self._copy = copy
        self._sends = sends
        self._looped = looped

    def depart(self) -> Sequence[Send]:
        sends, self._sends = self._sends, ()
        return sends

    def answered(self, send: Send, done: asyncio.Future[int | None]) -> None:
        error = None if done.cancelled() else done.exception()
        if self.gone or done.cancelled():
            return
        if error is None:
            self._copy.acknowledged(self, send, done.result())
        elif isinstance(error, BadRequest):
            self._copy.refuse(send.outgoing, error)

    def position(self) -> Position:
        return self._copy.position_behind(self, self._looped)

    def committed(self) -> None:
        self._copy.commit(self)

    def dropped(self) -> None:
        self.gone = True


def _nobody(origin: str) -> Sender:
    raise AssertionError(f"a batch of {origin} goes through a transaction")


class ExactCopy(Copy):
    """A partition whose batches are sent in transactions of its lane."""

    def __init__(
        self,
        part: Part,
        to: str,
        begin: Position,
        lane: Lane,
        tally: Tally,
        moved: Callable[[Standing], None],
        end: int,
        again: Callable[[Copy], None],
        line: Line | None = None,
        smaller: Callable[[Copy, int], None] = lambda copy, size_bytes: None,
    ) -> None:
        """`again` and `smaller` as there."""
        super().__init__(part, to, begin, _nobody, tally, moved, end, line, again, smaller)
        self._lane = lane
        self._origin = part.cluster
        self._looped_behind = begin.looped
        """Records that were left out of all that was taken."""
        self._portions: deque[_Portion] = deque()
        """Wait until what is before them, of another origin, is committed."""
        self._open = 0
        """Portions that a strand has."""
        self._begins = False
        """Where it begins is not committed yet: what the books say of it does not count any more."""
        self._ahead: Line | None = None
        """What belongs together at both ends once the transaction that ends now is committed."""
        lane.add(self)

    @property
    def at_rest(self) -> bool:
        """What is under way of one that was stopped will still be committed."""
        return self.idle

    def take(self, made: Made) -> None:
        if self.stopped is not None:
            return
        sends, barrier = iter(made.sends), self._lane.barriers.get(self.part)
        for number, (count, until, epoch) in enumerate(made.steps, 1):
            its = [next(sends) for _ in range(count)]
            if barrier is not None and any(each.last_offset >= barrier[0] for _, _, each in its):
                self.refused = True
                self.stop(barrier[1])
                break
            origin = its[0][0] if its else (self._portions[-1].origin if self._portions else self._origin)
            looped = made.looped if number == len(made.steps) else 0
            self._put(origin, [Send(self.to, to, each) for _, to, each in its], until, epoch, looped)
        else:
            if made.stop is not None:
                self.stop(made.stop)
        self._pump()
        self._moved(self)

    def begin(self) -> None:
        """Commit where it begins, before all else."""
        self._begins = True
        self._put(self._origin, (), self._begin.offset, self._begin.epoch, waits=False)
        self._pump()

    def skip(self, until: int, lost: int) -> None:
        self.gone += lost
        self._put(self._portions[-1].origin if self._portions else self._origin, (), until, -1)
        self._pump()
        self._moved(self)

    def _put(
        self, origin: str, sends: Sequence[Send], until: int, epoch: int, looped: int = 0, *, waits: bool = True
    ) -> None:
        self.frontier = max(self.frontier or 0, until)
        self.records_under_way += sum(send.outgoing.records for send in sends)
        self.bytes_under_way += sum(send.outgoing.size_bytes for send in sends)
        self._looped_behind += looped
        step = self._settled.add(until, epoch, 1, looped)
        portion = _Portion(self, origin, sends, step, self._looped_behind)
        portion.waits = waits and not sends
        self._portions.append(portion)

    def _pump(self) -> None:
        while self._portions and (self._open == 0 or self._portions[0].origin == self._origin):
            portion = self._portions.popleft()
            self._origin = portion.origin
            self._open += 1
            self._lane.strand(portion.origin).put(portion)

    # ------------------------------------------------------------ from portions

    def acknowledged(self, portion: _Portion, send: Send, at: int | None) -> None:
        """The destination has a batch, which counts with its commit."""
        outgoing = send.outgoing
        self._land(outgoing)
        offsets, sizes = (outgoing.first_offset, outgoing.last_offset), (outgoing.records, outgoing.size_bytes)
        how = outgoing.mixed, str(outgoing.how)
        portion.sent.append(_Sent(*offsets, *sizes, *how, send.partition, at))
        self._moved(self)

    def refuse(self, outgoing: Outgoing, error: BadRequest) -> None:
        """The destination will never take a batch, or not as large as it is. Its transaction fails in both cases."""
        self._land(outgoing)
        if is_to_be_split(outgoing, error):
            self._smaller(self, outgoing.size_bytes // 2)
            return
        first, last = outgoing.first_offset, outgoing.last_offset
        barriers = self._lane.barriers
        if self.part not in barriers or first < barriers[self.part][0]:
            barriers[self.part] = first, f"the destination refused what lies at offsets {first} to {last}: {error}"

    def position_behind(self, portion: _Portion, looped: int) -> Position:
        """The position once this portion is committed, which is asked of those of a transaction in their order."""
        step = portion.step
        position = Position(step.until, step.epoch, self.part.topic, self.to, self.gone, looped=looped)
        if self._line is None or self.stopped is not None:
            return position
        self._ahead = self._line.ahead() if self._ahead is None else self._ahead
        for sent in portion.sent:
            self._ahead.heard(sent, sent.at)
        self._ahead.passed(step.until)
        return self._ahead.of(position)

    def commit(self, portion: _Portion) -> None:
        """A portion has taken effect, and all before it."""
        self._begins = False
        self._ahead = None
        self._open -= 1
        for sent in portion.sent:
            self._tally.count(self.part.topic, sent.records, sent.size_bytes, sent.how)
            self._tell(sent, sent.partition, sent.at)
        self._settled.acknowledged(portion.step)
        self._advanced()
        self.recorded = self.position
        self._pump()
        self._moved(self)

    def _land(self, outgoing: Outgoing) -> None:
        self.records_under_way -= outgoing.records
        self.bytes_under_way -= outgoing.size_bytes

    # ------------------------------------------------------------ from the lane

    def go_back(self, position: Position | None) -> None:
        """All that was under way is as if it never was; fetch again from there, or from where it begins, if that is not
        committed yet.

        Raises:
            BadRequest: that is committed, and there is no position.
        """
        self.went_back += 1
        if self._begins:
            self._forget(self._begin)
            self.begin()
        elif position is not None:
            self._forget(position)
        else:
            raise BadRequest(
                f"{self.part}: its position is gone from the topic of positions, so nobody knows what was mirrored"
            )
        self._moved(self)
        if self.stopped is None:
            self._again(self)

    def give_up(self) -> None:
        """The same, and nothing more is carried."""
        self._forget(self.recorded)
        self._moved(self)

    def _forget(self, position: Position) -> None:
        for portion in self._portions:
            portion.dropped()
        self._portions.clear()
        self._ahead = None
        self._open = self.records_under_way = self.bytes_under_way = 0
        self._settled = Settled(position.offset, position.epoch)
        self._looped = self._looped_behind = position.looped
        self.gone, self.recorded = position.gone, position
