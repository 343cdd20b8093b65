"""Access to the objects that the source server names.

Now: a directory of the same host. A reader far from the storage will get the same two calls over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fairlead.storage.interface import Storage
from fairlead.storage.local import LocalStorage

OpenObjects = Callable[[str], Storage]
"""From a grant's `data_root` to something that reads its objects."""


class DirectoryObjects(LocalStorage):
    """The objects of a data directory, only to be read: nothing is made, tried or cleaned up."""

    def _open(self) -> None:
        pass


def open_directory(data_root: str) -> Storage:
    """Objects below this directory."""
    return DirectoryObjects(Path(data_root))
