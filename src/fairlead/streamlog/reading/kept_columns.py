"""Columns of objects that were looked at, kept for the next look: of all logs of a process under one limit.

The least recently used leave first, whichever log they are of; the last that came stay even if they alone are larger.
Objects never change, so what is kept is never wrong.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog.objects.columns import Columns

BYTES_MAX: Final = 256 * 1024 * 1024
"""What all logs of a process may keep together."""
BYTES_PER_ROW: Final = 140
"""What a row's columns and its key take in memory."""
BYTES_PER_OBJECT: Final = 7000
"""What an object's arrays take besides their numbers: measured with tracemalloc, of a commit of one row."""


class Indexed(NamedTuple):
    """Columns of an object, with the key by which a data segment is sorted."""

    columns: Columns
    keys: NDArray[np.int64]

    @property
    def size_bytes(self) -> int:
        """What they take in memory."""
        data = self.columns.data
        return BYTES_PER_OBJECT + len(self.keys) * BYTES_PER_ROW + (0 if data is None else data.nbytes)


@dataclass(slots=True)
class Shared:
    """What all logs keep together, the least recently used first."""

    limit_bytes: int = BYTES_MAX
    size_bytes: int = 0
    size_bytes_of: Counter[int] = field(default_factory=Counter)
    """By log."""
    kept: OrderedDict[tuple[int, str], Indexed] = field(default_factory=OrderedDict)
    """By log and name of the object."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    logs: Iterator[int] = field(default_factory=itertools.count)

    def keep(self, key: tuple[int, str], found: Indexed) -> None:
        """Keep them, if need be in place of others."""
        if key in self.kept:
            return
        self.kept[key] = found
        self._count(key, found.size_bytes)
        while self.size_bytes > self.limit_bytes and len(self.kept) > 1:
            self.drop(next(iter(self.kept)))

    def drop(self, key: tuple[int, str]) -> None:
        """Keep them no longer."""
        self._count(key, -self.kept.pop(key).size_bytes)

    def _count(self, key: tuple[int, str], size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self.size_bytes_of[key[0]] += size_bytes


OF_PROCESS: Final = Shared()


class KeptColumns:
    """What one log keeps. Any thread may call it."""

    def __init__(self, shared: Shared = OF_PROCESS) -> None:
        self._shared = shared
        self._log = next(shared.logs)
        self._closed = False

    def find(self, name: str) -> Indexed | None:
        """The columns of an object, if they are kept."""
        with self._shared.lock:
            found = self._shared.kept.get((self._log, name))
            if found is not None:
                self._shared.kept.move_to_end((self._log, name))
            return found

    def keep(self, name: str, found: Indexed) -> None:
        """Keep the columns of an object; not after `close`, for who still reads then."""
        with self._shared.lock:
            if not self._closed:
                self._shared.keep((self._log, name), found)

    def size_bytes(self) -> int:
        """What is kept of this log."""
        return self._shared.size_bytes_of[self._log]

    def close(self) -> None:
        """The log is closed: keep nothing of it."""
        with self._shared.lock:
            self._closed = True
            for key in [key for key in self._shared.kept if key[0] == self._log]:
                self._shared.drop(key)
            del self._shared.size_bytes_of[self._log]
