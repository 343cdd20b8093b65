"""The cursors of a shard: what consumer groups have committed here, and elsewhere, by group and partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fairlead.streamlog.cursors import NO_CURSORS, CursorPair
from fairlead.streamlog.values import PartitionKey


class CursorTable:
    """Those of deleted cursors too: their versions go on."""

    def __init__(self) -> None:
        self._cursors: dict[str, dict[PartitionKey, CursorPair]] = {}
        self._live: dict[str, int] = {}
        """Groups that have a cursor, and how many."""
        self._apart: dict[str, int] = {}
        """Groups that go their own way here, and in how many partitions."""
        self.unpublished: dict[tuple[str, int, int], None] = {}
        """Group, topic number and partition of the cursors that were committed and not published since."""

    def __bool__(self) -> bool:
        """Whether any group has ever committed here, or in a log that links bring here."""
        return bool(self._cursors)

    def get(self, group: str, number: int, partition: int) -> CursorPair:
        """A group's committed offsets in a partition."""
        found = self._cursors.get(group)
        return NO_CURSORS if found is None else found.get((number, partition), NO_CURSORS)

    def groups(self) -> list[str]:
        """Groups that have a cursor here."""
        return list(self._live)

    def has_group(self, group: str) -> bool:
        """Whether the group has a cursor here."""
        return group in self._live

    def has_known(self, group: str) -> bool:
        """Whether it has one here, or had."""
        return group in self._cursors

    def may_have_group(self, group: str, groups_max: int) -> bool:
        """Whether the group has a cursor here, or there are fewer groups than that."""
        return len(self._live) < groups_max or group in self._live

    def groups_apart(self) -> list[str]:
        """Groups that go their own way here in a partition."""
        return list(self._apart)

    def of(self, group: str) -> Mapping[PartitionKey, CursorPair]:
        """All cursors of a group by (topic number, partition), deleted ones too."""
        return dict(self._cursors.get(group, {}))

    def all(self) -> Iterator[tuple[str, PartitionKey, CursorPair]]:
        """Those of all groups, deleted ones too; the table must not change meanwhile."""
        for group, found in self._cursors.items():
            for key, cursors in found.items():
                yield group, key, cursors

    def put(self, group: str, number: int, partition: int, cursors: CursorPair) -> None:
        """These stand now."""
        found = self._cursors.setdefault(group, {})
        before = found.pop((number, partition), NO_CURSORS)
        if cursors != NO_CURSORS:
            found[number, partition] = cursors
        elif not found:
            del self._cursors[group]
        _count(self._live, group, _is_live(cursors) - _is_live(before))
        _count(self._apart, group, _is_apart(cursors) - _is_apart(before))
        if cursors.is_dirty:
            self.unpublished[group, number, partition] = None
        else:
            self.unpublished.pop((group, number, partition), None)

    def forget(self, number: int, partitions: int) -> None:
        """A topic is gone."""
        for group in list(self._cursors):
            for partition in range(partitions):
                self.put(group, number, partition, NO_CURSORS)


def _count(counts: dict[str, int], group: str, more: int) -> None:
    if more:
        count = counts.pop(group, 0) + more
        if count:
            counts[group] = count


def _is_live(cursors: CursorPair) -> bool:
    """Whether there is one, for members that come or for those that are there."""
    return cursors.live() is not None or (cursors.own is not None and not cursors.own.is_deleted)


def _is_apart(cursors: CursorPair) -> bool:
    return cursors.own is not None and cursors.own.apart
