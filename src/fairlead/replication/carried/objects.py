"""Access to the objects that the source server names.

Today this is a directory of the same host. A reader far from the storage will get the same two calls over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from fairlead.storage.interface import Storage
from fairlead.storage.local import ReadOnlyLocalStorage

OpenObjects = Callable[[str], Storage]
"""From a grant's `data_root` to something that reads its objects."""


@lru_cache(maxsize=16)
def open_directory(data_root: str) -> Storage:
    """Objects below this directory; all callers share one storage, since it remembers what lies in packs."""
    return ReadOnlyLocalStorage(Path(data_root))
