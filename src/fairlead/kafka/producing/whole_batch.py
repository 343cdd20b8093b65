"""A batch that somebody has made, or read, as a producer takes it."""

from __future__ import annotations

from functools import cached_property

from fairlead.protocol.batch import HEADER_BYTES, read_header
from fairlead.protocol.heads import with_producer


class WholeBatch:
    """The bytes of one batch, as they are but for the producer."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)

    @cached_property
    def records(self) -> int:
        """How many it has."""
        return read_header(self._data).record_count

    @property
    def size_bytes(self) -> int:
        """Its length."""
        return len(self._data)

    @property
    def body(self) -> memoryview:
        """What follows its head."""
        return self._data[HEADER_BYTES:]

    def of_producer(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
    ) -> bytes:
        """Its head, for that producer."""
        head, body_bytes = self._data[:HEADER_BYTES], len(self._data) - HEADER_BYTES
        return with_producer(head, body_bytes, producer_id, producer_epoch, base_sequence, transactional=transactional)
