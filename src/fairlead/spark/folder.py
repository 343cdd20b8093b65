"""A folder for Spark's temporary files, which goes with its process: if that is killed, the next one removes it.

Always true: the file `lock` in it is locked for as long as its process lives. A folder without that file is left alone:
it is being made, or is none of ours.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.model.errors import StorageUnavailable

_SOCKET_FOLDER_BYTES_MAX: Final = 103 - len("/.00000000-0000-0000-0000-000000000000.sock")
"""Longest folder name for Spark's Unix sockets, named like this: every system allows them 103 bytes in all."""
_PLAIN: Final = re.compile(r"[\w./~+-]+", re.ASCII)
"""Names that mean the same in the JVM's options (no spaces), in lists of folders (no commas) and in URLs."""
_LOCK: Final = "lock"


class Folder:
    """Make it, and `remove` it."""

    def __init__(self, name: str) -> None:
        """Raises: StorageUnavailable: there is no place for it."""
        try:
            self.path = _made(name)
            _remove_left_ones(self.path.parent, name)
            self._lock = _locked(self.path)
        except OSError as error:
            raise StorageUnavailable(f"no folder for temporary files, set TMPDIR: {error}") from error

    def remove(self) -> None:
        """The folder, with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _made(name: str) -> Path:
    """In /tmp if the usual place has a name that Spark does not take."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    if len(os.fsencode(folder)) <= _SOCKET_FOLDER_BYTES_MAX and _PLAIN.fullmatch(str(folder)):
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/tmp"))


def _locked(folder: Path) -> int:
    """It gets its name once it is locked, so that nobody finds it without."""
    descriptor = os.open(folder / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    (folder / f"{_LOCK}.new").rename(folder / _LOCK)
    return descriptor


def _remove_left_ones(parent: Path, name: str) -> None:
    for folder in parent.glob(f"{name}-*"):
        with suppress(OSError):  # its process lives, or it is another user's
            descriptor = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
