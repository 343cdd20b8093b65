"""A storage whose small commits all go into packs, the first ones too."""

from __future__ import annotations

from pathlib import Path

from fairlead.storage.local import LocalStorage
from fairlead.storage.packs import FILES_FIRST


def always_packed(root: Path) -> LocalStorage:
    """As after the first commits of a process, with a pack ready."""
    storage = LocalStorage(root, packs=True)
    assert storage._packer is not None
    storage._packer._files = FILES_FIRST
    storage._packer.prepare()
    return storage
