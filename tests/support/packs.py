"""A storage whose small commits all go into packs, the first ones too."""

from __future__ import annotations

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
