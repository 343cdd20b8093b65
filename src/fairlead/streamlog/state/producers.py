"""What is remembered of idempotent producers: epoch and the five newest batches, as Kafka does (KIP-98).

There is one entry per (topic number, partition, producer id), packed into bytes, since a single producer may write to a
million topics. They are kept of replicated batches too, so that whoever becomes the owner answers a producer's retry as
the owner before would have, and expire.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

BATCHES_KEPT = 5
"""Kafka's `ProducerStateEntry.NUM_BATCHES_TO_RETAIN`: a client has at most five requests in flight."""

_HEAD = struct.Struct("<hq")
_BATCH = struct.Struct("<iiq")
_SIDES: Final[tuple[Literal["left", "right"], ...]] = ("left", "right")
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
        self._by_partition: tuple[list[int], NDArray[np.int64], NDArray[np.uint64]] | None = None
        """Keys of all entries, their places by partition, and the partitions in that order: from when a partition's
        were asked for until there are others."""

    def __len__(self) -> int:
        self._pack_all()
        return len(self._packed)

    def forget(self, number: int, partition: int) -> None:
        """Forget all producers of a partition."""
        self._left.add((number, partition))
        self._by_partition = None

    def remove(self, key: ProducerKey) -> None:
        """Forget one producer of a partition."""
        self._recent.pop(key, None)
        self._packed.pop(_int_key(key), None)
        self._by_partition = None

    def from_offset(self, number: int, partition: int, offset: int) -> list[int]:
        """The producers whose newest batch in a partition stands at that offset or above. The first look sorts all
        entries by partition, since a change of owners asks for many."""
        if self._by_partition is None:
            self._pack_all()
            keys = list(self._packed)
            partitions = np.fromiter((key >> 64 for key in keys), np.uint64, len(keys))
            in_order = np.argsort(partitions, kind="stable")
            self._by_partition = keys, in_order, partitions[in_order]
        keys, in_order, partitions = self._by_partition
        wanted = np.uint64(number << 32 | partition)
        first, end = (int(np.searchsorted(partitions, wanted, side)) for side in _SIDES)
        found = [(keys[place], _unpack(self._packed[keys[place]])) for place in in_order[first:end].tolist()]
        return [_tuple_key(key)[2] for key, state in found if state.batches[-1].base_offset >= offset]

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
        self._by_partition = None
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
        self._by_partition = None

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
