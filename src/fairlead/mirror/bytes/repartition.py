"""Batches of a partition → batches for the partitions that Kafka's clients would choose by the records' keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from fairlead.mirror.bytes import dealing, kernels
from fairlead.mirror.bytes.bodies import MALFORMED, BadBatch, Longs, Opened, address_of, body_of
from fairlead.mirror.bytes.buffers import Buffer, Buffers
from fairlead.mirror.bytes.kernels import Cut, Plan
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How, Outgoing, Refused, refused_batch, too_large
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.protocol.loops.murmur2 import murmur2

Placed = tuple[int, Outgoing]
"""A batch and its partition."""


class Dealt(NamedTuple):
    """What became of batches of one partition."""

    outgoing: dict[int, list[Outgoing]]
    """By partition, each in order. A batch settles only its own records: a position moves over all of these batches
    once all are acknowledged."""
    refused: Refused | None
    """The first records that cannot be sent; nothing behind them was looked at."""
    rest: list[SourceBatch]
    """What is behind them."""


def partition_of(key: bytes | None, partitions: int) -> int | None:
    """The partition that Java's client chooses for a key; None for records without one, which may go anywhere."""
    if key is None:
        return None
    held = np.frombuffer(key + b"\0", np.uint8)
    return (int(murmur2(address_of(held), len(key))) & 0x7FFFFFFF) % partitions


class Repartitioner:
    """For one destination topic; a thread of its own may call it."""

    def __init__(
        self, partitions: int, limits: Limits, *, keyless: int | None = None, buffers: Buffers | None = None
    ) -> None:
        """`keyless` is the partition of records without a key; None: the records of a source batch stay together, and
        the next batch's go to the next partition, as Java's client does it with the batches that it makes."""
        self._partitions = partitions
        self._limits = limits
        self._keyless = keyless
        self._turn = 0
        self._buffers = buffers or Buffers()

    def take(self, batches: Sequence[SourceBatch]) -> Dealt:
        """What is sent instead of these batches of one partition, which are in order of offsets."""
        outgoing: dict[int, list[Outgoing]] = {}
        for _, same in groupby(batches, lambda batch: batch.header.codec):
            left = list(same)
            while left:
                found, done, refused = self._first(left)
                for partition, one in found:
                    outgoing.setdefault(partition, []).append(one)
                if refused is not None:
                    return Dealt(outgoing, refused, _behind(batches, refused.last_offset))
                left = left[done:]
        return Dealt(outgoing, None, [])

    def _first(self, batches: Sequence[SourceBatch]) -> tuple[list[Placed], int, Refused | None]:
        """What comes of the first of these batches, how many they are, and what is refused behind them."""
        refused: Refused | None = None
        while batches:
            try:
                opened = Opened(batches, self._limits)
                self._choose_for_keyless(opened.plan)
                found, large = self._dealt(opened)
                return found, len(opened.batches), large or refused
            except BadBatch as bad:
                refused = refused_batch(batches[bad.index], bad.why)
                batches = batches[: bad.index]
        return [], 0, refused

    def _choose_for_keyless(self, plan: Longs) -> None:
        if self._keyless is not None:
            plan[:, Plan.KEYLESS] = self._keyless
            return
        plan[:, Plan.KEYLESS] = (self._turn + np.arange(len(plan))) % self._partitions
        self._turn = (self._turn + len(plan)) % self._partitions

    def _dealt(self, opened: Opened) -> tuple[list[Placed], Refused | None]:
        """All of it, up to a record that is too large.

        Raises:
            BadBatch
        """
        body_bytes_max = opened.body_bytes_max(self._limits)
        out = self._buffers.take(opened.out_bytes_max)
        refused: Refused | None = None
        while True:
            found: list[Placed] = []
            for cut in _bodies(opened, self._partitions, out, body_bytes_max):
                one = body_of(cut, out.data, opened.codec, How.REPARTITIONED)
                if one.size_bytes <= self._limits.message_bytes_max:
                    found.append((int(cut[Cut.PARTITION]), one))
                    continue
                if one.records == 1:
                    at = one.first_offset
                    refused = Refused(at, at, too_large(at, one.size_bytes, self._limits))
                    opened.plan[:, Plan.HIGH] = at
                else:
                    body_bytes_max = int(cut[Cut.END] - cut[Cut.START]) // 2
                break
            else:
                return found, refused


def _behind(batches: Sequence[SourceBatch], offset: int) -> list[SourceBatch]:
    """The batches without what is at or below the offset."""
    left = (batch for batch in batches if batch.header.last_offset > offset)
    return [batch._replace(low=max(batch.low, offset + 1)) for batch in left]


def _bodies(opened: Opened, partitions: int, out: Buffer, body_bytes_max: int) -> Longs:
    """Raises: BadBatch."""
    count = opened.records
    partition, attributes = np.empty(count, np.int32), np.empty(count, np.uint8)
    rest, rest_bytes, time, offset = (np.empty(count, np.int64) for _ in range(4))
    room = np.zeros(partitions, np.int64)
    found, bad = dealing.sort(opened.plan, partitions, partition, rest, rest_bytes, time, offset, attributes, room)
    if bad != kernels.OK:
        raise BadBatch(bad, MALFORMED)
    stretches = np.zeros((partitions, dealing.PARTITION_COLUMNS), np.int64)
    address = address_of(out)
    stretches[1:, 0] = np.cumsum(room[:-1])
    stretches[:, 0] += address
    cuts = opened.cuts(body_bytes_max, partitions)
    bodies, outcome = dealing.deal(
        *(found, partition, rest, rest_bytes, time, offset, attributes),
        *(stretches, address, body_bytes_max, cuts),
    )
    if outcome != kernels.OK:
        raise AssertionError(f"{found} records made more than {len(cuts)} bodies")
    made: Longs = cuts[:bodies]
    return made
