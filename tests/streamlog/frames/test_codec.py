"""Frames are read as they were written, or refused."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rows import IDS, any_row, batch_row, joined

from fairlead.model.errors import CorruptBatch
from fairlead.streamlog.frames.codec import decode_frame, encode_body, encode_frame, frame_of
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.objects import format
from fairlead.streamlog.values import GrantRun

NATURAL = st.integers(0, 2**53)
NUMBERS = st.integers(0, 2**32 - 33)
REPAIRS = st.none() | st.builds(Repair, NUMBERS, st.integers(0, 4095), NATURAL, st.booleans(), NATURAL)
FRAMES = st.builds(
    Frame,
    link=IDS,
    run=st.builds(GrantRun, NATURAL, NATURAL),
    source=IDS,
    shard=st.integers(0, 255),
    slices=st.integers(1, 2**16 - 1),
    from_commit=st.integers(0, 1000),
    to_commit=st.integers(1000, 2**53),
    epoch_id=IDS,
    topics=st.dictionaries(NUMBERS, st.builds(FrameTopic, IDS, st.text(max_size=20)), max_size=4),
    rows=st.lists(any_row(), max_size=8),
    repair=REPAIRS,
    created=st.none() | NATURAL,
    end=NATURAL,
    ext=st.dictionaries(st.text(max_size=9), st.integers() | st.text(), max_size=2),
)


@given(FRAMES)
def test_frames_are_read_as_they_were_written(frame: Frame) -> None:
    """Whatever their values, empty ones too."""
    first, end = bounds(frame)
    if first < end:
        rows = [row._replace(commit=first + row.commit % (end - first)) for row in frame.rows]
        frame = replace(frame, rows=rows)
    else:
        frame = replace(frame, rows=[])
    assert decode_frame(encode_frame(frame)) == frame


def bounds(frame: Frame) -> tuple[int, int]:
    """The commits that its rows may be of."""
    return (frame.from_commit, frame.to_commit) if frame.repair is None else (0, frame.repair.read_to)


@given(FRAMES)
def test_a_row_of_another_commit_is_refused_with_its_frame(frame: Frame) -> None:
    """Copies say by it where a history can be cut, and no position has passed it. A repair has rows from the beginning
    on."""
    first, end = bounds(frame)
    for commit in (first - 1, end):
        with pytest.raises(CorruptBatch, match="rows outside its commits"):
            decode_frame(encode_frame(replace(frame, rows=[batch_row(5, commit=commit)])))


@given(FRAMES)
def test_columns_make_the_same_frame_as_rows(frame: Frame) -> None:
    """Byte for byte."""
    if frame.rows:
        columns = format.read_whole(joined(format.encode(frame.rows)))
        assert frame_of(frame, encode_body(columns)) == encode_frame(frame)


def example() -> Frame:
    topics = {5: FrameTopic(b"i" * 16, "ships")}
    return Frame(
        b"l" * 16,
        GrantRun(1, 2),
        b"s" * 16,
        0,
        1 << 5,
        10,
        12,
        b"e" * 16,
        topics,
        [batch_row(5, commit=10), batch_row(5, 1, commit=11)],
    )


@given(st.integers(0, 7))
def test_a_change_of_any_byte_is_found(bit: int) -> None:
    """Those of the batches included."""
    whole = encode_frame(example())
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        with pytest.raises(CorruptBatch):
            decode_frame(changed)


def test_a_frame_cut_anywhere_is_refused() -> None:
    """And so is one that goes on."""
    whole = encode_frame(example())
    for length in range(len(whole)):
        with pytest.raises(CorruptBatch):
            decode_frame(whole[:length])
    with pytest.raises(CorruptBatch):
        decode_frame(whole + b"\0")


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    """With the one error that a gateway answers."""
    with pytest.raises(CorruptBatch):
        decode_frame(data)


def _with_header(**changes: object) -> bytes:
    whole = encode_frame(example())
    length, _ = struct.unpack_from("<II", whole)
    header = json.dumps(json.loads(whole[8 : 8 + length]) | changes).encode()
    rest = header + whole[8 + length :]
    return struct.pack("<II", len(header), crc32c.crc32c(rest)) + rest


@pytest.mark.parametrize(
    "changes",
    [
        {"slices": 2**16},
        {"slices": 0},
        {"slices": 1.0},
        {"from": 13},
        {"rows": 10**30},
        {"rows": 3},
        {"batch_bytes": 0},
        {"link": "00"},
        {"link": None},
        {"link": "zz" * 16},
        {"run": [1]},
        {"topics": {}},
        {"topics": [[5, "00", "ships"]]},
        {"repair": [1, 2, 3, 4, 5]},
        {"epoch_id": 7},
        {"v": 1},
        {"v": 3},
        {"end": -1},
        {"features": "txn"},
        {"ext": []},
        {"more": 1},
        {"shard": True},
    ],
)
def test_wrong_values_in_the_header_are_refused(changes: dict[str, object]) -> None:
    """Also where the checksum fits: the sender may be another program."""
    if "topics" in changes and changes["topics"] == {}:
        changes = {"topics": 5}
    assert decode_frame(_with_header()) == example()
    with pytest.raises(CorruptBatch):
        decode_frame(_with_header(**changes))


def test_another_version_is_refused_naming_both() -> None:
    """So that an operator knows which side to renew."""
    with pytest.raises(CorruptBatch, match="frame of version 3; this program knows version 2"):
        decode_frame(_with_header(v=3))


def test_a_lone_small_record_makes_a_small_frame() -> None:
    """Thin links pay for every byte."""
    frame = example()
    lone = Frame(**{name: getattr(frame, name) for name in Frame.__dataclass_fields__} | {"rows": [batch_row(5)]})
    assert len(encode_frame(lone)) < 800
