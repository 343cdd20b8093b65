"""Directories on a disk that loses at a power failure what was not synced.

`fsync` and `fdatasync` of what lies below them do not reach the machine's disk: they note what is durable from then on,
a file's bytes or a folder's entries. A power failure puts a directory back to that; of what came later each block of
4,096 bytes and each entry may survive by itself, as on a disk that writes in any order.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead.storage.memory import Crashed

BLOCK = 4096
Survives = Callable[[str], bool]
"""Whether something that was not synced, and is told by its name, survives a power failure."""


class Disk:
    """One directory; made by `Disks`."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.broken = False
        """Nothing can be synced."""
        self._contents: dict[int, tuple[int, bytes]] = {}
        """By inode: a descriptor, so that its number is not given to another file, and the bytes that are durable."""
        self._entries: dict[str, dict[str, int]] = {}
        """By folder: the durable entries, name to inode."""
        self._all_durable()

    def synced(self, descriptor: int, path: str) -> None:
        """Note that a file or a folder is durable as it is now."""
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if os.path.isdir(path):
            self._entries[path] = _entries(path)
            return
        inode = os.fstat(descriptor).st_ino
        held = self._contents[inode][0] if inode in self._contents else os.open(path, os.O_RDONLY)
        self._contents[inode] = held, os.pread(held, os.fstat(held).st_size, 0)

    def power_fails(self, survives: Survives = lambda name: False) -> None:
        """What was not synced is gone, deletions come undone, except where `survives`."""
        image: dict[str, bytes | None] = {}
        self._look(str(self.root), survives, image)
        self._empty()
        for path, data in image.items():
            if data is None:
                os.mkdir(path)
            else:
                Path(path).write_bytes(data)
        self._all_durable()

    def process_ended(self) -> None:
        """Close what the process that ended had open here."""
        ours = {descriptor for descriptor, _ in self._contents.values()}
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            with suppress(OSError):
                if descriptor not in ours and os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{self.root}/"):
                    os.close(descriptor)

    def files(self) -> dict[str, bytes]:
        """A copy of all files, by their path below the root."""
        found = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found}

    def restore(self, files: dict[str, bytes]) -> None:
        """The directory is what it was when it was copied, and all of it is durable."""
        self._empty()
        for name, data in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self._all_durable()

    def wipe(self) -> None:
        """An empty directory again."""
        self._empty()
        self._all_durable()

    def _empty(self) -> None:
        shutil.rmtree(self.root)
        self.close()
        self._entries.clear()
        self.root.mkdir()

    def _look(self, folder: str, survives: Survives, image: dict[str, bytes | None]) -> None:
        """Note what of a folder there is after the failure: files with their bytes, folders with None."""
        durable = self._entries.get(folder, {})
        now = _entries(folder) if os.path.isdir(folder) else {}
        order = {inode: place for place, inode in enumerate(self._contents)}  # of packs, the names are random
        both = {**durable, **now}
        for name in sorted(both, key=lambda name: (order.get(both[name], -1), name)):
            path = os.path.join(folder, name)
            before, after = durable.get(name), now.get(name)
            inode = after if before == after or survives(path) else before
            if inode is None:
                continue
            if os.path.isdir(path) or path in self._entries:
                image[path] = None
                self._look(path, survives, image)
            else:
                image[path] = self._bytes_of(path, inode, survives)

    def _bytes_of(self, path: str, inode: int, survives: Survives) -> bytes:
        if inode in self._contents:
            held, durable = self._contents[inode]
            now = os.pread(held, os.fstat(held).st_size, 0)
        else:
            durable, now = b"", Path(path).read_bytes() if os.path.exists(path) else b""
        if now == durable:
            return durable
        kept = bytearray(durable)
        for start in range(0, len(now), BLOCK):
            block = now[start : start + BLOCK]
            if block != durable[start : start + BLOCK] and survives(f"{path} {start}"):
                kept[len(kept) :] = bytes(max(0, start - len(kept)))
                kept[start : start + len(block)] = block
        return bytes(kept)

    def _all_durable(self) -> None:
        for folder, _, files in os.walk(self.root):
            self.synced(-1, folder)
            for name in files:
                path = os.path.join(folder, name)
                descriptor = os.open(path, os.O_RDONLY)
                self.synced(descriptor, path)
                os.close(descriptor)

    def close(self) -> None:
        """Let go of the files."""
        for descriptor, _ in self._contents.values():
            os.close(descriptor)
        self._contents.clear()


def _entries(folder: str) -> dict[str, int]:
    """Names and inodes."""
    with os.scandir(folder) as found:
        return {entry.name: entry.inode() for entry in found}


class Disks:
    """All such directories of a test; in use within `in_use`."""

    def __init__(self) -> None:
        self._disks: list[Disk] = []

    def add(self, root: Path) -> Disk:
        """A new directory."""
        self._disks.append(Disk(root))
        return self._disks[-1]

    @contextmanager
    def in_use(self) -> Iterator[Disks]:
        """Meanwhile what is synced is noted here."""
        fsync, fdatasync = os.fsync, os.fdatasync
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda descriptor: self._sync(descriptor, fsync))
            patch.setattr(os, "fdatasync", lambda descriptor: self._sync(descriptor, fdatasync))
            try:
                yield self
            finally:
                for disk in self._disks:
                    disk.process_ended()
                    disk.close()

    def _sync(self, descriptor: int, real: Callable[[int], None]) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        for disk in self._disks:
            if path == str(disk.root) or path.startswith(f"{disk.root}/"):
                disk.synced(descriptor, path)
                return
        real(descriptor)


class Process:
    """What makes calls of the system until it dies."""

    def __init__(self, dies_at: int) -> None:
        self.died = False
        self._left = dies_at

    def call(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """The call, as long as the process lives."""

        def called(*args: Any, **options: Any) -> Any:
            self.died = self.died or self._left == 0
            self._left -= 1
            if self.died:
                raise Crashed(real.__name__)
            return real(*args, **options)

        return called


@contextmanager
def dying_at(place: int) -> Iterator[Process]:
    """Meanwhile the process dies at its call number `place` (from 0) that changes a file or a folder, before it is
    done, and so do all after it."""
    process = Process(place)
    with pytest.MonkeyPatch.context() as patch:
        for call in ("open", "write", "writev", "pwrite", "fsync", "fdatasync", "link", "unlink", "mkdir", "rename"):
            patch.setattr(os, call, process.call(getattr(os, call)))
        yield process


@contextmanager
def bad_sector(monkeypatch: pytest.MonkeyPatch, path: str, place: int) -> Iterator[None]:
    """Meanwhile the disk cannot give back the block of a file in which the place lies. Reads through the page cache
    give what stands before it first, as the kernel does."""
    pread, preadv = os.pread, os.preadv
    block = place - place % BLOCK

    def is_met(descriptor: int, start: int, length: int) -> bool:
        meets = start < block + BLOCK and start + length > block
        return meets and os.readlink(f"/proc/self/fd/{descriptor}") == path

    def read(descriptor: int, length: int, start: int) -> bytes:
        if not is_met(descriptor, start, length):
            return pread(descriptor, length, start)
        if start < block:
            return pread(descriptor, block - start, start)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def read_into(descriptor: int, buffers: list[memoryview], start: int) -> int:
        if is_met(descriptor, start, sum(buffer.nbytes for buffer in buffers)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return preadv(descriptor, buffers, start)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", read)
        patch.setattr(os, "preadv", read_into)
        yield
