"""Which consumer groups have members here: only the server of Kafka clients knows it, and it says so here.

Where a group goes on depends on it: what other sites say moves no members that have committed here.
"""

from __future__ import annotations

from collections.abc import Callable

NonemptySince = Callable[[str, bytes, int], int | None]
"""By group, stream and number of the shard: the commit from which on rows came while the group had members; None while
it has none."""


class Consumers:
    """Of all streams of a cluster."""

    def __init__(self) -> None:
        self._since: NonemptySince = lambda group, stream, shard: None

    def ask(self, since: NonemptySince) -> None:
        """From now on this one is asked."""
        self._since = since

    def nonempty_since(self, group: str, stream: bytes, shard: int) -> int | None:
        """The commit from which on rows came while the group had members; None while it has none."""
        return self._since(group, stream, shard)
