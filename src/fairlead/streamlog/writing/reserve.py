"""The disk's reserve: free space that record batches leave for control rows and merging."""

from __future__ import annotations

from fairlead.model.clock import Clock
from fairlead.model.errors import StorageFull
from fairlead.model.settings import Settings
from fairlead.storage.interface import Storage

CHECK_MS = 1000
CHECK_BYTES = 8_000_000
"""Free space is looked at after `CHECK_MS` or this many bytes: a fast producer could fill the reserve in a second."""
CONTROL_ROWS_PART = 8
"""This fraction (an eighth) of the reserve is not for merging: 40 MB of 320 MB, so one segment of 256 MB still fits."""


class Reserve:
    """The reserve as one log sees it."""

    def __init__(self, storage: Storage, prefix: str, clock: Clock, settings: Settings) -> None:
        self._storage = storage
        self._prefix = prefix
        self._clock = clock
        self._settings = settings
        self._checked_at_ms: int | None = None
        self._added_bytes = 0
        """Bytes of record batches added since then."""
        self._full: StorageFull | None = None

    @property
    def is_reached(self) -> bool:
        """Whether the reserve was reached when space was last looked at."""
        return self._full is not None

    def add(self, size_bytes: int) -> None:
        """Note that this many bytes of record batches are on their way to the disk."""
        self._added_bytes += size_bytes

    def check(self) -> StorageFull | None:
        """Why no batch may be added now; None if there is room. Looks at the disk if a look is due."""
        now_ms = self._clock.monotonic_ms()
        long_ago = self._checked_at_ms is None or now_ms - self._checked_at_ms >= CHECK_MS
        if long_ago or self._added_bytes >= CHECK_BYTES:
            self._checked_at_ms, self._added_bytes = now_ms, 0
            free, size = self._storage.free_bytes(), self._size_bytes()
            self._full = StorageFull(self._prefix, free, size) if free < size else None
        return self._full

    def room_for_merging_bytes(self) -> int:
        """Free space without the part of the reserve that is for control rows."""
        return self._storage.free_bytes() - self._size_bytes() // CONTROL_ROWS_PART

    def _size_bytes(self) -> int:
        return self._settings.reserve_bytes + int(self._settings.reserve_ratio * self._storage.total_bytes())
