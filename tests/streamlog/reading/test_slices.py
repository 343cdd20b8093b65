"""Rows are handed out by slice, in the order of the log, each once, wherever they lie."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.rows import batch_row, control_row, entry_row

from fairlead.model.errors import Missing
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.numbers import ALL_SLICES, slice_of_number, slices_of_mask
from fairlead.streamlog.objects import format
from fairlead.streamlog.payloads import StartPayload, TopicDeletedPayload
from fairlead.streamlog.reading import slices as reader
from fairlead.streamlog.reading.located import open_object
from fairlead.streamlog.reading.slices import Route, read_partition, read_slices
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.values import LogObject

SHIP = b"s" * 16
OFFICE = b"o" * 16


class Log:
    """Some commits, and segments made of the first of them."""

    def __init__(self, seed: int, *, commits: int = 60, merged: int = 40, size: int = 30) -> None:
        self.random = random.Random(seed)
        self.storage = MemoryStorage()
        self.rows: list[Row] = []
        self.ends: dict[int, int] = defaultdict(int)
        self.objects: list[LogObject] = []
        for commit in range(commits):
            self.rows += self._commit(commit, size)
        for first in range(0, merged, merged // 2 or 1):
            self._segments(first, first + merged // 2)
        for commit in range(merged, commits):
            self._put(f"commit-{commit}", [row for row in self.rows if row.commit == commit], commit, commit + 1)

    def _commit(self, commit: int, size: int) -> list[Row]:
        rows: list[Row] = []
        for place in range(self.random.randint(1, 6)):
            topic = self.random.randrange(40)
            if self.random.random() < 0.1:
                rows.append(entry_row("k", commit, commit=commit, row=place))
                continue
            value = self.random.randbytes(self.random.randint(0, size))
            ids: dict[str, Any] = {
                "origin": self.random.choice([SHIP, OFFICE]),
                "via": self.random.choice([None, SHIP]),
            }
            rows.append(batch_row(topic, self.ends[topic], commit=commit, row=place, value=value, **ids))
            self.ends[topic] += 1
        return rows

    def _segments(self, first: int, end: int) -> None:
        rows = [row for row in self.rows if first <= row.commit < end]
        batches = sorted(
            (r for r in rows if r.kind == Kind.BATCH), key=lambda r: (slice_of_number(r.topic), r.topic, r.base_offset)
        )
        half = len(batches) // 2
        for name, part in (
            ("a", batches[:half]),
            ("b", batches[half:]),
            ("c", [r for r in rows if r.kind != Kind.BATCH]),
        ):
            if part:
                self._put(f"segment-{first}-{name}", part, first, end, segment=True)

    def _put(self, name: str, rows: list[Row], first: int, end: int, *, segment: bool = False) -> None:
        kind: format.ObjectKind = "segment" if segment else "commit"
        self.storage.put_if_absent(name, format.encode(rows, name=name, object_kind=kind, first=first, end=end))
        self.objects.append(LogObject(name, first, end, segment))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 60), st.sampled_from([1, 500, 10**9]), st.sampled_from([0, 7]))
def test_a_slice_has_its_rows_in_order(seed: int, from_commit: int, frame_bytes: int, back: int) -> None:
    """Out of segments and commits, from any commit on, in parts of any size, whose slices stand alike and which touch;
    where reading begins may lie beyond where the frames ended."""
    log = Log(seed)
    wanted = {slice: from_commit + slice for slice in range(0, 16, 2)}
    found: dict[int, list[Row]] = {slice: [] for slice in wanted}
    reached = {slice: max(first - back, 0) for slice, first in wanted.items()}
    for part in read_slices(log.storage, log.objects, wanted, framed=dict(reached), frame_bytes=frame_bytes):
        slices = slices_of_mask(part.slices)
        assert {reached[slice] for slice in slices} == {part.from_commit}
        reached.update(dict.fromkeys(slices, part.to_commit))
        for row in part.columns.rows():
            assert part.from_commit <= row.commit < part.to_commit
            found[slice_of_number(row.topic)].append(row)
    for slice, first in wanted.items():
        in_slice = [
            r for r in log.rows if r.kind == Kind.BATCH and slice_of_number(r.topic) == slice and r.commit >= first
        ]
        assert found[slice] == in_slice
    if any(found.values()):
        assert {at for at in reached.values() if at <= 60} == {60}


def test_slices_that_stand_alike_come_together() -> None:
    """One frame a read, and not one a slice; those behind are brought up first, by parts of their own."""
    log = Log(1, merged=0)
    together = read_slices(log.storage, log.objects, dict.fromkeys(range(16), 50))
    assert [(part.slices, part.from_commit, part.to_commit) for part in together] == [(ALL_SLICES, 50, 60)]
    apart = list(read_slices(log.storage, log.objects[:55], {**dict.fromkeys(range(16), 50), 3: 45}))
    assert [(part.slices, part.from_commit, part.to_commit) for part in apart] == [
        (1 << 3, 45, 55),
        (ALL_SLICES & ~(1 << 3), 50, 55),
    ]


def test_a_large_run_is_read_by_neighbouring_slices() -> None:
    """Segments are sorted so: in commit order each part would be gathered from all over them. All slices end alike."""
    log = Log(1, commits=20, merged=40)
    parts = list(read_slices(log.storage, log.objects, dict.fromkeys(range(16), 0), frame_bytes=2000))
    masks = list(dict.fromkeys(part.slices for part in parts))
    assert sum(masks) == ALL_SLICES
    assert 1 < len(masks) < 16
    assert all("01" not in f"{mask:b}".rstrip("0") for mask in masks)
    ends = {part.slices: part.to_commit for part in parts}
    assert set(ends.values()) == {20}


def test_a_large_slice_is_loaded_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows come out."""
    log = Log(1, size=3000, merged=60)
    whole = [list(p.columns.rows()) for p in read_slices(log.storage, log.objects, {3: 0}, frame_bytes=2000)]
    monkeypatch.setattr(reader, "LOAD_BYTES", 5000)
    assert [list(p.columns.rows()) for p in read_slices(log.storage, log.objects, {3: 0}, frame_bytes=2000)] == whole
    assert len(whole) > 1


