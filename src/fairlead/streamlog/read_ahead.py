"""What a consumer that reads on from the disk will ask for next, read while its last answer is on the way.

A consumer that is behind asks, waits for the disk, works, and asks for what follows. `plan` notes the next stretch of a
partition and gives a job to be run on a thread; `take` hands its batches out, once, to whoever asks for that offset,
waiting for them if the disk is not done. It is a hint in every respect: what is not there is read as ever.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

BYTES_MAX: Final = 64 * 1024 * 1024
"""Of all logs of a process together, counted by what was asked for."""

Batches = Sequence[bytes | memoryview]
Key = tuple[int, int, int]
"""Topic number, partition, offset."""


@dataclass(slots=True)
class Budget:
    """Bytes that may be held by all logs together."""

    left: int = BYTES_MAX
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, size_bytes: int) -> bool:
        """Take so much, if there is so much."""
        with self.lock:
            if size_bytes > self.left:
                return False
            self.left -= size_bytes
            return True

    def release(self, size_bytes: int) -> None:
        """Give it back."""
        with self.lock:
            self.left += size_bytes


_SHARED: Final = Budget()


class ReadAhead:
    """Of one log. Any thread may call it."""

    def __init__(self, read: Callable[[int, int, int, int], Batches], budget: Budget = _SHARED) -> None:
        """`read` gives batches of (number, partition, offset, at most so many bytes), blocking."""
        self._read = read
        self._budget = budget
        self._lock = threading.Lock()
        self._held: OrderedDict[Key, tuple[Future[Batches], int]] = OrderedDict()

    def plan(self, key: Key, max_bytes: int) -> Callable[[], None] | None:
        """The job that reads from there; None if that is under way already, or there is no room for it."""
        future: Future[Batches] = Future()
        with self._lock:
            if key in self._held:
                return None
            while not self._budget.reserve(max_bytes):
                if not self._drop_oldest():
                    return None
            self._held[key] = (future, max_bytes)
        return lambda: self._run(key, max_bytes, future)

    def _drop_oldest(self) -> bool:
        """Give up what nobody came for."""
        for key, (future, size_bytes) in self._held.items():
            if future.done():
                del self._held[key]
                self._budget.release(size_bytes)
                return True
        return False

    def _run(self, key: Key, max_bytes: int, future: Future[Batches]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._read(*key, max_bytes))
        except Exception as error:
            future.set_exception(error)

    def take(self, key: Key) -> Batches:
        """The batches from there on, waiting for a job that runs; none if there was no job or it failed. A job that has
        not begun is called off: its thread may be the one that waits here."""
        with self._lock:
            future, size_bytes = self._held.pop(key, (None, 0))
        if future is None:
            return ()
        self._budget.release(size_bytes)
        if future.cancel() or future.exception() is not None:
            return ()
        return future.result()
