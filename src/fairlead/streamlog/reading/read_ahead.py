"""Reads what a consumer that reads from the disk will ask for next, while its last answer is on the way.

A consumer that is behind asks, waits for the disk, works, and asks for what follows. `plan` notes the next stretch of a
partition and gives a job to be run on a thread. `take` hands its batches out once, to whoever asks for that offset, and
waits for them if the disk is not done. It is only a hint: batches that are not there are read as usual.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

BYTES_MAX: Final = 64 * 1024 * 1024
"""What all logs of a process may hold together: what was read, and what was asked for until it is."""
ENTRIES_MAX: Final = 10_000
"""Stretches that all logs hold together: the smallest takes 1 KB."""

Batches = Sequence[bytes | memoryview]
AheadKey = tuple[int, ...]
"""Topic number, partition, offset, and how often the partition was cut: what was read before is not taken after it."""


@dataclass(slots=True)
class Shared:
    """What all logs hold together, oldest first."""

    left_bytes: int = BYTES_MAX
    held: OrderedDict[tuple[int, AheadKey], tuple[Future[Batches], int]] = field(default_factory=OrderedDict)
    """By log and key: the batches, and how many bytes are counted for them."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    logs: Iterator[int] = field(default_factory=itertools.count)

    def hold(self, key: tuple[int, AheadKey], future: Future[Batches], size_bytes: int) -> bool:
        """Keep a place for batches, if need be that of the oldest that nobody took; False if there is no place."""
        while self.left_bytes < size_bytes or len(self.held) >= ENTRIES_MAX:
            oldest = next((key for key, (found, _) in self.held.items() if found.done()), None)
            if oldest is None:
                return False
            self.pop(oldest)
        self.left_bytes -= size_bytes
        self.held[key] = future, size_bytes
        return True

    def resize(self, key: tuple[int, AheadKey], future: Future[Batches], size_bytes: int) -> bool:
        """Count what was read, which may be more than what was asked for: a batch is read whole. False if there is no
        place for it; then it is held no more."""
        if self.held.get(key, (None, 0))[0] is not future:
            return True  # who has taken it waits for it
        self.pop(key)
        return self.hold(key, future, size_bytes)

    def pop(self, key: tuple[int, AheadKey]) -> Future[Batches] | None:
        """Give up a place."""
        future, size_bytes = self.held.pop(key, (None, 0))
        self.left_bytes += size_bytes
        return future


_SHARED: Final = Shared()


def read_ahead_bytes(shared: Shared = _SHARED) -> int:
    """What all logs of this process hold, or have asked for ahead."""
    return BYTES_MAX - shared.left_bytes


class ReadAhead:
    """The reading ahead of one log. Any thread may call it."""

    def __init__(self, read: Callable[..., Batches], shared: Shared = _SHARED) -> None:
        """`read(*key, max_bytes)` gives batches, blocking."""
        self._read = read
        self._shared = shared
        self._log = next(shared.logs)

    def close(self) -> None:
        """The log is closed: give up the places of all that nobody took, also of jobs that will not run any more."""
        with self._shared.lock:
            for place in [place for place in self._shared.held if place[0] == self._log]:
                self._shared.pop(place)

    def plan(self, key: AheadKey, max_bytes: int) -> Callable[[], None] | None:
        """The job that reads from there; None if such a job exists already, or there is no room for it."""
        future: Future[Batches] = Future()
        with self._shared.lock:
            if (self._log, key) in self._shared.held or not self._shared.hold((self._log, key), future, max_bytes):
                return None
        return lambda: self._run(key, max_bytes, future)

    def _run(self, key: AheadKey, max_bytes: int, future: Future[Batches]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            batches = self._read(*key, max_bytes)
        except Exception as error:
            future.set_exception(error)
            return
        with self._shared.lock:
            has_place = self._shared.resize((self._log, key), future, sum(map(len, batches)))
        future.set_result(batches if has_place else ())

    def take(self, key: AheadKey) -> Batches:
        """The batches from there on; waits for a running job; none if there was no job or it failed. A job that has not
        begun is cancelled: its thread may be the one that waits here."""
        with self._shared.lock:
            future = self._shared.pop((self._log, key))
        if future is None or future.cancel() or future.exception() is not None:
            return ()
        return future.result()
