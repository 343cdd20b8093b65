"""One partition's batches on their way: their order, their sequences, and what an answer means for them.

A batch is *waiting*, then *flying*: sent and not answered. When one that flies is not taken, the lane is *landing*: it
sends nothing until all that fly have been answered or lost with their connection. Then those that were not taken wait
again, before all others, in their old order. They keep their sequences, by which a broker knows what it has already.
Only where it says that it would never take these sequences do they get others, which begin at 0 in a higher epoch.

In a transaction, what would need other sequences ends the transaction instead, and so does a batch that is refused for
good. A lane that is not *joined* sends nothing: its partition is not in the transaction yet, and what it sent could end
up in the one before.

Batches that are *in order* fail with the first of them that is refused, if they are behind it: none of them lands
before it.

A *steady* lane never gets others: a batch that would need them fails, as one that is refused, and all behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from fairlead.kafka.errors import error_of, is_unexplained, kind_of, may_pass, name_of
from fairlead.kafka.values import TopicPartition
from fairlead.model.errors import Aborted, BadRequest, FairleadError, Fenced, NotTried, another
from fairlead.protocol.client_produce import Outcome, Piece
from fairlead.protocol.wire import ZERO_UUID

EPOCH_MAX: Final = 2**15 - 1
_SEQUENCES: Final = 2**31
_UNSENT: Final = -1

_NONE: Final = 0
_DUPLICATE: Final = int(ErrorCode.duplicate_sequence_number)
_OUT_OF_ORDER: Final = int(ErrorCode.out_of_order_sequence_number)
_UNKNOWN_PRODUCER: Final = int(ErrorCode.unknown_producer_id)
_CORRUPT: Final = int(ErrorCode.corrupt_message)
_CORRUPT_MAX: Final = 3
"""So often may a batch arrive damaged; then it was damaged before it was sent."""
_UNEXPLAINED_MAX: Final = 30
"""So often may a broker fail at a batch without a reason, which takes some 25 s with Kafka's pauses. Then it would fail
for ever: it does so where a batch meets a fault of its program. Java's producer gives up the first time."""


