"""A producer's batches do not overtake one another on different ways to an owner.

An owner takes any sequence from a producer that it does not know. So where a batch failed on its way, those behind it,
which the client had sent before it knew, must not come first by another way: over a new connection, to the next owner,
or into our own log. They are refused, retriably, until the one that failed comes again; so are those of a producer with
a batch still under way to another owner. One connection keeps the order by itself, and so does the client of a producer
without ids: it keeps order by having one request under way, as with Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.model.errors import TryAgain
from fairlead.protocol.batch import NO_PRODUCER, BatchHeader

_KEPT_MAX = 10_000
"""Producers with a batch that failed: clients have one, or a few."""

Key = tuple[bytes, int, int]
"""Incarnation of the topic, partition, producer id."""
_HALF = 2**30
"""Sequences count to 2**31 and begin again: less than this ahead is after."""


@dataclass(slots=True)
class _Producer:
    owner: bytes
    under_way: int = 0
    failed: tuple[int, int] | None = None
    """Producer epoch and first sequence of the oldest batch that failed and has not come again."""


class Order:
    """Of what one client has passed on."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[Key, _Producer] = {}

    def check(self, incarnation: bytes, partition: int, header: BatchHeader, owner: bytes) -> None:
        """A batch may go to this owner.

        Raises:
            TryAgain: not yet.
        """
        known = self._producers.get((incarnation, partition, header.producer_id))
        if known is None:
            return
        if known.under_way and known.owner != owner:
            raise TryAgain("the topic has a new owner, and the one before has not answered all of this producer yet")
        if known.failed is None:
            return
        epoch, sequence = known.failed
        ahead = (header.base_sequence - sequence) % 2**31
        if header.producer_epoch == epoch and 0 < ahead < _HALF:
            raise TryAgain(f"sequence {sequence} of this producer failed on its way to the owner and comes first")
        if header.producer_epoch != epoch or not ahead:
            known.failed = None
            self._forget_idle((incarnation, partition, header.producer_id), known)

    def begins(self, incarnation: bytes, partition: int, header: BatchHeader, owner: bytes) -> None:
        """A batch is passed on."""
        if header.producer_id != NO_PRODUCER:
            known = self._producers.setdefault((incarnation, partition, header.producer_id), _Producer(owner))
            known.owner = owner
            known.under_way += 1

    def ends(self, incarnation: bytes, partition: int, header: BatchHeader, *, comes_again: bool) -> None:
        """It has its outcome; `comes_again`: one after which clients send it again."""
        key = incarnation, partition, header.producer_id
        known = self._producers.get(key)
        if known is None:
            return
        known.under_way -= 1
        if comes_again and known.failed is None:
            known.failed = header.producer_epoch, header.base_sequence
        self._forget_idle(key, known)
        if len(self._producers) > _KEPT_MAX:
            oldest = next(iter(self._producers))
            if not self._producers[oldest].under_way:
                del self._producers[oldest]

    def refused(self, incarnation: bytes, partition: int, header: BatchHeader, owner: bytes) -> None:
        """A batch was refused here, and comes again: perhaps to an owner elsewhere by then."""
        self.begins(incarnation, partition, header, owner)
        self.ends(incarnation, partition, header, comes_again=True)

    def _forget_idle(self, key: Key, known: _Producer) -> None:
        if not known.under_way and known.failed is None:
            del self._producers[key]
