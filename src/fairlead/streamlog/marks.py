"""Marks on partitions that take no records, since nobody knows where they ended: entries of a shard's own state.

They are left by `set_aside`. An offset that was given before and is given again would be another record for whoever has
read the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from fairlead.model.errors import NotAllowed

_VERSION: Final = 1


class Entries(Protocol):
    """Where the marks are kept."""

    def entry(self, key: str) -> Any: ...


def key(number: int) -> str:
    """Key of a topic's mark."""
    return f"set-aside/{number}"


def value(name: str, partitions: Sequence[int] | None) -> dict[str, Any]:
    """A mark: the object that was set aside, and the partitions; None: all."""
    return {"v": _VERSION, "object": name, "partitions": None if partitions is None else list(partitions)}


def check_unmarked(state: Entries, number: int, partition: int) -> None:
    """Check that the partition takes records.

    Raises:
        NotAllowed: it does not.
    """
    mark = state.entry(key(number))
    if mark is not None and (mark["partitions"] is None or partition in mark["partitions"]):
        raise NotAllowed(
            f"partition {partition} takes no records: where it ended was lost with {mark['object']}; use another topic"
        )
