"""Which batches of an answer are of aborted transactions, as Kafka's own consumer tells it.

A broker answers with all batches up to the last stable offset, and names the aborted transactions among them by
producer id and first offset. A producer's batches count as aborted from that offset on, up to the control batch that
says "abort".
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, BatchHeader, is_abort


class AbortedData:
    """Of one answer for a partition; its batches are shown to it in order."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted` is (producer id, first offset) of each transaction."""
        self._to_begin = [(first, producer) for producer, first in aborted]
        heapify(self._to_begin)
        self._aborting: set[int] = set()

    def has(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the next batch holds aborted records. A control batch holds none."""
        if header.producer_id < 0:
            return False
        while self._to_begin and self._to_begin[0][0] <= header.last_offset:
            self._aborting.add(heappop(self._to_begin)[1])
        if header.attributes & CONTROL:
            if header.producer_id in self._aborting and is_abort(batch):
                self._aborting.discard(header.producer_id)
            return False
        return bool(header.attributes & TRANSACTIONAL) and header.producer_id in self._aborting
