"""Values by topic number and a key: what a topic takes with it when it goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

KeptKey = tuple[int, int, str]
"""(kind, partition, k) of a row of a kind that is not known here."""


class Kept(NamedTuple):
    """The newest row of a key, of a kind that is not known here."""

    n: int
    data: bytes
    """Its payload, as it was written."""


class Keyed(Generic[K, V]):
    """Values by topic number and key."""

    def __init__(self) -> None:
        self._values: dict[int, dict[K, V]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, number: int, key: K) -> V | None:
        """The value of a key."""
        return self._values.get(number, {}).get(key)

    def put(self, number: int, key: K, value: V | None) -> None:
        """Set the value of a key; None forgets it."""
        found = self._values.setdefault(number, {})
        before = len(found)
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
        self._count += len(found) - before
        if not found:
            del self._values[number]

    def remove(self, number: int) -> None:
        """Forget all of a topic."""
        self._count -= len(self._values.pop(number, ()))

    def numbers(self, key: K) -> list[int]:
        """The topics that have a value of this key."""
        return [number for number, found in self._values.items() if key in found]

    def items(self) -> Iterator[tuple[int, K, V]]:
        """Everything, by number, in the order of the first rows of their keys."""
        for number in sorted(self._values):
            yield from ((number, key, value) for key, value in self._values[number].items())
