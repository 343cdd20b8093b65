"""Committed offsets as a listener sees them: those of every stream that it can name.

A cursor is keyed (group, topic, partition) and lies in the log of its topic's stream, so all listeners share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fairlead.broker.groups.values import GroupKey
from fairlead.broker.topics.topics import Found, ListenerView
from fairlead.streamlog.cursors import Cursor


class Committed(NamedTuple):
    """One cursor, with the topic's name on this listener."""

    topic: str
    partition: int
    cursor: Cursor


def group_key(listener: ListenerView, group: str) -> GroupKey:
    """The group as this listener's members know it."""
    return GroupKey(listener.namespace, group)


def groups_with_cursors(listener: ListenerView) -> Iterator[str]:
    """Every group that committed anything in the streams of this listener, once for each shard."""
    for stream in listener.streams():
        for shard in stream.shards:
            yield from shard.state.cursor_table.groups()


def has_cursors(listener: ListenerView, group: str) -> bool:
    """Has the group committed anything that this listener shows?"""
    return next(committed_by(listener, group), None) is not None


def committed_by(listener: ListenerView, group: str) -> Iterator[Committed]:
    """All cursors of a group, by stream."""
    for stream in listener.streams():
        for _, topic, partition, cursor in stream.cursors(group):
            yield Committed(listener.name_of(stream, topic.name), partition, cursor)


def committed_at(found: Found, group: str, partition: int) -> Cursor | None:
    """The group's cursor in one partition, as its members are told it; None if it has none."""
    cursor: Cursor | None = found.stream.cursor(group, found.shard, found.topic, partition)
    return cursor
