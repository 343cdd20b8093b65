"""A batch as a source holds it."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.protocol.batch import HEADER_BYTES, BatchHeader


class SourceBatch(NamedTuple):
    """A committed batch of format v2, its CRC verified."""

    header: BatchHeader
    """With the source's offsets."""
    data: memoryview
    """The whole batch."""
    low: int
    """Records below this offset are left out: the fetch began inside the batch."""

    @property
    def body(self) -> memoryview:
        """Its records, compressed or not."""
        return self.data[HEADER_BYTES:]
