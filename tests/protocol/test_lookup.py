"""One record of a batch is found by time or offset at a bounded price, whatever the batch decompresses to."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.batches import bomb, changed

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import LOG_APPEND_TIME, build_batch, records_of
from fairlead.protocol.lookup import Room, first_record
from fairlead.protocol.records import Record, compress, write_records

ROOM, MANY = 40_000_000, 10**9
TIMES = st.integers(0, 2**45)
BYTES = st.none() | st.binary(max_size=300)


def found(batch: bytes, room: Room | None = None, **wanted: Any) -> tuple[int, int] | None:
    return first_record(batch, room or Room(ROOM, MANY), lambda: None, **wanted)


@given(
    st.lists(st.tuples(TIMES, BYTES, BYTES), min_size=1, max_size=20),
    st.sampled_from(range(5)),
    st.booleans(),
    TIMES,
    st.integers(0, 30),
)
def test_what_is_found_is_what_reading_all_records_finds(
    items: Any, codec: int, appended: bool, timestamp: int, offset: int
) -> None:
    """By time, by offset, by both; in every codec; with the batch's own time where the broker gave it."""
    records = [Record(5 + i, time, key, value, (("h", key),)) for i, (time, key, value) in enumerate(items)]
    batch = build_batch(records, base_offset=5, codec=codec, attributes=LOG_APPEND_TIME if appended else 0)
    for wanted in (None, timestamp):
        matches = [
            (record.offset, record.timestamp)
            for record in records_of(batch)
            if record.offset >= offset and (wanted is None or record.timestamp >= wanted)
        ]
        assert found(batch, timestamp_ms=wanted, from_offset=offset) == (matches[0] if matches else None)


def test_times_need_not_be_in_order() -> None:
    """The first that is late enough counts."""
    batch = build_batch([Record(at, time, None, None) for at, time in enumerate((5, 9, 7, 12))])
    assert [found(batch, timestamp_ms=wanted) for wanted in (6, 10, 13)] == [(1, 9), (3, 12), None]


@pytest.mark.parametrize("codec", range(5))
def test_records_larger_than_a_piece_are_passed_over(codec: int) -> None:
    """Their heads may lie anywhere in the pieces, and across two of them."""
    sizes = [70_000, 3, 65_536 - 12, 200_000, 65_500, 1, 1]
    batch = build_batch([Record(at, at, None, bytes(size)) for at, size in enumerate(sizes)], codec=codec)
    assert [found(batch, timestamp_ms=at) for at in range(7)] == [(at, at) for at in range(7)]


def test_java_s_snappy_frames_are_looked_into_block_by_block() -> None:
    """The xerial form; a record may lie in two blocks."""
    plain = write_records([Record(at, at, None, bytes(100)) for at in range(9)], 0, 0)
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(plain), 64):
        packed = pa.compress(plain[start : start + 64], codec="snappy", asbytes=True)
        framed += struct.pack(">i", len(packed)) + packed
    batch = build_batch([Record(at, at, None, None) for at in range(9)], codec=2)
    batch = changed(batch[:61] + framed, length=len(framed) + 49)
    assert found(batch, timestamp_ms=8) == (8, 8)


@pytest.mark.parametrize("codec", range(1, 5))
def test_no_more_is_decompressed_than_there_is_room_for(codec: int) -> None:
    """The room is that of a whole look-up, which may open several batches."""
    batch = build_batch([(None, bytes(1_000_000))] * 4, codec=codec)
    room = Room(5_000_000, MANY)
    assert found(batch, room, timestamp_ms=1) is None
    assert 0 < room.left_bytes < 2_100_000
    with pytest.raises(CorruptBatch, match="more than"):
        found(batch, room, timestamp_ms=1)


def test_one_piece_is_held_at_a_time() -> None:
    """40 MB that came as a few KB took as much memory again and again."""
    batch = build_batch([(None, bytes(1_000_000))] * 30, codec=4)
    tracemalloc.start()
    try:
        assert found(batch, timestamp_ms=1) is None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_look_up_rests_between_a_few_hundred_records() -> None:
    """It is pure Python: while it works, the event loop waits."""
    rests: list[None] = []
    assert first_record(bomb(100_000), Room(ROOM, MANY), lambda: rests.append(None), timestamp_ms=1) is None
    assert len(rests) >= 100


def test_no_more_records_are_looked_at_than_there_is_room_for() -> None:
    """Ten million of them fit into 6 KB, and each takes half a microsecond."""
    room = Room(ROOM, 5000)
    with pytest.raises(CorruptBatch, match="more records"):
        found(bomb(100_000), room, timestamp_ms=1)
    assert room.left_bytes > ROOM - 200_000


@pytest.mark.parametrize(
    "plain", [b"", b"\x00", b"\x0e", b"\xff" * 40, b"\x0c\x00\x00\x00\x01\x01", b"\x0c\x00" + b"\xff" * 12]
)
def test_records_that_do_not_hold_together_are_refused(plain: bytes) -> None:
    """They are fewer than the header says, or their lengths are those of no record."""
    batch = build_batch([(None, None)] * 3, codec=4)
    body = compress(4, plain)
    batch = changed(batch[:61] + body, length=len(body) + 49)
    with pytest.raises(CorruptBatch):
        found(batch, timestamp_ms=1)


@pytest.mark.parametrize("fields", [{"last_offset_delta": 0, "record_count": 3}, {"base_timestamp": 2**63 - 1}])
def test_offsets_and_times_outside_the_batch_are_refused(fields: Any) -> None:
    """They are a client's numbers, and fit neither an answer nor the partition."""
    batch = changed(build_batch([Record(at, at, None, None) for at in range(3)]), **fields)
    with pytest.raises(CorruptBatch, match="outside"):
        found(batch, from_offset=1)