@pytest.mark.parametrize("seed", range(5))
def test_only_a_single_commit_makes_a_part_above_the_limit(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A large commit is not put behind others: at each site of a chain its frame would be larger."""
    monkeypatch.setattr(reader, "PART_BYTES_MAX", 4000)
    log = Log(seed, size=3000)
    parts = list(read_slices(log.storage, log.objects, dict.fromkeys(range(16), 0), frame_bytes=3500))
    crowded = [part for part in parts if len(set(part.columns.commit.tolist())) > 1]
    assert crowded
    assert all(reader.bytes_in_frame(part.columns) <= 4000 for part in crowded)
    assert sum(len(part.columns) for part in parts) == sum(row.kind == Kind.BATCH for row in log.rows)


def test_objects_before_all_slices_are_not_opened() -> None:
    """They may be gone by now."""
    log = Log(1)
    for item in log.objects[:5]:
        log.storage.delete(item.name)
    parts = list(read_slices(log.storage, log.objects, {1: 50, 2: 55}))
    assert parts
    assert all(part.to_commit > 50 for part in parts)
    with pytest.raises(Missing):
        list(read_slices(log.storage, log.objects, {1: 0}))


def test_rows_do_not_go_back_where_they_came_from() -> None:
    """Neither to their origin nor along the link that brought them; `own` sends only what no link brought, and what
    began in that stream, whatever brought it: what has become of its own topics."""
    log = Log(2)
    all_slices = dict.fromkeys(range(16), 0)

    def sent(route: Route) -> list[Row]:
        return [r for p in read_slices(log.storage, log.objects, all_slices, route=route) for r in p.columns.rows()]

    batches = [row for row in log.rows if row.kind == Kind.BATCH]
    to_office = [r for r in batches if r.origin != OFFICE and r.via != OFFICE]
    assert sent(Route(OFFICE)) == to_office
    assert sent(Route(SHIP)) == [r for r in batches if r.origin != SHIP and r.via != SHIP]
    assert {r.via for r in sent(Route(OFFICE, own_of=b"h" * 16))} == {None}
    assert sent(Route(b"b" * 16, own_of=OFFICE)) == [r for r in batches if r.via is None or r.origin == OFFICE]
    assert any(r.via is not None for r in sent(Route(b"b" * 16, own_of=OFFICE)))


def test_local_rows_are_never_sent() -> None:
    """Whatever topic they name."""
    storage = MemoryStorage()
    rows = [
        control_row(kind, b"{}", topic=5, row=place)
        for place, kind in enumerate([Kind.POSITION, Kind.BEHIND, Kind.ENTRY, Kind.COMMITTED, Kind.CURSOR, Kind.TOPIC])
    ]
    storage.put_if_absent("x", format.encode([*rows, entry_row("k", 1, row=9)], name="x"))
    parts = list(read_slices(storage, [LogObject("x", 0, 1, segment=False)], dict.fromkeys(range(16), 0)))
    assert [row.kind for part in parts for row in part.columns.rows()] == [Kind.CURSOR, Kind.TOPIC]


def test_a_repair_reads_one_partition_and_its_topic() -> None:
    """From the offset where the replica stands, gaps of the source included, and all its START rows: one may say that
    records were deleted that the replica holds."""
    storage = MemoryStorage()
    start = payloads.encode(StartPayload("ttl", 2, ((0, 0),)))
    deleted = payloads.encode(TopicDeletedPayload("x", b"i" * 16))
    rows = [
        control_row(Kind.START, start, topic=5, base_offset=2, row=0),
        *[batch_row(5, offset, row=offset) for offset in range(2, 6)],
        batch_row(6, 3, row=6),
        batch_row(5, 4, row=7, partition=1),
        control_row(Kind.TOPIC_DELETED, deleted, topic=5, row=8, partition=-1),
    ]
    storage.put_if_absent("x", format.encode(rows, name="x"))
    objects = [LogObject("x", 0, 1, segment=False)]

    def read(offset: int) -> list[Row]:
        return [row for columns in read_partition(storage, objects, 5, 0, offset) for row in columns.rows()]

    assert read(0) == [*rows[:5], rows[7]]
    assert read(2) == [*rows[:5], rows[7]]
    assert read(4) == [rows[0], *rows[3:5], rows[7]]


def test_a_repair_brings_what_groups_have_committed_of_its_partition() -> None:
    """A cursor may have come before its topic, and was dropped then; likewise rows that only others know."""
    storage = MemoryStorage()
    places = [(5, 0), (5, 1), (6, 0), (5, -1)]
    rows = [control_row(Kind.CURSOR, b"{}", topic=5, partition=each, row=each) for each in (0, 1)]
    rows += [control_row(Kind.CURSOR, b"{}", topic=6, partition=0, row=2)]
    rows += [
        control_row(Kind.TXN, b"{}", topic=topic, partition=partition, row=3 + each)
        for each, (topic, partition) in enumerate(places)
    ]
    storage.put_if_absent("x", format.encode([*rows, batch_row(5, 0, row=9)], name="x"))
    objects = [LogObject("x", 0, 1, segment=False)]
    (whole,) = read_partition(storage, objects, 5, 0, 1)
    assert list(whole.rows()) == [rows[0], rows[3], rows[6]]
    (without,) = read_partition(storage, objects, 5, 0, 1, cursors="none")
    assert list(without.rows()) == [rows[3], rows[6]]


def test_damage_in_a_control_row_of_a_large_segment_is_found() -> None:
    """Their payloads have no checksum of their own, so such a segment is read as a whole."""
    from fairlead.model.errors import Damaged

    storage = MemoryStorage()
    rows = [entry_row(f"key {n}", "x" * 1000, row=n) for n in range(100)]
    storage.put_if_absent("x", format.encode(rows, name="x", object_kind="segment", first=0, end=1))
    storage.damage("x", lambda data: data.replace(b"key 77", b"key 78"))
    with pytest.raises(Damaged, match="control rows"):
        open_object(storage, LogObject("x", 0, 1, segment=True))
