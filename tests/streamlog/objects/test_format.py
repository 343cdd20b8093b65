"""Commits and segments: short objects and Arrow files that are read as they were written, or found damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.rows import any_row, batch_row, entry_row, joined

from fairlead.model.errors import Damaged, Missing
from fairlead.storage import pack_file
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.objects import few_rows, format, layout, short
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.format import ObjectKind
from fairlead.streamlog.rows import ROW_SCHEMA, Row

KINDS: Final[tuple[ObjectKind, ...]] = ("commit", "segment")
"""Of these rows, one in each form."""
NAME = "streams/" + "ab" * 16 + "/shard-0000/commit/00000000000000000003/00000000000000000007"
PAYLOAD = b'{"v":3,"key":"k","value":1}'
ROWS = st.lists(any_row(), min_size=1, max_size=40)


@given(ROWS)
def test_rows_are_read_as_they_were_written(rows: list[Row]) -> None:
    """Whatever their values."""
    columns = format.read_whole(joined(format.encode(rows)))
    assert list(columns.rows()) == rows
    assert [row for place in range(len(rows)) for row in columns.take(np.array([place])).rows()] == rows
    assert (columns.first, columns.end) == (min(r.commit for r in rows), max(r.commit for r in rows) + 1)


@given(ROWS)
def test_any_arrow_reader_opens_segments(rows: list[Row]) -> None:
    """As one record batch of the schema, valid in all its buffers."""
    file = pa.ipc.open_file(joined(format.encode(rows, object_kind="segment")))
    assert file.schema.equals(ROW_SCHEMA)
    assert file.num_record_batches == 1
    batch = file.get_batch(0)
    batch.validate(full=True)
    read = [Row(**{name: value for name, value in row.items() if name != "size"}) for row in batch.to_pylist()]
    assert read == rows
    assert batch.column("size").to_pylist() == [len(row.batch) for row in rows]


@given(ROWS)
def test_a_batch_lies_where_its_position_says(rows: list[Row]) -> None:
    """So a reader that has only the columns finds it in the file."""
    data = joined(format.encode(rows))
    columns = format.read_whole(data)
    for place, row in enumerate(rows):
        start = int(columns.position[place])
        assert data[start : start + int(columns.size[place])] == row.batch
        assert columns.batch(place) == row.batch


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bit", [0, 5])
def test_a_change_of_any_byte_is_found(bit: int, kind: ObjectKind) -> None:
    """Except in a record batch, which has a checksum of its own."""
    rows = [batch_row(1), entry_row("a", 1, row=1), batch_row(2, row=2, via=b"v" * 16)]
    whole = joined(format.encode(rows, name="x", epoch_id=b"e" * 16, object_kind=kind))
    columns = format.read_whole(whole, "x")
    assert columns.epoch_id == b"e" * 16
    record_batches = set()
    for place in (0, 2):
        start = int(columns.position[place])
        record_batches |= set(range(start, start + int(columns.size[place])))
    for place in sorted(set(range(len(whole))) - record_batches):
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        with pytest.raises(Damaged):
            format.read_whole(bytes(changed), "x")
        with pytest.raises(Damaged):
            format.read_rows(bytes(changed), "x")


def test_an_object_under_another_name_is_damaged() -> None:
    """It was exchanged with its neighbour, or copied from another log."""
    for kind in KINDS:
        whole = joined(format.encode([batch_row(1)], name="x", object_kind=kind))
        assert len(format.read_whole(whole, "x")) == 1
        storage = MemoryStorage()
        storage.put_if_absent("y", whole)
        with pytest.raises(Damaged, match=r"y: is another object than its name says: x"):
            format.read_columns(storage, "y")


def test_what_an_object_stands_for_is_read_from_its_footer() -> None:
    """Nothing else of it is read."""
    storage = MemoryStorage()
    storage.put_if_absent("x", format.encode([batch_row(1, commit=4)], name="x", first=3, end=9, object_kind="segment"))
    assert format.commits_of(storage, "x") == (3, 9)
    storage.damage("x", lambda data: data[:5])
    with pytest.raises(Damaged):
        format.commits_of(storage, "x")
    with pytest.raises(Missing):
        format.commits_of(storage, "y")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", [format.read_whole, format.read_rows, format.read_meta])
def test_a_file_cut_anywhere_is_damaged(kind: ObjectKind, read: Callable[[bytes, str], object]) -> None:
    """And so is one that goes on."""
    whole = joined(format.encode([batch_row(1), entry_row("a", 1, row=1)], name="x", object_kind=kind))
    read(whole, "x")
    for length in range(len(whole)):
        with pytest.raises(Damaged):
            read(whole[:length], "x")
    with pytest.raises(Damaged):
        read(whole + b"\0" * 8, "x")


def test_another_version_is_refused_naming_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what the file is and what this program reads."""
    for module, kind in zip((short, layout), KINDS, strict=True):
        with monkeypatch.context() as patch:
            patch.setattr(module, "FORMAT_VERSION", 7)
            data = joined(format.encode([batch_row()], object_kind=kind))
        with pytest.raises(Damaged, match="x: written in format version 7; this program reads version 3"):
            format.read_whole(data, "x")


