"""What is remembered of idempotent producers: epoch and the five newest batches, as Kafka does (KIP-98).

There is one entry per (topic number, partition, producer id), packed into bytes, since a single producer may write to a
million topics. They are kept of replicated batches too, so that whoever becomes the owner answers a producer's retry as
the owner before would have, and expire.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

BATCHES_KEPT = 5
"""Kafka's `ProducerStateEntry.NUM_BATCHES_TO_RETAIN`: a client has at most five requests in flight."""

_HEAD = struct.Struct("<hq")
_BATCH = struct.Struct("<iiq")
ProducerKey = tuple[int, int, int]
"""(topic number, partition, producer id)."""


class ProducerBatch(NamedTuple):
    """A batch that was appended: its sequence numbers (inclusive) and its first offset."""

    first_sequence: int
    last_sequence: int
    base_offset: int


class ProducerState(NamedTuple):
    """One producer in one partition; batches oldest first."""

    epoch: int
    last_at_ms: int
    batches: tuple[ProducerBatch, ...]

    def after(self, epoch: int, now_ms: int, batch: ProducerBatch) -> ProducerState:
        """The state once `batch` was appended; a new producer epoch forgets the batches of the old one."""
        kept = self.batches[1 - BATCHES_KEPT :] if epoch == self.epoch else ()
        return ProducerState(epoch, now_ms, (*kept, batch))


NO_PRODUCER_STATE = ProducerState(-1, 0, ())


RECENT = 8192
"""How many entries, the last used, are kept as values; the others are packed."""


class Producers:
    """All producers of a shard."""

    def __init__(self) -> None:
        self._recent: dict[ProducerKey, ProducerState] = {}
        self._packed: dict[int, bytes] = {}
        self._left: set[tuple[int, int]] = set()
        """Partitions of which all are forgotten; their entries are dropped together, at the next look at one."""

    def __len__(self) -> int:
        self._pack_all()
        return len(self._packed)

    def forget(self, number: int, partition: int) -> None:
        """Forget all producers of a partition."""
        self._left.add((number, partition))

    def _drop_left(self) -> None:
        left, self._left = self._left, set()
        for key in [key for key in self._recent if key[:2] in left]:
            del self._recent[key]
        for packed in [packed for packed in self._packed if _tuple_key(packed)[:2] in left]:
            del self._packed[packed]

    def get(self, key: ProducerKey) -> ProducerState | None:
        """What is known of that producer in that partition."""
        if self._left and key[:2] in self._left:
            return None
        recent = self._recent.get(key)
        if recent is not None:
            return recent
        packed = self._packed.get(_int_key(key))
        return None if packed is None else _unpack(packed)

    def put(self, key: ProducerKey, state: ProducerState) -> None:
        """Remember the producer's newest batch."""
        if self._left and key[:2] in self._left:
            self._drop_left()
        self._recent[key] = state
        if len(self._recent) > RECENT:
            self._pack_all()

    def _pack_all(self) -> None:
        if self._left:
            self._drop_left()
        for key, state in self._recent.items():
            self._packed[_int_key(key)] = _pack(state)
        self._recent.clear()

    def expire(self, before_ms: int) -> None:
        """Forget producers that have appended nothing since `before_ms` (appended_at)."""
        self._pack_all()
        old = [key for key, packed in self._packed.items() if _HEAD.unpack_from(packed)[1] < before_ms]
        for key in old:
            del self._packed[key]

    def known(self) -> Iterator[ProducerKey]:
        """Whatever is known now, in no order; some of it twice, or forgotten by the time that it comes."""
        yield from list(self._recent)
        yield from map(_tuple_key, list(self._packed))

    def items(self) -> Iterator[tuple[ProducerKey, ProducerState]]:
        """Everything, for a checkpoint."""
        self._pack_all()
        for key, packed in self._packed.items():
            yield _tuple_key(key), _unpack(packed)


def _int_key(key: ProducerKey) -> int:
    return key[0] << 96 | key[1] << 64 | key[2] & 0xFFFFFFFFFFFFFFFF


def _tuple_key(key: int) -> ProducerKey:
    return key >> 96, key >> 64 & 0xFFFFFFFF, _signed(key & 0xFFFFFFFFFFFFFFFF)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _pack(state: ProducerState) -> bytes:
    return _HEAD.pack(state.epoch, state.last_at_ms) + b"".join([_BATCH.pack(*batch) for batch in state.batches])


def _unpack(packed: bytes) -> ProducerState:
    epoch, last_at_ms = _HEAD.unpack_from(packed)
    return ProducerState(epoch, last_at_ms, tuple(map(ProducerBatch._make, _BATCH.iter_unpack(packed[_HEAD.size :]))))
