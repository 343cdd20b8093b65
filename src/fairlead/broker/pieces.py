"""An answer that grows by very many small parts: they are joined now and then, so that few are counted and sent."""

from __future__ import annotations

_JOINED_BYTES = 64 * 1024


class Pieces:
    """Parts in order. `add` costs little, however many there are."""

    def __init__(self) -> None:
        self.count = 0
        """How many parts were added."""
        self.size_bytes = 0
        self._joined: list[bytes] = []
        self._small: list[bytes] = []
        self._small_bytes = 0

    def add(self, part: bytes) -> None:
        """Put one more part behind the others."""
        self.count += 1
        self.size_bytes += len(part)
        self._small.append(part)
        self._small_bytes += len(part)
        if self._small_bytes >= _JOINED_BYTES:
            self._join()

    def all(self) -> list[bytes]:
        """All parts, joined."""
        self._join()
        return self._joined

    def _join(self) -> None:
        self._joined.append(b"".join(self._small))
        self._small = []
        self._small_bytes = 0
