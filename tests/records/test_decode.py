"""Decoding for Spark: the compiled loops agree with the plain decoder, also on bytes that were made to hurt."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import changed

from fairlead.model.errors import CorruptBatch, InvalidValue
from fairlead.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_END,
    build_batch,
    check_produced,
    read_header,
    records_of,
    stamp_append_time,
)
from fairlead.protocol.records import Record
from fairlead.records import decode as decode_module
from fairlead.records.columns import ALL, arrow_schema, check_columns
from fairlead.records.decode import BatchesInBuffer, decode

Plain = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def stored(batches: list[bytes], **changes: Any) -> BatchesInBuffer:
    """The batches one behind the other, with rubbish around them."""
    data = np.frombuffer(b"\xff" * 5 + b"".join(batches) + b"\xff" * 5, np.uint8)
    ends = 5 + np.cumsum([len(batch) for batch in batches], dtype=np.int64)
    starts = ends - np.array([len(batch) for batch in batches], np.int64)
    offsets = np.array([read_header(batch).base_offset for batch in batches], np.int64)
    zeros = np.zeros(len(batches), np.int32)
    fields: dict[str, Any] = {"topics": pa.array(["ships"]), "origins": pa.array(["0f" * 16])} | changes
    return BatchesInBuffer(data, starts, ends, offsets, zeros, zeros, fields.pop("topics"), zeros, **fields)


def decoded(batches: list[bytes], **changes: Any) -> list[Plain]:
    """The records as plain values, in order."""
    table = pa.Table.from_batches(decode(stored(batches, **changes), check_crc=False), arrow_schema())
    table.validate(full=True)
    columns = [table[name].to_pylist() for name in ("offset", "key", "value", "headers")]
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    return [
        (offset, time // 1000, key, value, tuple((h["key"], h["value"]) for h in headers))
        for offset, key, value, headers, time in zip(*columns, times, strict=True)
    ]


def plainly(batch: bytes) -> list[Plain]:
    """The same by the decoder that Python runs record by record."""
    header = read_header(batch)
    records: list[Plain] = [tuple(record) for record in records_of(batch, header)]  # type: ignore[misc]
    for offset, time, *_ in records:
        if not header.base_offset <= offset <= header.last_offset or not -(2**63) <= time * 1000 < 2**63:
            raise CorruptBatch("outside")
    return records


small = st.one_of(st.none(), st.binary(max_size=40), st.integers(0, 300).map(lambda n: b"x" * n))
header_lists = st.lists(st.tuples(st.text(max_size=5), small), max_size=3).map(tuple)
one_batch = st.lists(st.tuples(st.integers(-(2**40), 2**40), small, small, header_lists), min_size=1, max_size=12)


def a_batch(rows: list[tuple[int, Any, Any, Any]], codec: int, base: int) -> bytes:
    records = [Record(base + i, time, key, value, headers) for i, (time, key, value, headers) in enumerate(rows)]
    return build_batch(records, base_offset=base, codec=codec)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(one_batch, st.integers(0, 4), st.integers(0, 2**50)), min_size=1, max_size=5))
def test_agrees_with_the_plain_decoder(parts: list[Any]) -> None:
    """Any mixture of codecs, nulls, headers and times decodes as the plain decoder says."""
    batches = [a_batch(rows, codec, base) for rows, codec, base in parts]
    assert decoded(batches) == [record for batch in batches for record in plainly(batch)]


@settings(max_examples=400, deadline=None)
@given(one_batch, st.integers(0, 4), st.data())
def test_hostile_bytes_are_refused_as_the_plain_decoder_refuses_them(rows: Any, codec: int, data: Any) -> None:
    """Bytes changed anywhere in the records give the plain decoder's records, or CorruptBatch in both."""
    batch = bytearray(a_batch(rows, codec, 7))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255))
    try:
        expected = plainly(bytes(batch))
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            decoded([bytes(batch)])
    else:
        assert decoded([bytes(batch)]) == expected


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(-5, 70), st.integers(-5, 70))
def test_records_made_of_noise_are_refused(noise: bytes, count: int, last_delta: int) -> None:
    """Records that are noise, under a header with any count, never give more than CorruptBatch."""
    head = build_batch([(None, b"")])[:HEADER_BYTES]
    length = HEADER_BYTES + len(noise) - LENGTH_END
    batch = changed(head + noise, length=length, last_offset_delta=last_delta, record_count=count)
    with suppress(CorruptBatch):
        decoded([batch])


