"""One server at a time has a data directory, whatever becomes of the lock file."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.model.errors import Busy, StorageUnavailable
from fairlead.storage.lock import LOCK, lock_directory

HOLDER = (
    "import sys, pathlib; from fairlead.storage.lock import lock_directory; "
    "held = lock_directory(pathlib.Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_lock_says_who_holds_the_first(holder: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The process id lets an operator find it. The lock goes with the process."""
    with pytest.raises(Busy, match=f"in use by the process with pid {holder.pid}"):
        lock_directory(tmp_path)
    holder.kill()
    holder.communicate()
    lock_directory(tmp_path).close()


def replace(file: Path) -> None:
    file.unlink()
    file.write_bytes(b"4711\n")


HARMS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "replaced": replace,
    "emptied": lambda file: file.write_bytes(b""),
    "flipped": lambda file: file.write_bytes(b"\xff\x00"),
    "zeroed": lambda file: file.write_bytes(bytes(4)),
}


@pytest.mark.parametrize("harm", HARMS)
def test_the_directory_stays_locked_without_its_lock_file(
    holder: subprocess.Popen[bytes], tmp_path: Path, harm: str
) -> None:
    """A second server would lose what the first acknowledges while it starts."""
    HARMS[harm](tmp_path / LOCK)
    for _ in range(2):
        with pytest.raises(Busy, match="in use by the process"):
            lock_directory(tmp_path)
    holder.kill()
    holder.communicate()
    lock_directory(tmp_path).close()


def test_a_lock_file_that_is_replaced_meanwhile_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was locked is not what the next one will lock."""
    flock = fcntl.flock

    def replacing(descriptor: int, how: int) -> None:
        flock(descriptor, how)
        replace(tmp_path / LOCK)

    monkeypatch.setattr(fcntl, "flock", replacing)
    with pytest.raises(Busy, match="was replaced just now"):
        lock_directory(tmp_path)


def test_where_directories_cannot_be_locked_the_file_is_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS. Other errors are told."""
    flock = fcntl.flock

    def refusing(number: int) -> None:
        def called(descriptor: int, how: int) -> None:
            if os.path.isdir(f"/proc/self/fd/{descriptor}"):
                raise OSError(number, os.strerror(number))
            flock(descriptor, how)

        monkeypatch.setattr(fcntl, "flock", called)

    refusing(errno.EBADF)
    held = lock_directory(tmp_path)
    with pytest.raises(Busy, match=f"in use by the process with pid {os.getpid()}"):
        lock_directory(tmp_path)
    held.close()
    refusing(errno.EIO)
    with pytest.raises(StorageUnavailable, match="cannot open or lock lock: input/output error"):
        lock_directory(tmp_path)
