"""Record batches: their headers, what is refused, and what lies inside."""

import contextlib
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.batches import changed

from fairlead.model.errors import CorruptBatch, InvalidBatch
from fairlead.protocol import batch as b
from fairlead.protocol import records as r
from fairlead.protocol.records import Record

KEYS = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(max_size=8), KEYS), max_size=3).map(tuple)
ITEMS = st.lists(st.tuples(KEYS, KEYS, HEADERS, st.integers(0, 2**45)), min_size=1, max_size=6)


def records(items: Any, base: int = 0) -> Any:
    return [Record(base + i, time, key, value, headers) for i, (key, value, headers, time) in enumerate(items)]


@given(ITEMS, st.sampled_from(range(5)), st.integers(0, 2**60))
def test_a_batch_gives_back_its_records_with_every_codec(items: Any, codec: int, base: Any) -> None:
    """Keys, values, headers, times and offsets come back as they went in."""
    written = records(items, base)
    built = b.build_batch(written, base_offset=base, codec=codec)
    header = b.check_stored(built, base, base + len(items) - 1)
    assert header == b.check_produced(built).header == b.read_header(built)
    assert (header.base_offset, header.last_offset) == (base, base + len(items) - 1)
    assert (header.record_count, header.codec, header.size_bytes) == (len(items), codec, len(built))
    assert header.max_timestamp == max(record.timestamp for record in written)
    assert list(b.records_of(built)) == written


def test_offset_and_epoch_lie_outside_the_crc() -> None:
    """A batch that got its offset still checks, and nothing else of it has changed."""
    built = b.build_batch([(b"k", b"v")] * 3, timestamp_ms=7)
    placed = b.set_offset(built, 1000, 5)
    header = b.check_stored(placed, 1000, 1002)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (1000, 5, 1002)
    assert placed[b.MAGIC_AT :] == built[b.MAGIC_AT :]


def test_a_batch_gets_its_offset_in_place_where_its_memory_may_be_written() -> None:
    """As in a request of its own memory; the same bytes as a copy would have."""
    built = b.build_batch([(b"k", b"v")] * 3, timestamp_ms=7)
    memory = memoryview(bytearray(built))
    placed = b.set_offset(memory, 1000, 5)
    assert isinstance(placed, memoryview)
    assert (placed.obj is memory.obj, placed.readonly) == (True, True)
    assert placed == memory == b.set_offset(built, 1000, 5)
    b.set_offset(placed, 2000, 5)
    assert b.read_header(memory).base_offset == 1000


def test_append_time_is_every_record_s_time() -> None:
    """LogAppendTime sets the attribute, the maximum and the CRC; consumers see that time on each record."""
    stamped = b.stamp_append_time(b.check_produced(b.build_batch([(None, b"a"), (None, b"b")], timestamp_ms=7)), 99)
    header = b.check_produced(stamped.data).header
    assert header == stamped.header
    assert (header.log_append_time, header.max_timestamp, header.base_timestamp) == (True, 99, 7)
    assert [record.timestamp for record in b.records_of(stamped.data)] == [99, 99]


def test_an_empty_batch_covers_a_gap() -> None:
    """It has no records, the gap's bounds and a right CRC."""
    gap = b.empty_batch(10, 19, 2)
    header = b.read_header(gap)
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.record_count) == (10, 19, 2, 0)
    assert len(gap) == b.HEADER_BYTES == header.size_bytes
    assert list(b.records_of(gap)) == []


def test_a_gap_wider_than_one_batch_can_say_is_covered_in_part() -> None:
    """Offsets inside a batch have 32 bits."""
    assert b.read_header(b.empty_batch(0, 2**40, 0)).last_offset == 2**31 - 1


THREE = b.build_batch([(b"k", b"v")] * 3)
DAMAGED = [
    (b"", "shorter than its header"),
    (bytes(60), "shorter than its header"),
    (changed(THREE, magic=1), "format v1"),
    (changed(THREE, length=5), "its header says 17 bytes"),
    (THREE + b"x", "its header says"),
    (THREE[:-1] + b"\xff", "CRC-32C"),
    (changed(THREE, attributes=b.CONTROL)[:-1] + b"\xff", "CRC-32C"),
]
IMPOSSIBLE = [
    (changed(THREE, record_count=4), "4 records for 3 offsets"),
    (changed(THREE, record_count=-1), "-1 records for 3 offsets"),
    (changed(THREE, last_offset_delta=-1, record_count=0), "0 records for 0 offsets"),
    (changed(THREE, attributes=7), "codec 7"),
]
NOT_OF_A_PRODUCER = [
    (changed(THREE, record_count=2), "2 records for 3 offsets"),
    (changed(THREE, record_count=0), "0 records for 3 offsets"),
    (changed(THREE, attributes=b.TRANSACTIONAL), "transactional and control batches are not served"),
    (changed(THREE, attributes=b.CONTROL), "transactional and control batches are not served"),
    (changed(THREE, producer_id=-2), "no producer has the id -2"),
    (changed(THREE, producer_id=5, base_sequence=-1), "producer 5 has no sequence -1"),
]


