"""Memory that is used again once nobody looks at it any more.

The kernel hands out zeroed pages at the first touch, which costs up to 2.7 s of processor time a GB; so the buffers in
which bodies are made go round. A buffer is free when no view of it is alive, which the interpreter counts: nobody has
to give one back, and nobody can give one back too early.
"""

from __future__ import annotations

import sys
import threading

import numpy as np
from numpy.typing import NDArray

_UNIT = 1 << 18
"""Sizes are multiples of this."""

Buffer = NDArray[np.uint8]


class Buffers:
    """Up to `bytes_max` of buffers that are kept for the next use; more are made when all are looked at."""

    def __init__(self, bytes_max: int = 64 * 1024 * 1024) -> None:
        self._kept: list[Buffer] = []
        self._bytes_max = bytes_max
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> Buffer:
        """A buffer of at least `size` bytes, with anything in it."""
        with self._lock:
            for index in range(len(self._kept)):
                if len(self._kept[index]) >= size and _references(self._kept, index) <= _ALONE:
                    self._kept.append(self._kept.pop(index))
                    return self._kept[-1]
            buffer = np.empty(-(-size // _UNIT) * _UNIT, np.uint8)
            if self._kept_bytes + len(buffer) <= self._bytes_max:
                self._kept.append(buffer)
                self._kept_bytes += len(buffer)
            return buffer


def _references(buffers: list[Buffer], index: int) -> int:
    return sys.getrefcount(buffers[index])


_ALONE = _references([np.empty(1, np.uint8)], 0)
"""References to a buffer that only the list holds."""
