"""The lock of a data directory: one server at a time.

What is locked is the directory itself, which nobody deletes without notice. The file `lock` is locked too: it tells who
holds the directory, and it is the only lock where a file system locks no directories (NFS).
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from fairlead.model.errors import Busy, StorageUnavailable
from fairlead.storage import files

LOCK: Final = "lock"
_NO_LOCKS = frozenset({errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})


class DirectoryLock:
    """The lock of a data directory, held until `close` or the end of the process."""

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = descriptors

    def close(self) -> None:
        """Give the directory free."""
        descriptors, self._descriptors = self._descriptors, ()
        for descriptor in descriptors:
            os.close(descriptor)


def lock_directory(root: Path) -> DirectoryLock:
    """Take the data directory for this process; the lock goes with the process, however it ends. A directory that is
    not there is made.

    Raises:
        Busy: another process holds it; the message says which.
        StorageUnavailable: the directory or its lock file cannot be opened or locked.
    """
    try:
        files.make_private_root(os.fspath(root))
        directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StorageUnavailable(f"data directory {root}: cannot open it: {files.why(error)}") from error
    lock = DirectoryLock(directory)
    try:
        descriptor = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, files.FILE_MODE)
        lock = DirectoryLock(directory, descriptor)
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        if not (files.lock(descriptor) and _locked_directory(directory)):
            lock.close()
            raise Busy(f"data directory {root} is in use by the process with pid {holder}; stop it first")
        if not os.path.samestat(os.fstat(descriptor), os.stat(root / LOCK)):
            lock.close()
            raise Busy(f"data directory {root}: the file {LOCK} was replaced just now; is another server starting?")
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        lock.close()
        raise StorageUnavailable(f"data directory {root}: cannot open or lock {LOCK}: {files.why(error)}") from error
    return lock


def _locked_directory(descriptor: int) -> bool:
    """Lock it if nobody else does; True where the file system locks no directories."""
    try:
        return files.lock(descriptor)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        raise