@pytest.mark.parametrize(
    ("bad", "why", "kind"),
    [(*one, CorruptBatch) for one in DAMAGED] + [(*one, InvalidBatch) for one in IMPOSSIBLE + NOT_OF_A_PRODUCER],
)
def test_a_batch_that_no_producer_may_send_is_refused(bad: Any, why: Any, kind: Any) -> None:
    """The error says what is wrong with it, and whether it may have been damaged on its way, which a retry mends."""
    with pytest.raises(CorruptBatch, match=why) as refused:
        b.check_produced(bad)
    assert refused.type is kind


@pytest.mark.parametrize(("bad", "why"), DAMAGED + IMPOSSIBLE)
def test_a_stored_batch_that_does_not_hold_together_is_refused(bad: Any, why: Any) -> None:
    """The error says what is wrong with it."""
    with pytest.raises(CorruptBatch, match=why):
        b.check_stored(bad, 0, 2)


@pytest.mark.parametrize("stored", [batch for batch, _ in NOT_OF_A_PRODUCER])
def test_a_log_may_hold_what_no_producer_may_send(stored: Any) -> None:
    """Control batches, those of transactions, and such as compaction has left with fewer records than offsets."""
    assert b.check_stored(stored, 0, 2) == b.read_header(stored)


@pytest.mark.parametrize(("base", "last"), [(1, 2), (0, 3), (1, 3)])
def test_a_stored_batch_has_the_offsets_of_its_row(base: Any, last: Any) -> None:
    """Neither lies in what a producer sends, and the first is not even under the CRC."""
    assert b.check_produced(THREE).data is THREE
    with pytest.raises(CorruptBatch, match=r"^the offsets in the batch are not the row's$"):
        b.check_stored(THREE, base, last)


def test_fields_lie_where_kafka_has_them() -> None:
    """`DefaultRecordBatch` (KIP-98); told by a batch whose fields are all different."""
    header = b.BatchHeader(1, 49, 2, b.MAGIC, 0, 3, 4, 5, 6, 7, 8, 9, 10)
    head = b.with_crc(header, b"")[1]
    assert head[21:] == struct.pack(">hiqqqhii", 3, 4, 5, 6, 7, 8, 9, 10)
    assert head[:17] == struct.pack(">qiib", 1, 49, 2, 2)
    assert (b.HEADER_BYTES, b.LENGTH_END, b.MAGIC_AT, b.CRC_AT, b.CRC_FROM, b.PRODUCER_END) == (61, 12, 16, 17, 21, 57)
    assert head[17:21] == struct.pack(">I", b.read_header(head).crc)
    assert b.producer_of(head) == (7, 8, 9)


def test_many_headers_are_read_at_once_as_each_is() -> None:
    """Columns of numpy have the names and values of a header's fields."""
    batches = [b.build_batch([(None, b"v")], base_offset=at, producer_id=at - 1) for at in range(3)]
    data = np.frombuffer(b"".join(batches), np.uint8)
    rows = data.reshape(3, -1)[:, : b.HEADER_BYTES].copy().view(b.HEADER_DTYPE)[:, 0]
    assert [tuple(row.tolist()) for row in rows] == [b.read_header(batch) for batch in batches]
    assert b.producer_ids(data, np.arange(3) * len(batches[0])).tolist() == [-1, 0, 1]
    assert [b.names_producer(memoryview(batch)) for batch in batches] == [False, True, True]


