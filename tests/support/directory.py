"""A directory with packs and every fault, with the face of `MemoryStorage`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence

from typing_extensions import Buffer

from fairlead.model.errors import StorageFull
from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage
from fairlead.storage.memory import Call, Crashed, Fault, Faults
from tests.support.disk import Disk, dying_at
from tests.support.packs import always_packed

PACK_BYTES = 96 * 1024
"""A few dozen records, so that packs are rolled over."""
CALLS_OF_PUT = 6
"""Of the system, that a put makes; it dies at one of them in turn."""


class FaultyDirectory:
    """`LocalStorage` with packs on a disk that loses what was not synced."""

    def __init__(self, disk: Disk) -> None:
        self.faults = Faults()
        self.late: list[tuple[str, bytes]] = []
        """Puts of unknown outcome that have not landed, oldest first."""
        self._disk = disk
        self._storage = self._opened()
        self._deaths = 0

    def _opened(self) -> LocalStorage:
        self._disk.process_ended()
        shutil.rmtree(self._disk.root / ".tmp", ignore_errors=True)  # all are ours by the name, and our process is dead
        return always_packed(self._disk.root, pack_bytes=PACK_BYTES)

    def fail(self, fault: Fault, *, call: Call = "put", nth: int = 1) -> None:
        """Let the `nth` call of that kind from now on (1: the next) meet the fault."""
        self.faults.choose(fault, call=call, nth=nth)

    def crash(self, survives: Callable[[str], bool] = lambda name: False) -> None:
        """Power fails: what was never synced goes, deletions come undone, except where it `survives`."""
        self._disk.power_fails(survives)
        self.restart()

    def restart(self) -> None:
        """The process died and a new one starts; the machine lived on."""
        self.faults.restart()
        self.late.clear()
        self._storage = self._opened()

    def snapshot(self) -> dict[str, bytes]:
        """A copy of all files, which a test restores later."""
        return self._disk.files()

    def replace(self, objects: dict[str, bytes]) -> None:
        """The directory is what it was when it was copied; `restart` follows."""
        self._disk.process_ended()
        self._disk.restore(objects)

    def land(self, place: int = 0) -> str:
        """Let a late put of this process land, unless its name was taken meanwhile; its name."""
        name, data = self.late.pop(place)
        self._storage.put_if_absent(name, data)
        return name

    def get_unchecked(self, name: str) -> bytes:
        return self._storage.get_unchecked(name)

    def get(self, name: str) -> bytes:
        with self.faults.called("get", name):
            return self._storage.get(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        with self.faults.called("get_range", name):
            return self._storage.get_range(name, start, length)

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        with self.faults.called("get_range", name):
            return self._storage.get_ranges(name, ranges)

    def size(self, name: str) -> int | None:
        with self.faults.called("size", name):
            return self._storage.size(name)

    def put_if_absent(self, name: str, data: Buffer | Sequence[Buffer]) -> Put:
        with self.faults.called("put", name) as call:
            if call.fault is Fault.FULL:
                raise StorageFull("directory", 0, 0)
            if call.fault is Fault.UNKNOWN_LATE:
                self.late.append((name, b"".join(data) if isinstance(data, list | tuple) else bytes(data)))  # type: ignore[arg-type]
            if call.fault in {Fault.UNKNOWN_LATE, Fault.UNKNOWN_LOST}:
                return Put.UNKNOWN
            self._disk.broken = call.fault is Fault.UNKNOWN_LANDED
            try:
                return self._dying(name, data) if call.fault is Fault.CRASH_AFTER else self._put(name, data)
            finally:
                self._disk.broken = False

    def _put(self, name: str, data: Buffer | Sequence[Buffer]) -> Put:
        return self._storage.put_if_absent(name, data)

    def _dying(self, name: str, data: Buffer | Sequence[Buffer]) -> Put:
        """Die within the put, or after it."""
        self._deaths += 1
        try:
            with dying_at(self._deaths % CALLS_OF_PUT):
                return self._put(name, data)
        except Crashed as error:
            self.faults.die(str(error))

    def list(self, prefix: str) -> Iterator[str]:
        with self.faults.called("list", prefix):
            return iter(tuple(self._storage.list(prefix)))

    def delete(self, name: str) -> None:
        with self.faults.called("delete", name):
            self._storage.delete(name)

    def remove_all(self, prefix: str) -> None:
        with self.faults.called("delete", prefix):
            self._storage.remove_all(prefix)

    def remove_empty(self, prefix: str, before: str) -> None:
        self._storage.remove_empty(prefix, before)

    def sync(self, prefix: str) -> None:
        with self.faults.called("sync", prefix):
            self._storage.sync(prefix)

    def free_bytes(self) -> int:
        return self._storage.free_bytes()

    def total_bytes(self) -> int:
        return self._storage.total_bytes()
