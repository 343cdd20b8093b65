"""What files and packs of a local directory both ask of the system. Every call raises OSError.

Whatever is made here is private: records are nobody else's to read.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""How the system says that there is no room."""
LOST: Final = frozenset({errno.EIO, errno.ENODATA, errno.EBADMSG, errno.EUCLEAN})
"""How it says that the disk cannot give back what was written there: a bad sector, or a checksum of the file system."""
_IOV_MAX: Final = 1024
_SECTOR: Final = 4096


def make_directories(path: str) -> None:
    """Make a directory, and its parents, where they are not there."""
    if os.path.isdir(path):
        return
    make_directories(os.path.dirname(path) or ".")
    with suppress(FileExistsError):
        os.mkdir(path, DIRECTORY_MODE)


def make_private_root(path: str) -> None:
    """Make the data directory. An empty one that somebody has made for it becomes private too."""
    make_directories(os.path.abspath(path))
    if not os.listdir(path):
        with suppress(PermissionError):  # of another user, who decides who may enter it
            os.chmod(path, DIRECTORY_MODE)


def put(temporary: str, path: str, data: bytes) -> bool:
    """Make a file with its name, its bytes durable; False if the name is taken. The name is durable once the directory
    is synced."""
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        try:
            write_all(descriptor, [memoryview(data)])
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return True


def write_all(descriptor: int, parts: Sequence[memoryview]) -> None:
    """Write every part, however little the kernel takes at a time: where the disk has room for no more it takes some,
    and refuses the rest."""
    waiting = [part for part in parts if part.nbytes]
    place = 0
    while place < len(waiting):
        written = os.writev(descriptor, waiting[place : place + _IOV_MAX])
        while place < len(waiting) and written >= waiting[place].nbytes:
            written -= waiting[place].nbytes
            place += 1
        if written:
            waiting[place] = waiting[place][written:]


def read_left(descriptor: int, length: int, start: int) -> bytes:
    """Bytes [start, start + length) of a file, fewer at its end, with zeros in the place of what is lost."""
    pieces: list[bytes] = []
    place, end = start, start + length
    while place < end:
        piece = _read_or_lost(descriptor, end - place, place)
        if piece is None:
            sector = min(end, (place // _SECTOR + 1) * _SECTOR) - place
            piece = _read_or_lost(descriptor, sector, place) or bytes(sector)
        if not piece:
            break
        pieces.append(piece)
        place += len(piece)
    return b"".join(pieces)


def _read_or_lost(descriptor: int, length: int, place: int) -> bytes | None:
    """None: some of it is lost. The system mostly gives what stands before that first."""
    try:
        return os.pread(descriptor, length, place)
    except OSError as error:
        if error.errno in LOST:
            return None
        raise


def sync_and_forget(path: str) -> None:
    """Make a file durable, and let what is read of it from now on come from the disk: after a write that failed the
    page cache keeps bytes that the disk never got, and tells only the first who asks."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def sync_data(path: str) -> None:
    """Make the bytes of a file durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_linked(descriptor: int) -> None:
    """An open file still has a name, so that what is written to it is found again. Raises: FileNotFoundError."""
    if os.fstat(descriptor).st_nlink == 0:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def free_bytes(path: str) -> int:
    """Free space for this user on the file system of a path."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def why(error: OSError) -> str:
    """What went wrong, for the end of a message."""
    return (error.strerror or str(error)).lower()


def lock(descriptor: int) -> bool:
    """Lock an open file for this process, until it is closed; False if another process has it locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Let others lock it."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def unlink_unlocked(path: str) -> None:
    """Remove a file, unless a process that lives has it locked."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if lock(descriptor):
                os.unlink(path)
        finally:
            os.close(descriptor)