class Batch(Protocol):
    """A whole record batch that can be sent under any producer."""

    @property
    def records(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def body(self) -> Piece:
        """What follows its head."""
        ...

    def of_producer(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
    ) -> bytes:
        """Its head."""
        ...


class Link(Protocol):
    """What a lane is sent over."""

    def offer(self, lane: Lane) -> None:
        """It may have something to send."""
        ...

    def leave(self, lane: Lane) -> None:
        """Something else sends it."""
        ...


class Waiting:
    """A batch that was not acknowledged yet."""

    __slots__ = ("attempts", "batch", "done", "in_order", "sequence", "unexplained")

    def __init__(self, batch: Batch, done: asyncio.Future[int | None], *, in_order: bool = False) -> None:
        self.batch = batch
        self.done = done
        self.in_order = in_order
        self.sequence = _UNSENT
        self.attempts = 0
        self.unexplained = 0
        """So often did a broker fail at it without a reason."""


class Lane:
    """The batches of one partition; in the hands of at most one connection at a time."""

    def __init__(
        self,
        place: TopicPartition,
        producer_id: int,
        epoch: int,
        first_sequence: int = 0,
        *,
        transactional: bool = False,
        steady: bool = False,
    ) -> None:
        self.place = place
        self.joined = True
        """Its partition may be written to; in a transaction it may have to be told of first."""
        self._transactional = transactional
        self._steady = steady
        self.ended: FairleadError | None = None
        """Why it sends nothing any more: a batch of a steady lane was refused, and what is behind it must not come."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.failures = 0
        self.missing_since: float | None = None
        """When brokers began to say that they do not know the partition, by the loop's clock."""
        self.waiting: deque[Waiting] = deque()
        self.flying: deque[Waiting] = deque()
        self.link: Link | None = None
        """The connection that it is sent over."""
        self.landing = False
        """It sends nothing until all that fly are down."""
        self.ready = False
        """It stands in its connection's queue."""
        self.topic_id = ZERO_UUID
        self._why = ""
        """Why the first was not taken that may be sent again."""
        self._answered = 0
        """Of those that fly, while the lane is landing."""
        self._next_sequence = first_sequence
        self._known = False
        """The broker has taken a batch of this epoch over this connection. Until then one goes alone: of a producer
        that it does not know, Kafka takes any sequence for the first, also that of the batch behind one that it
        refused. And one that was away knows nothing of producers whose records are a day old."""
        self._anew = False
        """The broker will not take the old sequences."""
        self._broken: FairleadError | None = None
        """Why one was refused that was to be in order; the others are not tried any more."""

    @property
    def may_send(self) -> bool:
        """Whether its next batch can go now."""
        return bool(self.waiting) and self.joined and not self.landing and (self._known or not self.flying)

    @property
    def needs_id(self) -> bool:
        """Whether its epochs are used up, which takes 32,767 quarrels with a broker."""
        return self.epoch > EPOCH_MAX

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Go on as another producer; nothing flies."""
        self.producer_id, self.epoch, self._next_sequence = producer_id, epoch, 0
        self._known = False

    def meet(self) -> None:
        """Go on over another connection, perhaps to another broker; nothing flies."""
        self._known = False

    def depart(self) -> tuple[Waiting, list[Piece]]:
        """The next batch, which flies from now on, and its pieces."""
        waiting = self.waiting.popleft()
        self.flying.append(waiting)
        batch = waiting.batch
        if waiting.sequence == _UNSENT:
            waiting.sequence = self._next_sequence
            self._next_sequence = (self._next_sequence + batch.records) % _SEQUENCES
        waiting.attempts += 1
        identity = (self.producer_id, self.epoch, waiting.sequence)
        return waiting, [batch.of_producer(*identity, transactional=self._transactional), batch.body]

    def answered(self, waiting: Waiting, outcome: Outcome) -> None:
        """The broker has said what became of one that flies.

        Raises:
            Fenced: another producer has this one's id.
            Aborted: the transaction cannot go on.
        """
        error = outcome.error
        if waiting not in self.flying:
            return  # it was given up
        if error in (_NONE, _DUPLICATE):
            self._known = True
            self.flying.remove(waiting)
            _settle(waiting, outcome.base_offset if error == _NONE else None)
            return
        waiting.unexplained += is_unexplained(error)
        kind = kind_of(error)
        if kind is Fenced:
            raise Fenced(f"{self.place}: {name_of(error)}: another producer goes on with this one's id")
        if self._transactional:
            self._keep_whole(waiting, outcome, kind)
        if self._is_final(waiting, error):
            self._refused(waiting, outcome)
        else:
            self._not_taken(waiting, outcome)

    def lost(self, why: str) -> None:
        """The connection of one that flies has ended before its answer."""
        self._answered += 1
        self._land(why)

    @property
    def down(self) -> bool:
        """Whether the lane was landing and nothing flies any more: it can be settled with `landed`."""
        return self.landing and self._answered >= len(self.flying)

    def landed(self) -> str:
        """Let what was not taken wait again, in order; why it was not, or "" if what was not taken is never to be sent
        again, so that the rest can go on at once."""
        why, self._why = self._why, ""
        self.landing = False
        self.waiting.extendleft(reversed(self.flying))
        self.flying.clear()
        self._answered = 0
        self._known = False
        self._give_up_behind()
        if self._anew:
            self._anew = False
            self.epoch += 1
            self._renumber(0, self.waiting)
        return why

    def refuse(self, error: FairleadError) -> None:
        """Give up all batches, since this will never pass; a steady lane takes no more."""
        if self._steady:
            self.ended = another(error)
        self.fail(error)

    def fail(self, error: BaseException | None) -> None:
        """Give up all batches; None cancels them."""
        for waiting in (*self.flying, *self.waiting):
            if error is None:
                waiting.done.cancel()
            elif not waiting.done.done():
                waiting.done.set_exception(error)
        self.flying.clear()
        self.waiting.clear()

    def _give_up_behind(self) -> None:
        """Fail what was to be in order behind one that was refused. Only now: what flew until now may be there."""
        error, self._broken = self._broken, None
        if error is None:
            return
        behind = [waiting for waiting in self.waiting if waiting.in_order]
        self.waiting = deque(waiting for waiting in self.waiting if not waiting.in_order)
        for waiting in behind:
            if not waiting.done.done():
                waiting.done.set_exception(NotTried(f"it lies behind what was refused: {error}"))

    def _keep_whole(self, waiting: Waiting, outcome: Outcome, kind: type[FairleadError]) -> None:
        """Raises: Aborted: not all of the transaction can be written."""
        error = outcome.error
        if kind is Aborted or self._is_forgotten(waiting, error):
            raise Aborted(f"{self.place}: {name_of(error)}")
        if self._is_final(waiting, error):
            self._refused(waiting, outcome)
            raise Aborted(f"{self.place}: a batch of the transaction was refused: {name_of(error)}")

    def _is_final(self, waiting: Waiting, error: int) -> bool:
        if error == _CORRUPT:
            return waiting.attempts >= _CORRUPT_MAX
        if is_unexplained(error):
            return waiting.unexplained >= _UNEXPLAINED_MAX
        if error in (_OUT_OF_ORDER, _UNKNOWN_PRODUCER):
            return self._steady and self._is_forgotten(waiting, error)
        return not may_pass(error)

    def _is_forgotten(self, waiting: Waiting, error: int) -> bool:
        """Whether the broker has forgotten what it had: nothing before the batch is missing. If something before it was
        not taken, that alone is why."""
        return error == _UNKNOWN_PRODUCER or (error == _OUT_OF_ORDER and waiting is self.flying[0] and not self.landing)

    def _not_taken(self, waiting: Waiting, outcome: Outcome) -> None:
        self._answered += 1
        error = outcome.error
        if self._is_forgotten(waiting, error):
            self._anew = True
        self._land(str(error_of(error, str(self.place), outcome.message)))

    def _refused(self, waiting: Waiting, outcome: Outcome) -> None:
        """It will never be taken. Those behind it have sequences that count it: they need others."""
        behind = list(self.flying)[self.flying.index(waiting) + 1 :]
        self.flying.remove(waiting)
        error = error_of(outcome.error, str(self.place), outcome.message)
        if is_unexplained(outcome.error):
            error = BadRequest(f"{error}, {waiting.unexplained} times")
        if not waiting.done.done():
            waiting.done.set_exception(error)
        if waiting.in_order:
            self._broken = self._broken or error
        if self._steady:
            self.refuse(error)
            return
        if waiting.attempts > 1:
            # An earlier attempt may have been taken. Its sequences, used again, could pass for that one.
            self._anew = True
        elif waiting.sequence != _UNSENT:
            self._renumber(waiting.sequence, [*behind, *self.waiting])
        self.landing = True

    def _renumber(self, first: int, batches: Iterable[Waiting]) -> None:
        """These get sequences from `first` on when they are sent next."""
        self._next_sequence = first
        for waiting in batches:
            waiting.sequence = _UNSENT

    def _land(self, why: str) -> None:
        self.landing = True
        self._why = self._why or why


def _settle(waiting: Waiting, offset: int | None) -> None:
    if not waiting.done.done():
        waiting.done.set_result(offset)
