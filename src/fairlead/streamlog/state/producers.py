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
EXPIRED_AT_ONCE = 2000
"""Looking at so many takes about a millisecond."""


class _Sorted(NamedTuple):
    """Keys of entries by partition."""

    keys: list[int]
    in_order: NDArray[np.int64]
    """Their places by partition."""
    partitions: NDArray[np.uint64]
    """The partitions in that order."""

    @classmethod
    def of(cls, keys: list[int]) -> _Sorted:
        """These keys."""
        partitions = np.fromiter((key >> 64 for key in keys), np.uint64, len(keys))
        in_order = np.argsort(partitions, kind="stable")
        return cls(keys, in_order, partitions[in_order])

    def of_partition(self, number: int, partition: int) -> Iterator[ProducerKey]:
        """Those of one partition."""
        wanted = np.uint64(number << 32 | partition)
        first, end = (int(np.searchsorted(self.partitions, wanted, side)) for side in _SIDES)
        return (_tuple_key(self.keys[place]) for place in self.in_order[first:end].tolist())


class Producers:
    """All producers of a shard.

    Always true: while there is `_sorted`, each entry's key is in it or in `_newer`. So may be some that were forgotten.
    """

    def __init__(self) -> None:
        self._recent: dict[ProducerKey, ProducerState] = {}
        self._packed: dict[int, bytes] = {}
        self._sorted: _Sorted | None = None
        """All entries, from when those of a partition were asked for until there are many newer ones."""
        self._newer: dict[tuple[int, int], set[ProducerKey]] = {}
        """Keys of the entries that came since, by partition."""
        self._newer_left = 0
        """So many more may come."""

    def __len__(self) -> int:
        self._pack_all()
        return len(self._packed)

    def forget(self, number: int, partition: int) -> None:
        """Forget all producers of a partition."""
        for key in self._keys_of(number, partition):
            self.remove(key)

    def remove(self, key: ProducerKey) -> None:
        """Forget one producer of a partition."""
        self._recent.pop(key, None)
        self._packed.pop(_int_key(key), None)

    def from_offset(self, number: int, partition: int, offset: int) -> list[int]:
        """The producers whose newest batch in a partition stands at that offset or above. The first look sorts all
        entries by partition, since a change of owners asks for many."""
        known = ((key, self.get(key)) for key in self._keys_of(number, partition))
        return [key[2] for key, state in known if state is not None and state.batches[-1].base_offset >= offset]

    def _keys_of(self, number: int, partition: int) -> set[ProducerKey]:
        """All producers of a partition, and maybe some that were forgotten."""
        if self._sorted is None:
            self._pack_all()
            self._sorted = _Sorted.of(list(self._packed))
            self._newer_left = RECENT + len(self._packed) // 8
        return {*self._sorted.of_partition(number, partition), *self._newer.get((number, partition), ())}

    def _drop_sorted(self) -> None:
        self._sorted = None
        self._newer = {}

    def _note_newer(self, key: ProducerKey) -> None:
        """An entry is put while all others are sorted."""
        if key not in self._recent and _int_key(key) not in self._packed:
            self._newer.setdefault(key[:2], set()).add(key)
            self._newer_left -= 1
            if self._newer_left < 0:
                self._drop_sorted()

    def get(self, key: ProducerKey) -> ProducerState | None:
        """What is known of that producer in that partition."""
        recent = self._recent.get(key)
        if recent is not None:
            return recent
        packed = self._packed.get(_int_key(key))
        return None if packed is None else _unpack(packed)

    def put(self, key: ProducerKey, state: ProducerState) -> None:
        """Remember the producer's newest batch."""
        if self._sorted is not None:
            self._note_newer(key)
        self._recent[key] = state
        if len(self._recent) > RECENT:
            self._pack_all()

    def _pack_all(self) -> None:
        for key, state in self._recent.items():
            self._packed[_int_key(key)] = _pack(state)
        self._recent.clear()

    def expire(self, before_ms: int) -> None:
        """Forget producers that have appended nothing since `before_ms` (appended_at)."""
        for _ in self.expiring(before_ms):
            pass

    def expiring(self, before_ms: int) -> Iterator[int]:
        """The same in steps, between which others may use them; yields how many each step has forgotten."""
        self._drop_sorted()  # nobody may have asked for long
        self._pack_all()
        keys = list(self._packed)
        for first in range(0, len(keys), EXPIRED_AT_ONCE):
            self._pack_all()
            some = ((key, self._packed.get(key)) for key in keys[first : first + EXPIRED_AT_ONCE])
            old = [key for key, packed in some if packed is not None and _HEAD.unpack_from(packed)[1] < before_ms]
            for key in old:
                del self._packed[key]
            yield len(old)

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
