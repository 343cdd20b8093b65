"""Records of source batches as bodies of new batches: opens what is compressed, and hands the loops their plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.mirror.bytes import kernels
from fairlead.mirror.bytes.kernels import CUT_COLUMNS, PLAN_COLUMNS, RECORD_GROWTH_MAX, Cut, Plan
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.model.errors import CorruptBatch
from fairlead.protocol.records import RECORD_BYTES_MIN, pieces

Longs = NDArray[np.int64]
MALFORMED: Final = "a record in it is cut, its length does not fit its fields, or its offset does not rise"
_PIECE_BYTES = 1 << 20
_EVERY_OFFSET = 2**63 - 1


class BadBatch(Exception):
    """The batch at `index` cannot be opened, or does not hold together."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


class Opened:
    """Batches whose records can be read: uncompressed, and where."""

    def __init__(self, batches: Sequence[SourceBatch], inflated_bytes_max: int) -> None:
        """Raises: BadBatch."""
        self._kept: list[Any] = []
        self.plan = np.zeros((len(batches), PLAN_COLUMNS), np.int64)
        self.bytes = 0
        for index, batch in enumerate(batches):
            try:
                self._open(index, batch, inflated_bytes_max)
            except CorruptBatch as error:
                raise BadBatch(index, str(error)) from error
        self.records = int(self.plan[:, Plan.COUNT].sum())

    @property
    def out_bytes_max(self) -> int:
        """No body of these records, and not all of them together, are larger."""
        return self.bytes + self.records * RECORD_GROWTH_MAX + RECORD_GROWTH_MAX

    def _open(self, index: int, batch: SourceBatch, inflated_bytes_max: int) -> None:
        header = batch.header
        body = batch.body
        if header.codec:
            body = memoryview(b"".join(pieces(header.codec, body, inflated_bytes_max, _PIECE_BYTES)))
        if header.record_count * RECORD_BYTES_MIN > len(body):
            raise CorruptBatch(f"{header.record_count} records do not fit into {len(body)} bytes")
        array = np.frombuffer(body, np.uint8)
        self._kept.append(array)
        self.bytes += len(body)
        start = array.__array_interface__["data"][0]
        self.plan[index] = (
            *(start, start + len(body), header.record_count),
            *(header.base_offset, header.last_offset_delta, header.base_timestamp),
            *(header.log_append_time, header.max_timestamp, batch.low, _EVERY_OFFSET, 0),
        )


def rebuilt(opened: Opened, plan: Longs, out: NDArray[np.uint8], body_bytes_max: int) -> Longs:
    """The bodies of the records of `plan`, a part of `opened`'s, made in `out`: a row of `Cut` for each.

    Raises:
        BadBatch: with its index in `plan`.
    """
    cuts = np.empty((2 * opened.out_bytes_max // max(body_bytes_max, 1) + 2, CUT_COLUMNS), np.int64)
    address = out.__array_interface__["data"][0]
    count, outcome = kernels.rebuild(plan, address, len(out), body_bytes_max, cuts)
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