def test_a_count_that_cannot_fit_is_refused() -> None:
    """No record has less than seven bytes; of a compressed batch the bytes count that are decompressed at most."""
    least = b.build_batch([(None, None)] * 4)
    assert len(least) == b.HEADER_BYTES + 4 * r.RECORD_BYTES_MIN
    b.check_produced(least)
    packed = b.build_batch([(None, None)], codec=4)
    for batch, count in ((least, 5), (packed, r.DECOMPRESSED_BYTES_MAX // 7 + 1), (packed, 2**31 - 1)):
        with pytest.raises(CorruptBatch, match=f"{count} records do not fit"):
            b.check_produced(changed(batch, record_count=count, last_offset_delta=count - 1))


@given(st.binary(max_size=200), st.sampled_from(range(8)))
def test_hostile_compressed_bytes_are_refused_or_read(data: bytes, codec: int) -> None:
    """They raise CorruptBatch or give bytes; nothing else."""
    with contextlib.suppress(CorruptBatch):
        assert isinstance(r.decompress(codec, data), bytes)


@given(st.binary(max_size=200), st.integers(-5, 2**31 - 1))
def test_hostile_records_are_refused_or_read(data: bytes, count: int) -> None:
    """A count that is not there ends in CorruptBatch, whatever the bytes."""
    with contextlib.suppress(CorruptBatch):
        list(r.iterate(data, count, 0, 0))


@given(st.data())
def test_a_damaged_batch_never_passes(data: st.DataObject) -> None:
    """Any changed byte behind the epoch is noticed."""
    built = bytearray(b.build_batch([(b"key", b"value")] * 4))
    place = data.draw(st.integers(16, len(built) - 1))
    built[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBatch):
        b.check_produced(bytes(built))
    with pytest.raises(CorruptBatch):
        b.check_stored(bytes(built), 0, 3)


def test_java_s_snappy_frames_are_read() -> None:
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


def test_librdkafka_s_snappy_is_read() -> None:
    """One raw block, without a frame."""
    import pyarrow as pa

    assert r.decompress(2, pa.compress(b"a block" * 9, codec="snappy", asbytes=True)) == b"a block" * 9


def test_bytes_may_be_signed_as_in_arrow_s_buffers() -> None:
    """The length of a snappy block has bytes from 128 on, which are below 0 there."""
    import pyarrow as pa

    plain = b"a block" * 300
    for codec, name in ((2, "snappy"), (3, "lz4"), (4, "zstd")):
        packed = pa.compress(plain, codec=name, asbytes=True) if codec == 2 else r.compress(codec, plain)
        assert r.decompress(codec, memoryview(pa.py_buffer(packed))) == plain


@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 100_000])
@pytest.mark.parametrize("codec", range(5), ids=r.CODECS)
def test_what_is_compressed_comes_back(codec: int, size: int) -> None:
    """Also what needs several blocks; from any kind of bytes."""
    plain = bytes(range(256)) * (size // 256) + bytes(size % 256)
    for data in (plain, memoryview(plain)):
        assert r.decompress(codec, r.compress(codec, data)) == plain


def test_compressed_bytes_have_the_forms_that_java_reads() -> None:
    """lz4 of independent blocks, snappy in xerial's frame."""
    flags = r.compress(3, bytes(200_000))[4]
    assert flags & 0x20
    assert r.compress(2, b"x").startswith(b"\x82SNAPPY\0")
    with pytest.raises(CorruptBatch, match="codec 5"):
        r.compress(5, b"")


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What decompresses to more than the limit is not decompressed to the end."""
    monkeypatch.setattr(r, "DECOMPRESSED_BYTES_MAX", 10_000)
    for codec in (1, 2, 3, 4):
        with pytest.raises(CorruptBatch, match="more than"):
            r.decompress(codec, r.compress(codec, bytes(20_000)))


def test_lz4_may_say_what_it_likes_of_its_size() -> None:
    """No memory is taken for it. Frames with a size, with linked blocks, or with another frame behind are read too."""
    import lz4.frame

    plain = bytes(range(256)) * 500
    with_size = bytearray(lz4.frame.compress(plain, store_size=True))
    assert r.decompress(3, bytes(with_size)) == plain
    with_size[6:14] = struct.pack("<q", 1 << 50)
    with pytest.raises(CorruptBatch):
        r.decompress(3, bytes(with_size))
    linked = lz4.frame.compress(plain, block_linked=True, store_size=False)
    assert r.decompress(3, linked) == plain
    assert r.decompress(3, linked + r.compress(3, b"more")) == plain + b"more"
    for cut in (0, 3, 5, 11, len(linked) - 1):
        with contextlib.suppress(CorruptBatch):
            assert len(r.decompress(3, linked[:cut])) < len(plain)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value: int) -> None:
    """Zigzag, up to 64 bits."""
    data = r.write_varint(value)
    assert r.read_varint(data, 0) == (value, len(data))
