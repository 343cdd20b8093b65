"""Storage in memory for tests, with every fault that a disk or an object store has shown.

`crash()` is a power failure: what was visible and not yet synced may be gone, what was deleted may be back. A fault is
chosen for the n-th put, or by a hook that sees each call before it is done; a hook may let another writer run in the
middle of a put, which is a writer that slept there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Literal, NoReturn

from typing_extensions import Buffer

from fairlead.model.errors import Damaged, Missing, StorageFull, StorageUnavailable
from fairlead.storage.interface import Put

Call = Literal["get", "get_range", "size", "put", "list", "delete", "sync"]
Hook = Callable[[Call, str], None]
NO_LIMIT_BYTES = 1 << 50


class Fault(Enum):
    """What goes wrong with one call."""

    FAIL = "fail"
    """`StorageUnavailable`; nothing was done."""
    FULL = "full"
    """`StorageFull`; nothing was done."""
    UNKNOWN_LANDED = "unknown, landed"
    """`Put.UNKNOWN`; the object is visible, and lost by a power failure unless it is put or synced again."""
    UNKNOWN_LATE = "unknown, late"
    """`Put.UNKNOWN`; the object lands when the test calls `land`, whatever happened meanwhile."""
    UNKNOWN_LOST = "unknown, lost"
    """`Put.UNKNOWN`; the object never lands."""
    CRASH_BEFORE = "crash before"
    """`Crashed` before the call is done; every later call fails so too, until `restart` or `crash`."""
    CRASH_AFTER = "crash after"
    """`Crashed` after the call was done."""


class Crashed(BaseException):
    """The process that called is dead; not an `Exception`, so that no handler of ours goes on after it."""


class Faults:
    """Which calls of a storage fail, and whether the process that makes them lives."""

    def __init__(self) -> None:
        self.hook: Hook | None = None
        """Sees each call before it is done."""
        self.dead = False
        """The process has crashed and calls no more."""
        self._counts: dict[Call, int] = {}
        self._chosen: dict[tuple[Call, int], Fault] = {}
        self.lock = threading.RLock()
        """Held during each call."""

    def choose(self, fault: Fault, *, call: Call = "put", nth: int = 1) -> None:
        """Let the `nth` call of that kind from now on (1: the next) meet the fault."""
        self._chosen[call, self._counts.get(call, 0) + nth] = fault

    def clear(self) -> None:
        """No call fails any more, but for those of a process that is dead."""
        self._chosen.clear()

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """No call fails meanwhile; then those fail that were chosen before."""
        chosen, self._chosen = self._chosen, {}
        try:
            yield
        finally:
            self._chosen = chosen

    def restart(self) -> None:
        """A new process, of which no call fails."""
        self.dead = False
        self.clear()

    def called(self, call: Call, name: str) -> Called:
        """One call, made under a lock: with it as context."""
        if self.dead:
            raise Crashed(f"{call} {name}")
        if self.hook is not None:
            self.hook(call, name)
        with self.lock:
            nth = self._counts[call] = self._counts.get(call, 0) + 1
            fault = self._chosen.pop((call, nth), None)
        if fault is Fault.FAIL:
            raise StorageUnavailable(f"memory: cannot {call} {name}: input/output error")
        if fault is Fault.CRASH_BEFORE:
            self.die(f"{call} {name}")
        return Called(self, fault, f"{call} {name}")

    def die(self, what: str) -> NoReturn:
        """The process crashes.

        Raises:
            Crashed
        """
        self.dead = True
        raise Crashed(what)


class Called:
    """One call under the lock, with its fault."""

    def __init__(self, faults: Faults, fault: Fault | None, what: str) -> None:
        self.fault = fault
        self._faults = faults
        self._what = what

    def __enter__(self) -> Called:
        self._faults.lock.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._faults.lock.release()
        if self.fault is Fault.CRASH_AFTER and kind is None:
            self._faults.die(self._what)


class MemoryStorage:
    """A dict with the faults of a disk; safe to use from several threads."""

    def __init__(self, *, capacity_bytes: int = NO_LIMIT_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self.faults = Faults()
        self.late: list[tuple[str, bytes]] = []
        """Puts of unknown outcome that have not landed, oldest first."""
        self._objects: dict[str, bytes] = {}
        self._unsynced: set[str] = set()
        self._deleted: dict[str, bytes] = {}
        self._lock = self.faults.lock

    def fail(self, fault: Fault, *, call: Call = "put", nth: int = 1) -> None:
        """Let the `nth` call of that kind from now on (1: the next) meet the fault."""
        self.faults.choose(fault, call=call, nth=nth)

    def crash(self, survives: Callable[[str], bool] = lambda name: False) -> None:
        """Power fails: objects that were never synced go, deletions come undone, except where `survives(name)`.

        Puts that are under way land no more. The storage works again afterwards.
        """
        with self._lock:
            for name in sorted(self._unsynced):
                if not survives(name):
                    self._objects.pop(name, None)
            for name, data in self._deleted.items():
                if not survives(name):
                    self._objects.setdefault(name, data)
            self._unsynced.clear()
            self._deleted.clear()
            self.late.clear()
            self.restart()

    def restart(self) -> None:
        """The process died and a new one starts; the machine lived on, so nothing visible is lost."""
        self.faults.restart()

    def land(self, place: int = 0) -> str:
        """Let a late put land, unless its name was taken meanwhile; its name."""
        with self._lock:
            name, data = self.late.pop(place)
            if name not in self._objects:
                self._objects[name] = data
                self._unsynced.add(name)
            return name

    def damage(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Change the stored bytes of an object, as a bad disk does."""
        with self._lock:
            self._objects[name] = change(self._objects[name])

    def snapshot(self) -> dict[str, bytes]:
        """All objects as a reader sees them, for a copy that a test restores later."""
        with self._lock:
            return dict(self._objects)

    def replace(self, objects: dict[str, bytes]) -> None:
        """Put the storage back to a snapshot, all of it durable."""
        with self._lock:
            self._objects = dict(objects)
            self._unsynced.clear()
            self._deleted.clear()

    def get(self, name: str) -> bytes:
        with self.faults.called("get", name):
            return self._object(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        with self.faults.called("get_range", name):
            data = self._object(name)[start : start + length]
            if len(data) < length:
                raise Damaged(name, f"ends at {start + len(data)} bytes, {start + length} were expected")
            return data

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        return [self.get_range(name, start, length) for start, length in ranges]

    def get_unchecked(self, name: str) -> bytes:
        return self.get(name)

    def _object(self, name: str) -> bytes:
        found = self._objects.get(name)
        if found is None:
            raise Missing(name)
        return found

    def size(self, name: str) -> int | None:
        with self.faults.called("size", name):
            found = self._objects.get(name)
            return None if found is None else len(found)

    def put_if_absent(self, name: str, data: Buffer | Sequence[Buffer]) -> Put:
        content = b"".join(data) if isinstance(data, list | tuple) else bytes(data)  # type: ignore[arg-type]
        with self.faults.called("put", name) as outcome:
            fault = outcome.fault
            if fault is Fault.FULL or (name not in self._objects and len(content) > self._free()):
                raise StorageFull("memory", self._free(), 0)
            if fault is Fault.UNKNOWN_LATE:
                self.late.append((name, content))
                return Put.UNKNOWN
            if fault is Fault.UNKNOWN_LOST:
                return Put.UNKNOWN
            return self._put(name, content, landed_only=fault is Fault.UNKNOWN_LANDED)

    def _put(self, name: str, content: bytes, *, landed_only: bool) -> Put:
        found = self._objects.get(name)
        if found is not None and found != content:
            return Put.ANOTHER
        if found is None:
            self._objects[name] = content
        if landed_only:
            if found is None:
                self._unsynced.add(name)
            return Put.UNKNOWN
        self._unsynced.discard(name)
        return Put.WRITTEN if found is None else Put.MINE

    def list(self, prefix: str) -> Iterator[str]:
        with self.faults.called("list", prefix):
            return iter(sorted(name for name in self._objects if name.startswith(prefix)))

    def delete(self, name: str) -> None:
        with self.faults.called("delete", name):
            found = self._objects.pop(name, None)
            if found is not None and name not in self._unsynced:
                self._deleted[name] = found
            self._unsynced.discard(name)

    def remove_all(self, prefix: str) -> None:
        for name in self.list(prefix):
            self.delete(name)
        self.sync(prefix)

    def remove_empty(self, prefix: str, before: str) -> None:
        pass

    def sync(self, prefix: str) -> None:
        with self.faults.called("sync", prefix):
            self._unsynced = {name for name in self._unsynced if not name.startswith(prefix)}
            self._deleted = {name: data for name, data in self._deleted.items() if not name.startswith(prefix)}

    def free_bytes(self) -> int:
        with self._lock:
            return self._free()

    def _free(self) -> int:
        return max(0, self.capacity_bytes - sum(map(len, self._objects.values())))

    def total_bytes(self) -> int:
        return self.capacity_bytes
