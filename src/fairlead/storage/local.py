"""Objects as files of a local directory, durable when `put_if_absent` says so.

A put is: temporary file in `.tmp`, write, `fdatasync`, `link` to the name, `fsync` of the directory and, where this
process has not used the directory before, of every parent up to the root. `link` refuses a taken name, so two writers
never overwrite each other. Small commits go into packs instead, if this process makes any (`packs.py`). What failed to
sync is never synced again: the kernel reports such a failure once and forgets it (fsyncgate), so a second success would
mean nothing.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from typing_extensions import Buffer

from fairlead.model.clock import SystemRandomness
from fairlead.model.errors import Damaged, FairleadError, InvalidValue, Missing, StorageFull, StorageUnavailable
from fairlead.process.control_secret import FILE as CONTROL_SECRET
from fairlead.storage import direct, files, identity, names, pack_check, pack_file, pack_register
from fairlead.storage.interface import Put
from fairlead.storage.lock import LOCK
from fairlead.storage.pack_file import FOLDER
from fairlead.storage.pack_index import PackIndex, PackPlace
from fairlead.storage.pack_register import PackRegister
from fairlead.storage.packs import PackSettings, PackWriter

_TEMPORARY: Final = ".tmp"
_HIDDEN: Final = (_TEMPORARY, FOLDER, pack_register.FOLDER)
"""Folders in which there are no objects."""
_NO_PARTS: Final = frozenset({"", ".", "..", *_HIDDEN})
"""No part of an object's name."""
_OURS: Final = SystemRandomness().id16().hex()[:12]
"""Marks this process's temporary files: a process id alone may come again, in a container it always does."""
_EXPECTED_MIN: Final = 8
"""So many ranges of an object are worth telling the kernel of."""
_EXPECTED_TIMES: Final = 32
"""Unless the stretch in which they lie is so many times what is wanted."""
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalStorage:
    """Storage in the directory `root`, which is made if it is not there.

    Raises:
        StorageUnavailable: the directory cannot be made or written, or its file system has no hard links.
        Damaged: a pack is missing or damaged; only where `packs` are made.
    """

    def __init__(self, root: Path, *, packs: PackSettings | None = None) -> None:
        """`packs`: put small commits into packs; only for the process that holds the directory's lock."""
        self._root = os.fspath(root)
        self._base = os.path.join(self._root, "")
        self._temporary = os.path.join(self._root, _TEMPORARY)
        self._numbers = itertools.count()
        self._index = PackIndex(self._root)
        self._register = PackRegister(self._root, self._temporary_name)
        self._packer = None if packs is None else PackWriter(self._index, self._register, packs)
        self._durable: set[str] = set()
        self._failed: set[str] = set()
        self._open()

    @property
    def root(self) -> Path:
        """The data directory; readers on the same host open its files themselves."""
        return Path(self._root)

    def _open(self) -> None:
        try:
            files.make_private_root(self._root)
            files.make_directories(self._temporary)
            for name in os.listdir(self._temporary):
                self._remove_left_over(os.path.join(self._temporary, name))
            if self._packer is not None:
                self._packer.open()
        except OSError as error:
            raise StorageUnavailable(f"data directory {self._root}: {files.why(error)}") from error
        self.probe()

    @staticmethod
    def _remove_left_over(path: str) -> None:
        """Remove a temporary file, unless the process that made it lives: it may be putting just now."""
        maker, _, rest = os.path.basename(path).partition("-")
        lives = maker.isdigit() and int(maker) != os.getpid() and os.path.exists(f"/proc/{maker}")
        if lives or rest.startswith(_OURS):
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def probe(self) -> None:
        """Try in the root what every put needs: a file, `link`, `fsync` of a directory.

        Raises:
            StorageUnavailable: it does not work here; the message says what.
        """
        made = self._temporary_name()
        linked = made + "-link"
        try:
            os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, files.FILE_MODE))
            self._probe_link(made, linked)
            files.sync_directory(self._root)
        except OSError as error:
            raise StorageUnavailable(f"data directory {self._root} cannot be written: {files.why(error)}") from error
        finally:
            for path in (made, linked):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _probe_link(self, made: str, linked: str) -> None:
        try:
            os.link(made, linked)
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise StorageUnavailable(
                    f"data directory {self._root} is on a file system without hard links ({files.why(error)}); "
                    "use another, for example ext4 or xfs"
                ) from error
            raise

    def get(self, name: str) -> bytes:
        """The whole object."""
        return self._read(name, 0, None)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Bytes [start, start + length) of the object, by `pread`."""
        return self._read(name, start, length)

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Each range as `get_range`; the file is opened once for the small ones, a record of a pack read once."""
        place = self._placed(name)
        if place is not None:
            data = self._read_packed(name, place, 0, max((start + length for start, length in ranges), default=0))
            return [data[start : start + length] for start, length in ranges]
        descriptor = self._open_object(name)
        try:
            _expect(descriptor, ranges)
            return [
                self.get_range(name, start, length)
                if length >= direct.READ_BYTES_MIN
                else self._pread(descriptor, name, start, length)
                for start, length in ranges
            ]
        finally:
            os.close(descriptor)

    def get_unchecked(self, name: str) -> bytes:
        """What is there of the object, also of one in a pack whose record has changed; zeros for what is lost."""
        place = self._placed(name)
        descriptor = self._open_object(name, None if place is None else place.path)
        try:
            if place is None:
                return files.read_left(descriptor, os.fstat(descriptor).st_size, 0)
            return pack_file.raw_data_of(descriptor, place.pack, place.start, place.length)
        except OSError as error:
            raise self._unreadable(name, error) from error
        finally:
            os.close(descriptor)

    def _read(self, name: str, start: int, length: int | None) -> bytes:
        place = self._placed(name)
        if place is not None:
            return self._read_packed(name, place, start, place.length if length is None else length)
        descriptor = self._open_object(name)
        try:
            size = os.fstat(descriptor).st_size
            return self._read_file(descriptor, name, size, start, size if length is None else length)
        finally:
            os.close(descriptor)

    def _read_packed(self, name: str, place: PackPlace, start: int, length: int) -> bytes:
        """The whole record is read, so that its name and checksum can be compared."""
        if start + length > place.length:
            raise _cut_short(name, place.length, start + length)
        descriptor = self._open_object(name, place.path)
        try:
            data = pack_file.data_of(descriptor, place.pack, place.start, name, place.length)
        except OSError as error:
            raise self._unreadable(name, error) from error
        finally:
            os.close(descriptor)
        if data is None:
            file = pack_file.file_of(place.pack)
            raise Damaged(name, f"its record at {place.start} of {file} is not what was written")
        return data[start : start + length]

    def _read_file(self, descriptor: int, name: str, size: int, start: int, length: int) -> bytes:
        """From a large file past the page cache, else through it."""
        large = size >= direct.OBJECT_BYTES_MIN and length >= direct.READ_BYTES_MIN
        if not (large and direct.enable(descriptor)):
            return self._pread(descriptor, name, start, length)
        try:
            data = direct.read(descriptor, start, length)
        except OSError as error:
            raise self._unreadable(name, error) from error
        if len(data) < length:
            raise _cut_short(name, start + len(data), start + length)
        return data

    def _placed(self, name: str) -> PackPlace | None:
        """Where the object lies in a pack; None if it is a file, or not there."""
        if names.parse_commit(name) is None:
            return None
        found = self._index.find(name)
        if found is None and self._packer is None and not os.path.lexists(self._path(name)):
            self._refresh()
            found = self._index.find(name)
        return found

    def _refresh(self) -> None:
        try:
            if self._packer is None:
                self._index.refresh()
            else:
                self._packer.refresh()
        except OSError as error:
            raise self._unavailable("list", FOLDER, error) from error

    def _open_object(self, name: str, path: str | None = None) -> int:
        try:
            return os.open(path or self._path(name), os.O_RDONLY)
        except FileNotFoundError as error:
            raise Missing(name) from error
        except OSError as error:
            raise self._unreadable(name, error) from error

    def _pread(self, descriptor: int, name: str, start: int, length: int) -> bytes:
        try:
            data = os.pread(descriptor, length, start)
            while len(data) < length:
                more = os.pread(descriptor, length - len(data), start + len(data))
                if not more:
                    raise _cut_short(name, start + len(data), start + length)
                data += more
        except OSError as error:
            raise self._unreadable(name, error) from error
        return data

    def size(self, name: str) -> int | None:
        """Length of the object in bytes, None if there is no such object."""
        place = self._placed(name)
        if place is not None:
            return place.length
        try:
            return os.stat(self._path(name)).st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unavailable("read", name, error) from error

    def put_if_absent(self, name: str, data: Buffer | Sequence[Buffer]) -> Put:
        """Store the object durably, unless the name is taken.

        `UNKNOWN`: the file has its name and the directory could not be synced; that stays so until the directory is
        opened anew.

        Raises:
            StorageFull: no room; nothing was stored.
            StorageUnavailable: any other error; nothing was stored.
        """
        path = self._path(name)
        parts = _parts(data)
        packed = self._put_packed(name, path, parts)
        if packed is not None:
            return packed
        temporary = self._temporary_name()
        try:
            self._write(temporary, parts)
            linked = self._link(temporary, path)
        except OSError as error:
            if error.errno in files.FULL:
                raise StorageFull(f"data directory {self._root}", self.free_bytes(), 0) from error
            raise self._unavailable("write", name, error) from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if linked:
            return Put.WRITTEN if self._sync_upwards(os.path.dirname(path)) else Put.UNKNOWN
        return self._compare(path, name, parts)

    def _put_packed(self, name: str, path: str, parts: list[memoryview]) -> Put | None:
        """Put a small commit into a pack; None if it is to be a file, or is one."""
        packer = self._packer
        if packer is None or names.parse_commit(name) is None:
            return None
        if name in packer.failed:
            return Put.UNKNOWN
        if self._index.find(name) is not None:
            return Put.MINE if self.get(name) == b"".join(parts) else Put.ANOTHER
        if os.access(path, os.F_OK, follow_symlinks=False):
            return None
        durable = packer.put(name, parts)
        if durable is None:
            return None
        return Put.WRITTEN if durable else Put.UNKNOWN

    @staticmethod
    def _write(temporary: str, parts: list[memoryview]) -> None:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, files.FILE_MODE)
        try:
            if sum(part.nbytes for part in parts) >= direct.OBJECT_BYTES_MIN and direct.enable(descriptor):
                direct.write(descriptor, parts)
            else:
                files.write_all(descriptor, parts)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    @staticmethod
    def _link(temporary: str, path: str) -> bool:
        """Give the file its name; False if another file has it."""
        try:
            try:
                os.link(temporary, path)
            except FileNotFoundError:
                files.make_directories(os.path.dirname(path))
                os.link(temporary, path)
        except FileExistsError:
            return False
        return True

    def _compare(self, path: str, name: str, parts: list[memoryview]) -> Put:
        """Whose the object is that has the name; ours is made durable before we say so."""
        descriptor = self._open_object(name)
        try:
            length = os.fstat(descriptor).st_size
            if length != sum(part.nbytes for part in parts):
                return Put.ANOTHER
            if self._pread(descriptor, name, 0, length) != b"".join(parts):
                return Put.ANOTHER
            if path in self._failed:
                return Put.UNKNOWN
            os.fdatasync(descriptor)
        except OSError:
            self._failed.add(path)
            return Put.UNKNOWN
        finally:
            os.close(descriptor)
        return Put.MINE if self._sync_upwards(os.path.dirname(path)) else Put.UNKNOWN

    def _sync_upwards(self, directory: str) -> bool:
        """Sync the directory, and its parents if this process has not done so; False if that failed, now or before.

        Parents are synced on first use and not only when we made them: another thread, or a process that was killed,
        may have made them and not come to it.
        """
        if directory in self._failed:
            return False
        try:
            files.sync_directory(directory)
        except OSError:
            self._failed.add(directory)
            return False
        if directory in self._durable or directory == self._root:
            return True
        if not self._sync_upwards(os.path.dirname(directory)):
            return False
        self._durable.add(directory)
        return True

    def list(self, prefix: str) -> Iterator[str]:
        """Names that start with `prefix`, in order, at any depth."""
        self._refresh()
        yield from heapq.merge(self._list(self._folder_of(prefix), prefix), self._index.list(prefix))

    def _list(self, directory: str, prefix: str) -> Iterator[str]:
        try:
            with os.scandir(directory) as found:
                entries = sorted((entry.name + "/" if entry.is_dir() else entry.name) for entry in found)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unavailable("list", prefix, error) from error
        for entry in entries:
            if prefix == "" and entry in {LOCK, CONTROL_SECRET, *(folder + "/" for folder in _HIDDEN)}:
                continue
            if entry.endswith("/"):
                yield from self._list(os.path.join(directory, entry[:-1]), prefix + entry)
            else:
                yield prefix + entry

    def delete(self, name: str) -> None:
        """Remove the object if it is there."""
        try:
            if self._placed(name) is not None and self._delete_packed(name):
                return
            os.unlink(self._path(name))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._unavailable("delete", name, error) from error

    def _delete_packed(self, name: str) -> bool:
        """False if it is in no pack. Who does not hold the directory leaves an empty pack there."""
        return self._index.delete(name) is not None if self._packer is None else self._packer.delete(name)

    def remove_all(self, prefix: str) -> None:
        """Remove all objects below `prefix` and their folders. Then what says so is synced: the marks in packs, the
        folders that stand all the same, or the one in which the uppermost was."""
        for name in [*self.list(prefix)]:
            self.delete(name)
        top = self._folder_of(prefix)
        self._remove_folders([folder for folder, _, _ in os.walk(top, topdown=False)])
        try:
            (self._packer or self._index).settle()
        except OSError as error:
            raise self._unavailable("delete", prefix, error) from error
        while not os.path.isdir(top):
            top = os.path.dirname(top)
        if top == self._folder_of(prefix):
            self.sync(prefix)
        else:
            self._sync_folder(top)

    def remove_empty(self, prefix: str, before: str) -> None:
        """Remove empty folders; what cannot be removed stays."""
        top = self._folder_of(prefix)
        with contextlib.suppress(OSError):
            self._remove_folders([os.path.join(top, name) for name in os.listdir(top) if prefix + name < before])

    def _remove_folders(self, folders: Sequence[str]) -> None:
        """Remove the empty ones. A put that finds its folder gone makes it again, and syncs its parents again: it is
        forgotten first that they were, as from then on another may make it."""
        for folder in folders:
            self._durable.discard(folder)
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def sync(self, prefix: str) -> None:
        """Sync every directory below `prefix` and its parents.

        The files themselves were synced before they got their names.
        """

        def unseen(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise self._unavailable("list", prefix, error) from error

        for folder, _, _ in os.walk(self._folder_of(prefix), onerror=unseen):
            self._sync_folder(folder)

    def _sync_folder(self, folder: str) -> None:
        if not self._sync_upwards(folder):
            raise StorageUnavailable(f"{folder}: the directory could not be synced; check the disk, then restart")

    def _folder_of(self, prefix: str) -> str:
        return os.path.join(self._root, prefix.rstrip("/")) if prefix else self._root

    def check(self) -> Sequence[Damaged]:
        """What is wrong with all that is not an object of a log: the description of the cluster and the packs.

        From then on a reader knows where packs end by the register, as a server does: the last record of one is there
        though it cannot be read, and what lies behind it is not.

        Raises:
            BadRequest: the directory is of another version.
            StorageUnavailable
        """
        found: list[Damaged] = []
        try:
            identity.decode(self.get(names.CLUSTER))
        except Damaged as error:
            found.append(error)
        index = PackIndex(self._root)
        try:
            found += pack_check.check(index, self._register)
        except OSError as error:
            raise self._unavailable("read", FOLDER, error) from error
        if self._packer is None:
            self._index = index
        return found

    def close(self) -> None:
        """Nothing more is put into packs: their ends are registered, so that what gets lost of them is noticed."""
        if self._packer is not None:
            self._packer.close()

    def free_bytes(self) -> int:
        """Free space for this user on the file system of the root."""
        return files.free_bytes(self._root)

    def total_bytes(self) -> int:
        """Size of the file system of the root."""
        found = os.statvfs(self._root)
        return found.f_blocks * found.f_frsize

    def _path(self, name: str) -> str:
        if not _NO_PARTS.isdisjoint(name.split("/")):
            raise InvalidValue(f"object name {name!r}: parts between '/' must not be empty, '.' or '..'")
        return self._base + name

    def _temporary_name(self) -> str:
        return os.path.join(self._temporary, f"{os.getpid()}-{_OURS}-{id(self):x}-{next(self._numbers)}")

    def _unreadable(self, name: str, error: OSError) -> FairleadError:
        """What the disk has lost stays lost, and is one object's damage; whatever else keeps it from being read may
        pass."""
        if error.errno in files.LOST:
            return Damaged(name, f"cannot be read: {files.why(error)}")
        return self._unavailable("read", name, error)

    def _unavailable(self, what: str, name: str, error: OSError) -> StorageUnavailable:
        return StorageUnavailable(f"data directory {self._root}: cannot {what} {name}: {files.why(error)}")


class ReadOnlyLocalStorage(LocalStorage):
    """The same directory for readers: nothing is made, tried or cleaned up at opening; a reader may lack the right.

    What was seen in a pack and is deleted by another process stays to be seen until the pack is gone.
    """

    def _open(self) -> None:
        pass


def _cut_short(name: str, end: int, expected: int) -> Damaged:
    return Damaged(name, f"ends at {end} bytes, {expected} were expected")


def _expect(descriptor: int, ranges: Sequence[tuple[int, int]]) -> None:
    """Let the kernel read the stretch of many small ranges at once: each would wait for the disk by itself."""
    low = min((start for start, _ in ranges), default=0)
    span = max((start + length for start, length in ranges), default=0) - low
    if len(ranges) >= _EXPECTED_MIN and span <= _EXPECTED_TIMES * sum(length for _, length in ranges):
        os.posix_fadvise(descriptor, low, span, os.POSIX_FADV_WILLNEED)


def _parts(data: Buffer | Sequence[Buffer]) -> list[memoryview]:
    if isinstance(data, list | tuple):
        return [memoryview(part).cast("B") for part in data]
    return [memoryview(data).cast("B")]  # type: ignore[arg-type]
