"""What files and packs of a local directory both ask of the system. Every call raises OSError."""

from __future__ import annotations

import os


def sync(path: str) -> None:
    """Make a file durable."""
    _sync(path, os.O_RDONLY)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_bytes(path: str) -> int:
    """Free space for this user on the file system of a path."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
