"""What files and packs of a local directory both ask of the system. Every call raises OSError."""

from __future__ import annotations

import os


def sync_and_forget(path: str) -> None:
    """Make a file durable, and let what is read of it from now on come from the disk: after a write that failed the
    page cache keeps bytes that the disk never got, and tells only the first who asks."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_bytes(path: str) -> int:
    """Free space for this user on the file system of a path."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
