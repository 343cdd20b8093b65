"""Of which producers this run of the server knows that nothing unanswered is at the owner.

A batch that went to the owner and was not answered may stand there. It must not be put aside, and after a restart
nobody here knows that it was sent. So a batch is put aside only if it is known to be new:

    its producer got its id from this run, or this run has seen the producer with a lower epoch, and this is the first
        batch of the id or epoch to this partition
    or every batch before it has its answer, of a producer of which that is known, or of which the owner has answered
        five batches in this run: a client has no more than five under way, and sends those first that a run before had

What is not known is taken for unanswered. So what is forgotten, since there is too much of it, costs time only: those
producers wait for the owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from fairlead.protocol.batch import BatchHeader
from fairlead.streamlog.requests.pending import Standing
from fairlead.streamlog.requests.produce import sequence_after, sequences_ahead
from fairlead.streamlog.state.producers import BATCHES_KEPT, ProducerState

_KNOWN_MAX: Final = 100_000
"""Of producers by partition, and of producers that got their ids here."""

Key = tuple[bytes, int, int]
"""Incarnation of the topic, partition, producer id."""


class End(Enum):
    """What became of a batch that was passed on or put aside."""

    APPENDED = auto()
    NOT_DONE = auto()
    """It is certain that it was not appended, there or here."""
    UNKNOWN = auto()


class Way(Enum):
    """Where a batch goes."""

    TO_OWNER = auto()
    FOLLOWS = auto()
    """To the owner, which is told that what lacks before it was put aside."""
    GOES_ON = auto()
    """Aside, if the producer goes on there and it is the next."""
    ENTERS = auto()
    """Aside, also as the first of its producer."""
    IS_THERE = auto()
    """Nowhere: it was put aside before."""
    BEHIND = auto()
    """Nowhere: it is older than what was put aside."""
    CLOSE = auto()
    """To the owner, once what was put aside is closed; the client sends it again."""
    WAIT = auto()
    """To the owner, once what is on its way aside is there; the client sends it again."""


ASIDE: Final = frozenset({Way.GOES_ON, Way.ENTERS})


@dataclass(slots=True)
class _Producer:
    epoch: int
    is_known: bool
    """All that this producer has sent to this partition in this epoch, it has sent to this run."""
    next: int | None
    """The sequence that comes after the last batch that has its answer."""
    answered: int = 0
    """Batches of this epoch that the owner has answered."""
    to_owner: int = 0
    aside: int = 0
    """Batches under way."""
    unanswered: int | None = None
    """First sequence of the newest batch whose answer was lost."""


class KnownProducers:
    """Of one server."""

    def __init__(self, known_max: int = _KNOWN_MAX) -> None:
        self._known_max = known_max
        self._given: dict[int, None] = {}
        """Ids of producers that this run has made."""
        self._producers: dict[Key, _Producer] = {}

    def given(self, producer_id: int) -> None:
        """A producer has got this id, which nobody had before."""
        self._given[producer_id] = None
        if len(self._given) > self._known_max:
            del self._given[next(iter(self._given))]

    def way(
        self, key: Key, header: BatchHeader, standing: Standing, copy: ProducerState | None, *, cut_off: bool | None
    ) -> Way:
        """Where a producer's batch goes that has come. `standing` is what the pending topic says of it, `copy` what our
        copy of its topic knows of the producer. `cut_off`: writes are put aside now; None: nobody knows whether the
        owner can be reached, as after a start. Then who was put aside goes on there."""
        self._seen(key, header)
        if standing is Standing.DUPLICATE:
            return Way.IS_THERE
        if standing is Standing.BEHIND:
            return Way.BEHIND
        if self._producers[key].aside:
            return Way.WAIT if cut_off is False else Way.GOES_ON
        if standing in {Standing.NEXT, Standing.AHEAD}:
            return Way.CLOSE if cut_off is False else Way.GOES_ON
        if cut_off and self._may_enter(key, header, copy):
            return Way.ENTERS
        return Way.FOLLOWS if standing is Standing.FOLLOWS else Way.TO_OWNER

    def _seen(self, key: Key, header: BatchHeader) -> None:
        found = self._producers.pop(key, None)
        if found is None:
            is_new = key[2] in self._given and header.base_sequence == 0
            found = _Producer(header.producer_epoch, is_new, 0 if is_new else None)
        elif header.producer_epoch > found.epoch:
            is_new = header.base_sequence == 0
            found.epoch, found.is_known, found.next = header.producer_epoch, is_new, 0 if is_new else None
            found.answered, found.unanswered = 0, None
        self._producers[key] = found
        if len(self._producers) > self._known_max:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        key = next(iter(self._producers))
        oldest = self._producers.pop(key)
        if oldest.to_owner or oldest.aside:
            self._producers[key] = oldest
        else:
            self._given.pop(key[2], None)

    def _may_enter(self, key: Key, header: BatchHeader, copy: ProducerState | None) -> bool:
        """Whether the batch is certainly not at the owner, nor on its way there, and neither is what follows it."""
        known = self._producers[key]
        if known.to_owner or known.unanswered is not None:
            return False
        if not known.is_known or (known.epoch, known.next) != (header.producer_epoch, header.base_sequence):
            return False
        return copy is None or not _holds(copy, header)

    def begins(self, key: Key, header: BatchHeader, *, aside: bool) -> None:
        """A batch is under way."""
        self._seen(key, header)
        known = self._producers[key]
        if aside:
            known.aside += 1
        else:
            known.to_owner += 1

    def ends(self, key: Key, header: BatchHeader, end: End, *, aside: bool) -> None:
        """That is what has become of it. One that was put aside, or not, since this log has failed, stays under way:
        once the log is opened anew, it says so itself."""
        known = self._producers[key]
        if not aside:
            known.to_owner -= 1
        elif end is not End.UNKNOWN:
            known.aside -= 1
        if header.producer_epoch != known.epoch:
            return
        first = header.base_sequence
        if end is End.APPENDED:
            self._answered(known, header, aside=aside)
        elif end is End.UNKNOWN and (known.unanswered is None or sequences_ahead(first, known.unanswered) > 0):
            known.unanswered = first

    def _answered(self, known: _Producer, header: BatchHeader, *, aside: bool) -> None:
        first = header.base_sequence
        after = sequence_after(first, header.record_count)
        if known.unanswered is not None and sequences_ahead(first, known.unanswered) >= 0:
            known.unanswered = None
        if known.next is None or sequences_ahead(after, known.next) > 0:
            known.next = after
            known.answered += not aside
        known.is_known = known.is_known or aside or known.answered >= BATCHES_KEPT


def _holds(copy: ProducerState, header: BatchHeader) -> bool:
    """Whether our copy of the topic has the batch, or a later one of its producer."""
    after = sequence_after(copy.batches[-1].last_sequence)
    if copy.epoch != header.producer_epoch:
        return copy.epoch > header.producer_epoch
    return sequences_ahead(header.base_sequence, after) < 0
