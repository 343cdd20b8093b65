"""The committed batches of an answer, as Kafka's own consumer chooses them with `isolation.level=read_committed`.

A source answers with all batches up to its last stable offset, and names the aborted transactions among them by
producer id and first offset. A producer's batches are left out from that offset on, up to the control batch that says
"abort". Control batches are always left out, and so are batches that compaction has emptied.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from fairlead.kafka.fetching.aborted import AbortedData
from fairlead.mirror.bytes import legacy
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import (
    CONTROL,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    check_whole,
)

BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""A batch that claims to be larger is damaged: nobody is to be asked for so much because of a wrong length."""
_OFFSET_END = 2**63 - 1
_START = struct.Struct(">qi")


class Committed(NamedTuple):
    """What an answer for a partition holds."""

    batches: list[SourceBatch]
    """In order of offsets; views of the answer's memory."""
    next_offset: int
    """Where the next fetch begins: behind all whole batches, whether left out or not."""
    next_epoch: int
    """Leader epoch of the last whole batch; -1 if there was none that has one."""
    aborted_records: int
    """Left out."""
    control_batches: int
    """Left out."""
    cut_bytes: int
    """Size of the batch that the answer ends in, 0 if it ends with a batch. If `next_offset` has not moved, a fetch
    must ask for so much."""
    damage: CorruptBatch | None
    """What is wrong with the batch at `next_offset`; nothing behind it was looked at."""

    def epoch_before(self, offset: int) -> int:
        """Leader epoch of the record before an offset up to `next_offset`; -1: nobody can tell, as one leader follows
        another among what was left out there."""
        after = bisect_left(self.batches, offset, key=lambda batch: batch.header.base_offset)
        later = self.batches[after].header.leader_epoch if after < len(self.batches) else self.next_epoch
        if offset == self.next_offset:
            return self.next_epoch
        if after == 0:
            return -1
        header = self.batches[after - 1].header
        is_its_own = offset <= header.last_offset + 1
        return header.leader_epoch if is_its_own or header.leader_epoch == later else -1


def committed(records: bytes | memoryview, aborted: Sequence[tuple[int, int]], position: int, place: str) -> Committed:
    """The committed batches in `records`, fetched from `position` on; `aborted` is (producer id, first offset).

    `place` ("topic t, partition 3") stands in the message of what is damaged.
    """
    walk = _Walk(memoryview(records), aborted, position)
    damage = None
    try:
        walk.all()
    except CorruptBatch as error:
        damage = CorruptBatch(f"{place}, offset {walk.next_offset}: {error}")
    return Committed(
        walk.batches,
        walk.next_offset,
        walk.epoch,
        walk.aborted_records,
        walk.control_batches,
        walk.cut_bytes,
        damage,
    )


class _Walk:
    """Goes over an answer, batch by batch."""

    def __init__(self, records: memoryview, aborted: Sequence[tuple[int, int]], position: int) -> None:
        self.batches: list[SourceBatch] = []
        self.next_offset = position
        self.epoch = -1
        self.aborted_records = 0
        self.control_batches = 0
        self.cut_bytes = 0
        self._records = records
        self._position = position
        self._aborted = AbortedData(aborted)
        self._above = -1
        """Offsets begin above this one."""

    def all(self) -> None:
        """Raises: CorruptBatch: the batch at `next_offset`."""
        at, size = 0, self._size(0)
        while size:
            batch = self._records[at : at + size]
            if batch[MAGIC_AT] < MAGIC:
                self._legacy(batch)
            else:
                self._batch(batch, check_whole(batch))
            at += size
            size = self._size(at)

    def _size(self, at: int) -> int:
        """Size of the batch there; 0 at the end of the answer, also if it is cut."""
        rest = len(self._records) - at
        if rest <= MAGIC_AT:
            self.cut_bytes = HEADER_BYTES if rest else 0
            return 0
        _, length = _START.unpack_from(self._records, at)
        size: int = length + LENGTH_END
        least = HEADER_BYTES if self._records[at + MAGIC_AT] >= MAGIC else legacy.MESSAGE_BYTES_MIN
        if not least <= size <= BATCH_BYTES_MAX:
            raise CorruptBatch(f"its header says {size} bytes")
        if size > rest:
            self.cut_bytes = size
            return 0
        return size

    def _legacy(self, message: memoryview) -> None:
        data, last_offset = legacy.converted(message)
        header = check_whole(data)
        self._follows(header.base_offset)
        self._keep(header, memoryview(data))
        self._passed(max(last_offset, header.last_offset))

    def _batch(self, batch: memoryview, header: BatchHeader) -> None:
        last_offset = header.last_offset
        if header.base_offset < 0 or last_offset >= _OFFSET_END:
            raise CorruptBatch(f"it begins at offset {header.base_offset}")
        self._follows(header.base_offset)
        if self._counts(header, batch):
            self._keep(header, batch)
        self._passed(last_offset)
        self.epoch = header.leader_epoch

    def _follows(self, base_offset: int) -> None:
        if base_offset <= self._above:
            raise CorruptBatch(f"it begins at offset {base_offset}, and the batch before it ends at {self._above}")

    def _passed(self, last_offset: int) -> None:
        self._above = last_offset
        self.next_offset = max(self.next_offset, last_offset + 1)

    def _keep(self, header: BatchHeader, batch: memoryview) -> None:
        if header.record_count and header.last_offset >= self._position:
            self.batches.append(SourceBatch(header, batch, max(self._position, header.base_offset)))

    def _counts(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the batch is data, and committed."""
        control = header.attributes & CONTROL
        if self._aborted.has(header, batch):
            self.aborted_records += header.record_count
            return False
        if control:
            self.control_batches += 1
        return not control
