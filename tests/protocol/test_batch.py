"""Record batches: their headers, what is refused, and what lies inside."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import CorruptBatch
from fairlead.protocol import batch as b
from fairlead.protocol import records as r
from fairlead.protocol.records import Record

KEYS = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(max_size=8), KEYS), max_size=3).map(tuple)
ITEMS = st.lists(st.tuples(KEYS, KEYS, HEADERS, st.integers(0, 2**45)), min_size=1, max_size=6)


def records(items, base=0):
    return [Record(base + i, time, key, value, headers) for i, (key, value, headers, time) in enumerate(items)]


@given(ITEMS, st.sampled_from(range(5)), st.integers(0, 2**60))
def test_a_batch_gives_back_its_records_with_every_codec(items, codec, base):
    """Keys, values, headers, times and offsets come back as they went in."""
    written = records(items, base)
    built = b.build_batch(written, base_offset=base, codec=codec)
    header = b.check(built)
    assert (header.base_offset, header.last_offset) == (base, base + len(items) - 1)
    assert (header.record_count, header.codec, header.size_bytes) == (len(items), codec, len(built))
    assert header.max_timestamp == max(record.timestamp for record in written)
    assert list(b.records_of(built)) == written


def test_offset_and_epoch_lie_outside_the_crc():
    """A batch that got its offset still checks, and nothing else of it has changed."""
    built = b.build_batch([(b"k", b"v")] * 3, timestamp_ms=7)
    placed = b.set_offset(built, 1000, 5)
    header = b.check(placed)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (1000, 5, 1002)
    assert placed[b.MAGIC_AT :] == built[b.MAGIC_AT :]


def test_a_batch_gets_its_offset_in_place_where_its_memory_may_be_written():
    """As in a request of its own memory; the same bytes as a copy would have."""
    built = b.build_batch([(b"k", b"v")] * 3, timestamp_ms=7)
    memory = memoryview(bytearray(built))
    placed = b.set_offset(memory, 1000, 5)
    assert isinstance(placed, memoryview)
    assert (placed.obj is memory.obj, placed.readonly) == (True, True)
    assert placed == memory == b.set_offset(built, 1000, 5)
    b.set_offset(placed, 2000, 5)
    assert b.read_header(memory).base_offset == 1000


def test_append_time_is_every_record_s_time():
    """LogAppendTime sets the attribute, the maximum and the CRC; consumers see that time on each record."""
    stamped = b.stamp_append_time(b.build_batch([(None, b"a"), (None, b"b")], timestamp_ms=7), 99)
    header = b.check(stamped)
    assert (header.log_append_time, header.max_timestamp, header.base_timestamp) == (True, 99, 7)
    assert [record.timestamp for record in b.records_of(stamped)] == [99, 99]


def test_an_empty_batch_covers_a_gap():
    """It has no records, the gap's bounds and a right CRC."""
    gap = b.empty_batch(10, 19, 2)
    header = b.read_header(gap)
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.record_count) == (10, 19, 2, 0)
    assert len(gap) == b.HEADER_BYTES == header.size_bytes
    assert list(b.records_of(gap)) == []


def test_a_gap_wider_than_one_batch_can_say_is_covered_in_part():
    """Offsets inside a batch have 32 bits."""
    assert b.read_header(b.empty_batch(0, 2**40, 0)).last_offset == 2**31 - 1


def changed(position, data):
    whole = bytearray(b.build_batch([(b"k", b"v")] * 3))
    whole[position : position + len(data)] = data
    return bytes(whole)


def sealed(position, data):
    """A changed batch whose CRC fits the change."""
    whole = bytearray(changed(position, data))
    struct.pack_into(">I", whole, 17, b._crc_of(whole))
    return bytes(whole)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"", "shorter than its header"),
        (bytes(60), "shorter than its header"),
        (changed(16, b"\x01"), "format v1"),
        (changed(8, struct.pack(">i", 5)), "its header says"),
        (changed(65, b"\xff"), "CRC-32C"),
        (sealed(57, struct.pack(">i", 2)), "2 records for 3 offsets"),
        (sealed(57, struct.pack(">i", 0)), "0 records"),
        (sealed(21, struct.pack(">h", 0x10)), "transactional"),
        (sealed(21, struct.pack(">h", 0x20)), "control"),
        (sealed(21, struct.pack(">h", 7)), "codec 7"),
        (b.build_batch([(b"k", b"v")]) + b"x", "its header says"),
    ],
)
def test_a_batch_that_does_not_hold_together_is_refused(bad, why):
    """The error says what is wrong with it."""
    with pytest.raises(CorruptBatch, match=why):
        b.check(bad)


def test_batches_are_split_by_their_lengths():
    """Each piece is one whole batch."""
    one, two = b.build_batch([(b"a", b"1")]), b.build_batch([(b"b", b"2")] * 9)
    assert [bytes(piece) for piece in b.split_batches(one + two)] == [one, two]
    with pytest.raises(CorruptBatch):
        b.split_batches(one + two[:-1])


def test_the_first_record_of_a_time_is_found_inside_a_batch():
    """Times need not be in order; the first that is late enough counts."""
    built = b.build_batch(records([(None, None, (), time) for time in (5, 9, 7, 12)]))
    assert b.first_at_or_after(built, 6) == (1, 9)
    assert b.first_at_or_after(built, 10) == (3, 12)
    assert b.first_at_or_after(built, 13) is None


@given(st.binary(max_size=200), st.sampled_from(range(8)))
def test_hostile_compressed_bytes_are_refused_or_read(data, codec):
    """They raise CorruptBatch or give bytes; nothing else."""
    with contextlib.suppress(CorruptBatch):
        assert isinstance(r.decompress(codec, data), bytes)


@given(st.binary(max_size=200), st.integers(-5, 2**31 - 1))
def test_hostile_records_are_refused_or_read(data, count):
    """A count that is not there ends in CorruptBatch, whatever the bytes."""
    with contextlib.suppress(CorruptBatch):
        list(r.iterate(data, count, 0, 0))


@given(st.data())
def test_a_damaged_batch_never_passes(data):
    """Any changed byte behind the epoch is noticed."""
    built = bytearray(b.build_batch([(b"key", b"value")] * 4))
    place = data.draw(st.integers(16, len(built) - 1))
    built[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBatch):
        b.check(built)


def test_java_s_snappy_frames_are_read():
    """The xerial form: a header and blocks, each with its length."""
    import pyarrow as pa

    blocks = [b"first block" * 10, b"second"]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for block in blocks:
        packed = pa.compress(block, codec="snappy", asbytes=True)
        framed += struct.pack(">i", len(packed)) + packed
    assert r.decompress(2, framed) == b"".join(blocks)
    with pytest.raises(CorruptBatch):
        r.decompress(2, framed[:-1])


def test_a_bomb_is_refused(monkeypatch):
    """What decompresses to more than the limit is not decompressed to the end."""
    monkeypatch.setattr(r, "DECOMPRESSED_BYTES_MAX", 10_000)
    for codec in (1, 2, 3, 4):
        with pytest.raises(CorruptBatch, match="more than"):
            r.decompress(codec, r.compress(codec, bytes(20_000)))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value):
    """Zigzag, up to 64 bits."""
    data = r.write_varint(value)
    assert r.read_varint(data, 0) == (value, len(data))