def test_columns_of_a_large_object_are_read_without_its_batches() -> None:
    """And batches are then found by range."""
    storage = MemoryStorage()
    rows = [batch_row(n, n, row=n, value=bytes(9000)) for n in range(50)]
    storage.put_if_absent("x", format.encode(rows, name="x"))
    columns = format.read_columns(storage, "x")
    assert columns.data is None
    assert columns.topic.tolist() == list(range(50))
    assert storage.get_range("x", int(columns.position[7]), int(columns.size[7])) == rows[7].batch
    with pytest.raises(ValueError, match="not loaded"):
        columns.batch(0)
    with pytest.raises(Missing):
        format.read_columns(storage, "y")


def test_a_segment_of_columns_is_the_same_as_one_of_rows() -> None:
    """Byte for byte."""
    rows = [batch_row(n, n, row=n) for n in range(20)]
    columns = format.read_whole(joined(format.encode(rows)))
    by_columns = format.encode_columns(columns, columns.runs(), object_kind="segment", first=0, end=5)
    assert joined(by_columns) == joined(format.encode(rows, object_kind="segment", first=0, end=5))
    assert pa.ipc.open_file(joined(by_columns)).metadata[b"fairlead.kind"].strip() == b"segment"


def test_an_empty_segment_can_be_written() -> None:
    """It stands for commits of which nothing is left."""
    columns = format.read_whole(joined(format.encode([], object_kind="segment", first=3, end=9)))
    assert len(columns) == 0
    assert (columns.first, columns.end) == (3, 9)


def test_rows_outside_the_commits_of_their_object_are_damage() -> None:
    """An object stands for the commits that its name or manifest says."""
    data = joined(format.encode([batch_row(commit=5)], name="x", first=6, end=7))
    with pytest.raises(Damaged, match="outside the commits"):
        format.read_whole(data, "x")


def test_a_number_that_does_not_fit_its_column_is_an_error() -> None:
    """And never stored as another one."""
    with pytest.raises(OverflowError):
        format.encode([batch_row(partition=2**31)])


def test_files_of_this_version_look_the_same_with_every_pyarrow() -> None:
    """A file whose head differs in one byte is damaged, so these sums are part of the format: where a newer pyarrow
    lays out its flatbuffers in another way, the bytes of before must be kept as constants."""
    meta = layout.FileMeta("commit", 3, 40, 5, 6, 7, 8, "x", b"e" * 16)
    parts = (layout.FILE_HEAD, layout.MESSAGE.fill(layout.plan(3), (1, 2), 40), layout.FOOTER.fill(meta))
    assert [crc32c.crc32c(part) for part in parts] == [0xD1CC6027, 0xC8FAEE66, 0x3836FAD6]


def test_what_lies_in_a_pack_is_read_once() -> None:
    """A read of any part of it reads all of it, for its checksum."""
    assert format.READ_WHOLE_BYTES >= pack_file.OBJECT_BYTES_MAX
    assert format.READ_WHOLE_BYTES >= short.BYTES_MAX, "no short commit is read in parts"


