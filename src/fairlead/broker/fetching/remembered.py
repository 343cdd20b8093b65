"""What is remembered between a client's Fetches, of all sessions and connections together.

Whoever finds no room is served all the same: without a session, or with every topic read anew. One address has at most
three quarters, as of connections, so that others always find some.
"""

from __future__ import annotations

from collections import Counter

SHARE = 0.75
"""Of one address."""


class Remembered:
    """The memory of one server. Everything runs on its event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._of_host: Counter[str] = Counter()
        self.used_bytes = 0
        """Of Python's objects too."""

    def _admits(self, host: str, by_bytes: int) -> bool:
        if by_bytes <= 0:
            return True
        of_host = self._of_host[host] + by_bytes
        return of_host <= self._limit_bytes * SHARE and self.used_bytes + by_bytes <= self._limit_bytes

    def _changed(self, host: str, by_bytes: int) -> None:
        self.used_bytes += by_bytes
        self._of_host[host] += by_bytes
        if not self._of_host[host]:
            del self._of_host[host]


class Hold:
    """What one session or connection holds of it."""

    __slots__ = ("_bytes", "_host", "_remembered")

    def __init__(self, remembered: Remembered, host: str) -> None:
        self._remembered = remembered
        self._host = host
        self._bytes = 0

    def resize(self, size_bytes: int) -> bool:
        """Hold that much, all in all; False, and nothing changes, if there is no room."""
        by_bytes = size_bytes - self._bytes
        if not self._remembered._admits(self._host, by_bytes):
            return False
        self._remembered._changed(self._host, by_bytes)
        self._bytes = size_bytes
        return True


UNBOUNDED = Remembered(2**62)
"""Of who stands alone."""