@pytest.mark.parametrize("codec", range(5))
def test_every_codec(codec: int) -> None:
    """Each of Kafka's codecs decodes, and the attributes say which it was."""
    batch = a_batch([(5, b"k", b"v" * 1000, ())] * 20, codec, 100)
    assert read_header(batch).attributes & CODEC_MASK == codec
    assert decoded([batch]) == plainly(batch)


def test_every_column() -> None:
    """All columns come, with the types that Spark expects and the batch's topic, partition and origin."""
    (batch,) = decode(stored([a_batch([(1, b"k", b"v", (("h", b"1"),))], 0, 3)]))
    assert batch.schema == arrow_schema()
    row = batch.to_pylist()[0]
    assert row.pop("timestamp").timestamp() == 0.001
    assert row == {
        "key": b"k",
        "value": b"v",
        "topic": "ships",
        "partition": 0,
        "offset": 3,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}],
        "origin": "0f" * 16,
    }


def test_chosen_columns_come_in_the_order_chosen() -> None:
    """Only what was asked for is made."""
    (batch,) = decode(stored([a_batch([(1, None, b"v", ())], 0, 0)]), ("offset", "value"))
    assert batch.to_pydict() == {"offset": [0], "value": [b"v"]}


def test_append_time_is_the_time_of_every_record() -> None:
    """A batch stamped by the server shows that time, and type 1."""
    batch = stamp_append_time(check_produced(a_batch([(1, None, b"v", ()), (2, None, b"w", ())], 0, 0)), 77)
    (made,) = decode(stored([bytes(batch.data)]), ("timestamp", "timestampType"))
    assert made.column("timestamp").cast(pa.int64()).to_pylist() == [77_000, 77_000]
    assert made.column("timestampType").to_pylist() == [1, 1]


def test_offsets_outside_the_bounds_are_left_out() -> None:
    """Bounds cut inside a batch."""
    batches = [a_batch([(0, None, b"v", ())] * 4, 0, base) for base in (0, 4)]
    bounds = {"low": np.array([2, 0], np.int64), "high": np.array([99, 6], np.int64)}
    assert [record[0] for record in decoded(batches, **bounds)] == [2, 3, 4, 5]


def test_control_batches_are_passed_over() -> None:
    """What they say is for brokers; the records before and after them are read, whatever is asked for."""
    batches = [a_batch([(0, b"k", b"v", ())] * 2, 0, base) for base in (0, 2, 4)]
    batches[1] = changed(batches[1], attributes=CONTROL)
    assert [record[0] for record in decoded(batches)] == [0, 1, 4, 5]
    assert decoded(batches[1:2]) == []
    low, high = np.array([0, 0, 5], np.int64), np.array([1, 9, 9], np.int64)
    assert [record[0] for record in decoded(batches, low=low, high=high)] == [0, 5]


def test_a_wrong_crc_is_refused_by_name() -> None:
    """A flipped bit in a value is found although every length still fits."""
    batch = bytearray(a_batch([(0, None, b"v" * 50, ())], 0, 9))
    batch[-5] ^= 1
    assert crc32c.crc32c(bytes(batch[CRC_FROM:])) != read_header(batch).crc
    with pytest.raises(CorruptBatch, match=r"topic ships, partition 0, offset 9: its CRC-32C is wrong"):
        list(decode(stored([bytes(batch)])))


def test_batches_cut_by_their_place_are_refused() -> None:
    """A place outside the buffer, or shorter than a header, is refused before anything is read."""
    good = stored([a_batch([(0, None, b"v", ())], 0, 0)])
    for start, end in ((-1, 70), (0, 10_000), (5, 30)):
        bad = BatchesInBuffer(
            good.data,
            np.array([start], np.int64),
            np.array([end], np.int64),
            *(good.base_offset, good.partition, good.topic, good.topics, good.origin, good.origins),
        )
        with pytest.raises(CorruptBatch):
            list(decode(bad))


def test_groups_do_not_change_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """However batches are grouped into Arrow batches, the records are the same; nothing is one empty group too many."""
    batches = [a_batch([(i, b"k", b"v" * 30, ())] * 3, i % 5, i * 3) for i in range(20)]
    whole = decoded(batches)
    monkeypatch.setattr(decode_module, "GROUP_BYTES", 100)
    assert decoded(batches) == whole
    assert list(decode(stored(batches).part(0, 0))) == []


def test_unknown_columns_are_refused_by_name() -> None:
    """The message names the column and those that exist."""
    assert check_columns(["VALUE", "timestamptype"]) == ("value", "timestampType")
    with pytest.raises(InvalidValue, match=r"columns offsets: use some of key, value"):
        check_columns(["value", "offsets"])
    with pytest.raises(InvalidValue, match="twice"):
        check_columns(["value", "value"])
    assert check_columns(ALL) == ALL
