"""Named immutable objects: the only thing that Fairlead asks of a disk or an object store.

Names are relative, with `/` between parts. An object is never changed after it was put, and no name is used twice
(except after `delete`, which the log never relies on).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Protocol

from typing_extensions import Buffer


class Put(Enum):
    """What `put_if_absent` knows about its outcome."""

    WRITTEN = "written"
    MINE = "mine"
    """An object with exactly my bytes is there, and is durable."""
    ANOTHER = "another"
    """An object with other bytes has the name."""
    UNKNOWN = "unknown"
    """It may have been written, may be written later, or never. Put the same bytes again to know."""


class Storage(Protocol):
    """Blocking calls; safe to use from several threads.

    Errors: `StorageUnavailable` for whatever may pass, `StorageFull` when there is no room, `Missing` when a named
    object is not there (`get`, `get_range`, `get_ranges`), `Damaged` when it is shorter than asked for.
    """

    def get(self, name: str) -> bytes:
        """The whole object."""
        ...

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Bytes [start, start + length) of the object."""
        ...

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The same for each start and length, in order; the object is looked up once."""
        ...

    def get_unchecked(self, name: str) -> bytes:
        """What is there of the object, also where `get` finds it damaged; for saving what is left of it."""
        ...

    def size(self, name: str) -> int | None:
        """Length of the object in bytes, None if there is no such object."""
        ...

    def put_if_absent(self, name: str, data: Buffer | Sequence[Buffer]) -> Put:
        """Store the object durably, unless the name is taken. A sequence of buffers is stored one after the other."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Names that start with `prefix` (which ends in `/` or is empty), in order, at any depth."""
        ...

    def delete(self, name: str) -> None:
        """Remove the object if it is there. Not durable at once: it may come back after a power failure."""
        ...

    def remove_all(self, prefix: str) -> None:
        """Remove all objects below `prefix` (which ends in `/`), also those that an earlier call has begun with, and
        what the storage itself keeps for their names. Durable: none of them comes back after a power failure."""
        ...

    def remove_empty(self, prefix: str, before: str) -> None:
        """Give back what the storage itself keeps for names that are not used any more: folders of a directory in which
        nothing is. Those right below `prefix` (which ends in `/`) whose names are lower than `before`. A folder that
        gets an object meanwhile stays."""
        ...

    def sync(self, prefix: str) -> None:
        """Make all objects below `prefix` durable that a reader can see; called once before a log is opened."""
        ...

    def free_bytes(self) -> int:
        """Free space left for objects."""
        ...

    def total_bytes(self) -> int:
        """Size of the space that `free_bytes` is a part of."""
        ...