@given(ROWS, st.integers(0, 2**40))
def test_a_short_commit_is_read_as_it_was_written(rows: list[Row], known: int) -> None:
    """As rows, as arrays, and what its head says; the long form has the same rows."""
    whole = joined(format.encode(rows, name=NAME, epoch_id=b"e" * 16, known=known))
    assert whole.startswith(short.MAGIC)
    assert format.read_rows(whole, NAME) == (b"e" * 16, rows)
    meta, columns = format.read_meta(whole, NAME), format.read_whole(whole, NAME)
    assert (meta.kind, meta.name, meta.known) == ("commit", NAME, known)
    assert list(columns.rows()) == rows == list(read_segment(rows).rows())
    assert (columns.first, columns.end) == (min(r.commit for r in rows), max(r.commit for r in rows) + 1)


def read_segment(rows: list[Row]) -> Columns:
    """The rows of a segment of these."""
    return format.read_whole(joined(format.encode(rows, object_kind="segment")))


@given(st.lists(any_row(), min_size=1, max_size=few_rows.FEW))
@settings(max_examples=30)
def test_few_rows_are_packed_as_numpy_packs_them(rows: list[Row]) -> None:
    """Byte for byte, padding and null counts too."""
    region, nulls = few_rows.pack(rows)
    by_columns, _, null_counts = format.columns_region(read_segment(rows))
    assert (bytes(by_columns), null_counts) == (region, nulls)


def test_a_commit_is_an_arrow_file_from_64_kb_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit has one form: none that could be short is an Arrow file."""
    for length, is_short in ((60_000, True), (66_000, False)):
        whole = joined(format.encode([batch_row(value=bytes(length))], name=NAME, epoch_id=b"e" * 16))
        assert whole.startswith(short.MAGIC) == is_short == (len(whole) <= short.BYTES_MAX)
        assert len(format.read_rows(whole, NAME)[1]) == 1
    file = pa.ipc.open_file(whole)
    assert file.num_record_batches == 1
    assert file.metadata[b"fairlead.name"].strip() == NAME.encode()
    with monkeypatch.context() as patch:
        patch.setattr(short, "BYTES_MAX", 0)
        long = joined(format.encode([batch_row()], name=NAME))
    with pytest.raises(Damaged, match=r"a commit of [0-9,]+ bytes is not stored so"):
        format.read_whole(long, NAME)


def test_a_short_commit_of_this_version_is_these_bytes() -> None:
    """Little endian; the columns are padded to 8 bytes each."""
    whole = joined(format.encode([entry_row("k", 1, commit=7)], name="x", epoch_id=b"e" * 16))
    head = struct.pack("<8sHHHHIIQQQ16s", b"FLCOMMIT", 3, 1, 1, 0, 1, len(PAYLOAD), 7, 8, 7, b"e" * 16)
    assert whole.startswith(head + struct.pack("<I", crc32c.crc32c(PAYLOAD)))
    assert whole[len(head) + 8 :].startswith(b"x" + b"\x08" + bytes(7) + b"\xff" * 4 + bytes(4))
    assert whole.endswith(PAYLOAD)
    assert struct.unpack_from("<I", whole, len(head) + 4)[0] == crc32c.crc32c(
        whole[: len(head) + 4] + whole[len(head) + 8 : -len(PAYLOAD)]
    )


def test_a_seal_is_no_commit() -> None:
    """Where a reader expects rows it is damage, not an object without any."""
    whole = joined(format.encode_seal(name=NAME, epoch_id=b"e" * 16, number=7))
    meta = format.read_meta(whole, NAME)
    assert (meta.kind, meta.first, meta.end, meta.known, meta.epoch_id) == ("seal", 7, 7, 7, b"e" * 16)
    for read in (format.read_whole, format.read_rows, format.read_damaged):
        with pytest.raises(Damaged, match="is a seal: its writer epoch ends before it"):
            read(whole, NAME)
    for place in range(len(whole)):
        with pytest.raises(Damaged):
            format.read_meta(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :], NAME)
