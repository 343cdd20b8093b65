"""Offset syncs in MirrorMaker 2's form, and when one is due."""

from __future__ import annotations

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.offset_syncs import LATE_SECONDS, Sync, Syncs, sync_below, sync_record
from fairlead.mirror.lanes import Part

PART = Part("a", bytes(16), "t", 3)


def at(offset: int, destination: int, since: int = 0) -> Position:
    """A partition is mirrored up to `offset`, which lies at `destination`."""
    return Position(offset, -1, "t", "A.t", at=destination, since=since)


def due(syncs: Syncs, position: Position, seconds: float = 0.0) -> list[Sync]:
    """What is due, and written at once."""
    found = syncs.due([(PART, position)], seconds)
    syncs.written(found, seconds)
    return [sync for _, sync in found]


def test_a_sync_has_the_bytes_that_java_reads() -> None:
    """Big-endian; the topic behind its length."""
    key, value = sync_record("té", 3, Sync(0x0102030405060708, 9))
    assert key == b"\x00\x03t\xc3\xa9\x00\x00\x00\x03"
    assert value == b"\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00\x00\x00\x09"


def test_a_sync_is_just_below_the_position() -> None:
    """Also where that is no record, as behind the marker of each transaction: who has committed it, or what is behind
    it, has not read what lies at or behind the position. Where its place is not known, there is no sync."""
    assert sync_below(at(10, 25)) == Sync(9, 24)
    assert sync_below(at(10, 25, since=10)) == Sync(9, 24)
    assert sync_below(at(10, -1)) is None
    assert sync_below(at(10, 0)) is None
    assert sync_below(at(0, 25)) is None


def test_a_sync_is_due_each_so_many_records() -> None:
    """And the first at once."""
    syncs = Syncs(lag_max=100)
    assert due(syncs, at(10, 10)) == [Sync(9, 9)]
    assert due(syncs, at(109, 109)) == []
    assert due(syncs, at(110, 110)) == [Sync(109, 109)]
    assert due(syncs, at(110, 110)) == []


def test_what_came_last_is_told_after_a_while() -> None:
    """However few they are; once."""
    syncs = Syncs(lag_max=100)
    due(syncs, at(10, 10))
    assert due(syncs, at(12, 12), LATE_SECONDS - 1) == []
    assert due(syncs, at(12, 12), LATE_SECONDS) == [Sync(11, 11)]
    assert due(syncs, at(12, 12), 3 * LATE_SECONDS) == []


def test_a_sync_is_due_where_records_lie_otherwise_than_before() -> None:
    """Something lies between them at one end alone."""
    syncs = Syncs(lag_max=100)
    due(syncs, at(10, 10))
    assert due(syncs, at(12, 13, since=11)) == [Sync(11, 12)]


def test_with_a_lag_of_0_each_move_is_told() -> None:
    """Once."""
    syncs = Syncs(lag_max=0)
    assert due(syncs, at(10, 10)) == [Sync(9, 9)]
    assert due(syncs, at(10, 10)) == []
    assert due(syncs, at(11, 11)) == [Sync(10, 10)]
