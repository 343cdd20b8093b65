"""A storage whose small commits all go into packs, the first ones too."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fairlead.storage.local import LocalStorage
from fairlead.storage.packs import PackSettings

PACK_BYTES = 1 << 20


def always_packed(root: Path, *, packs_max: int = 4, pack_bytes: int = PACK_BYTES) -> LocalStorage:
    """As after the first commits of a process; a put that finds no pack makes one first, in its own thread."""
    settings = PackSettings(
        pack_bytes=pack_bytes, packs_max=packs_max, files_first=0, free_packs_min=1, aside=lambda make: make()
    )
    return LocalStorage(root, packs=settings)


def kill(root: Path) -> None:
    """The process that has the directory open ends without a word: its files are closed, and no lock is held."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{root}/"):
                os.close(descriptor)
