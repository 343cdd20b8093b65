"""Of commits before a link begins, only where partitions had come is sent (`-from now`)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.streamlog.reading.test_slices import Log
from tests.support.rows import batch_row, control_row

from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.objects import format
from fairlead.streamlog.objects.dead import NOTHING_DEAD
from fairlead.streamlog.payloads import FROM_NOW, StartPayload
from fairlead.streamlog.reading.located import load
from fairlead.streamlog.reading.slices import Route, read_partition, read_routes, read_slices
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.values import LogObject

ALL = dict.fromkeys(range(16), 0)
ELSEWHERE = b"e" * 16


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("begin", [1, 25, 40, 45, 60])
@pytest.mark.parametrize("refer_bytes", [None, 1])
def test_what_is_older_is_told_by_where_it_ends(seed: int, begin: int, refer_bytes: int | None) -> None:
    """Of merged commits and of others, also where newer batches are not read but referred to; what is newer is as it
    is, and where nothing is cut by size, all parts touch as without that."""
    log = Log(seed)
    route = Route(ELSEWHERE, begin=begin)
    parts = list(read_slices(log.storage, log.objects, ALL, route=route, refer_bytes=refer_bytes))
    if refer_bytes is None:
        whole = list(read_slices(log.storage, log.objects, ALL, route=Route(ELSEWHERE)))
        assert [(each.slices, each.from_commit, each.to_commit) for each in parts] == [
            (each.slices, each.from_commit, each.to_commit) for each in whole
        ]
    loaded = [part.columns if part.referred is None else load(log.storage, part.referred) for part in parts]
    rows = [row for columns in loaded for row in columns.rows()]
    batches = [row for row in log.rows if row.kind == Kind.BATCH]
    assert sorted(row for row in rows if row.kind == Kind.BATCH) == sorted(r for r in batches if r.commit >= begin)
    ends = {row.topic: row.last_offset + 1 for row in batches if row.commit < begin}
    starts = [row for row in rows if row.kind == Kind.START]
    assert {row.topic: row.base_offset for row in sorted(starts, key=lambda row: row.commit)} == ends
    lasts = {(row.commit, row.row): (row.origin, row.via) for row in batches}
    assert all(lasts[row.commit, row.row] == (row.origin, row.via) for row in starts)


def test_batches_that_are_left_out_are_not_read() -> None:
    """A link that begins at the end of a log of terabytes reads its columns alone."""
    log = Log(1, size=2000)
    asked: list[int] = []
    get_ranges = log.storage.get_ranges
    log.storage.get_ranges = lambda name, ranges: asked.append(len(ranges)) or get_ranges(name, ranges)  # type: ignore[method-assign, func-returns-value]
    assert list(read_slices(log.storage, log.objects, ALL, route=Route(ELSEWHERE, begin=60)))
    assert not asked
    assert list(read_slices(log.storage, log.objects, ALL, route=Route(ELSEWHERE)))


def told(rows: Sequence[Row], begin: int, from_offset: int = 0) -> list[tuple[int, int, StartPayload]]:
    """The START rows that a repair of partition 0 of topic 5 sends: commit, offset, payload."""
    storage = MemoryStorage()
    last = max(row.commit for row in rows)
    storage.put_if_absent("x", format.encode(rows, name="x", object_kind="segment", first=0, end=last + 1))
    objects = [LogObject("x", 0, last + 1, segment=True)]
    sent = [row for part in read_partition(storage, objects, 5, 0, from_offset, begin=begin) for row in part.rows()]
    assert [row for row in sent if row.kind == Kind.BATCH] == [
        row for row in rows if row.kind == Kind.BATCH and row.commit >= begin
    ]
    return [(row.commit, row.base_offset, payloads.decode_start(row.batch)) for row in sent if row.kind == Kind.START]


def test_each_epoch_is_told_in_its_place() -> None:
    """So that the row which changes the owner stands where it did; with the epoch of the record before, as far as the
    replica must know it to see that it follows."""
    rows = [
        batch_row(5, 0, epoch=0, commit=0, previous_end=0, previous_epoch=-1),
        batch_row(5, 1, epoch=0, commit=1, previous_end=1, previous_epoch=0),
        batch_row(5, 2, epoch=7, commit=2, previous_end=2, previous_epoch=0),
        batch_row(5, 3, epoch=9, commit=3, previous_end=3, previous_epoch=7),
        batch_row(5, 4, epoch=9, commit=4, previous_end=4, previous_epoch=9),
    ]
    assert told(rows, 4) == [
        (1, 2, StartPayload(FROM_NOW, 2, ((0, 0),), 0, epoch=0)),
        (2, 3, StartPayload(FROM_NOW, 3, ((0, 0), (7, 2)), 2, epoch=7)),
        (3, 4, StartPayload(FROM_NOW, 4, ((7, 2), (9, 3)), 3, epoch=9)),
    ]
    assert [offset for _, offset, _ in told(rows, 2, from_offset=1)] == [2]


def test_the_rest_of_an_epoch_follows_the_record_before_it() -> None:
    """A part of the log may begin within an epoch: a replica that holds what is before it sees that this follows."""
    rows = [
        batch_row(5, 6, epoch=7, commit=2, previous_end=6, previous_epoch=7),
        batch_row(5, 7, epoch=7, commit=3, previous_end=7, previous_epoch=7),
    ]
    assert told(rows, 4) == [(3, 8, StartPayload(FROM_NOW, 8, ((7, 5),), 6, epoch=7))]


def test_a_start_row_of_the_past_says_where_the_log_begins_and_no_more() -> None:
    """A gap is none to a replica that gets nothing of what is before it either; deletions stay deletions. One that
    cannot be read is left to its receiver."""
    gap = StartPayload("ttl", 9, ((0, 0),), 5, 7, 0, {"later": 1})
    rows = [
        control_row(Kind.START, payloads.encode(gap), topic=5, base_offset=9, commit=0),
        control_row(Kind.START, payloads.encode(gap), topic=5, base_offset=9, commit=1),
    ]
    now = StartPayload(FROM_NOW, 9, ((0, 0),), None, 7, 0, {"later": 1})
    assert told(rows, 1) == [(0, 9, now), (1, 9, gap)]
    broken = control_row(Kind.START, b"{}", topic=5, base_offset=9, commit=0)
    storage = MemoryStorage()
    storage.put_if_absent("x", format.encode([broken], name="x"))
    (part,) = read_partition(storage, [LogObject("x", 0, 1, segment=False)], 5, 0, 0, begin=1)
    assert list(part.rows()) == [broken]


def test_links_that_begin_elsewhere_do_not_share_what_was_read() -> None:
    """Once both have begun, they do."""
    log = Log(3)

    def read(start: int, *begins: int) -> int:
        routes = [Route(ELSEWHERE, begin=begin) for begin in begins]
        starts = dict.fromkeys(range(16), start)
        objects = [each for each in log.objects if each.end > start]
        found = read_routes(
            log.storage, objects, starts, routes, framed=starts, frame_bytes=1 << 20, refer_bytes=1 << 20,
            dead=NOTHING_DEAD,
        )  # fmt: skip
        return len({id(parts) for parts in found})

    assert read(0, 0, 20, 30) == 3
    assert read(40, 0, 20, 40) == 1
