"""Records of source batches as bodies of new batches: opens what is compressed, and hands the loops their plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.mirror.bytes import kernels
from fairlead.mirror.bytes.kernels import CUT_COLUMNS, PLAN_COLUMNS, RECORD_GROWTH_MAX, Cut, Plan
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How, Outgoing, of_body
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import HEADER_BYTES
from fairlead.protocol.records import RECORD_BYTES_MIN, compress, decompress

Longs = NDArray[np.int64]
MALFORMED: Final = "a record in it is cut, its length does not fit its fields, or its offset does not rise"
OPENED_BYTES: Final = 16 * 1024 * 1024
"""About as much is open at a time, decompressed."""
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""No batch that is made here holds more, decompressed: who reads it must hold it."""
_TARGET = 0.9
"""Of the size at which batches would be split, if all parts of one compressed as well as the whole."""
_EVERY_OFFSET = 2**63 - 1


class BadBatch(Exception):
    """The batch at `index` cannot be opened, or does not hold together."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


class Opened:
    """The first of some batches, so that their records can be read: uncompressed, and where they lie.

    As many as decompress to `OPENED_BYTES`, and at least one: a few hostile bytes are not to fill memory.
    """

    def __init__(self, batches: Sequence[SourceBatch], limits: Limits) -> None:
        """Raises: BadBatch: with its index in `batches`."""
        self._kept: list[Any] = []
        self.bytes = 0
        rows: list[tuple[int, ...]] = []
        for index, batch in enumerate(batches):
            if self.bytes >= OPENED_BYTES:
                break
            try:
                rows.append(self._open(batch, limits.inflated_bytes_max))
            except CorruptBatch as error:
                raise BadBatch(index, str(error)) from error
        self.batches = batches[: len(rows)]
        self.plan = np.array(rows, np.int64).reshape(len(rows), PLAN_COLUMNS)
        self.records = int(self.plan[:, Plan.COUNT].sum())
        self.codec = batches[0].header.codec

    @property
    def out_bytes_max(self) -> int:
        """All bodies of these records together are not larger."""
        return self.bytes + self.records * RECORD_GROWTH_MAX

    def body_bytes_max(self, limits: Limits) -> int:
        """How large a body may be, if the batch that it is compressed into is to be within the limits."""
        room = max(limits.message_bytes_max - HEADER_BYTES, 1)
        if not self.codec:
            return room
        packed_bytes = sum(batch.header.size_bytes for batch in self.batches)
        if packed_bytes <= limits.message_bytes_max:
            return max(BODY_BYTES_MAX, room)
        return min(max(int(room * _TARGET * self.bytes / packed_bytes), 1), BODY_BYTES_MAX)

    def cuts(self, body_bytes_max: int, partitions: int = 1) -> Longs:
        """Rows for all bodies that there may be: two neighbours are never both less than half full."""
        bodies = min(2 * self.out_bytes_max // body_bytes_max + 1, self.records) + partitions
        return np.empty((bodies, CUT_COLUMNS), np.int64)

    def _open(self, batch: SourceBatch, inflated_bytes_max: int) -> tuple[int, ...]:
        """Its row of the plan."""
        header = batch.header
        body: bytes | memoryview = batch.body
        if header.codec:
            body = decompress(header.codec, body, inflated_bytes_max)
        if header.record_count * RECORD_BYTES_MIN > len(body):
            raise CorruptBatch(f"{header.record_count} records do not fit into {len(body)} bytes")
        held = pa.py_buffer(body)
        self._kept.append(held)
        self.bytes += len(body)
        start = held.address
        return (
            *(start, start + len(body), header.record_count),
            *(header.base_offset, header.last_offset_delta, header.base_timestamp),
            *(header.log_append_time, header.max_timestamp, batch.low, _EVERY_OFFSET, 0),
        )


def address_of(array: NDArray[np.uint8]) -> int:
    """Where it begins in memory."""
    address: int = array.__array_interface__["data"][0]
    return address


def body_of(cut: Longs, memory: memoryview, codec: int, how: How) -> Outgoing:
    """The batch of a body that the loops have made in `memory`."""
    start, end, count, base_time, max_time, first, last, _ = cut.tolist()
    return of_body(
        compress(codec, memory[start:end]) if codec else memory[start:end].toreadonly(),
        codec=codec,
        records=count,
        base_time=base_time,
        max_time=max_time,
        first_offset=first,
        last_offset=last,
        how=how,
    )


def rebuilt(opened: Opened, plan: Longs, out: NDArray[np.uint8], body_bytes_max: int) -> Longs:
    """The bodies of the records of `plan`, a part of `opened`'s, made in `out`: a row of `Cut` for each.

    Raises:
        BadBatch: with its index in `plan`.
    """
    cuts = opened.cuts(body_bytes_max)
    count, outcome = kernels.rebuild(plan, address_of(out), len(out), body_bytes_max, cuts)
    if outcome >= 0:
        raise BadBatch(outcome, MALFORMED)
    if outcome == kernels.FULL:
        raise AssertionError(f"{opened.bytes} bytes of records outgrew {len(out)} bytes and {len(cuts)} bodies")
    made: Longs = cuts[:count]
    return made


def within(plan: Longs, cut: Longs) -> Longs:
    """The part of a plan that has the records of one of its bodies."""
    first, last = int(cut[Cut.FIRST_OFFSET]), int(cut[Cut.LAST_OFFSET])
    base = plan[:, Plan.BASE_OFFSET]
    part: Longs = plan[(base <= last) & (base + plan[:, Plan.LAST_DELTA] >= first)].copy()
    part[:, Plan.LOW] = np.maximum(part[:, Plan.LOW], first)
    part[:, Plan.HIGH] = np.minimum(part[:, Plan.HIGH], last + 1)
    return part
