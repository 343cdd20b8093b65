"""Payloads behind their lengths, cut out of bytes that come in any pieces."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.length_prefixed import LengthPrefixed

SIZE_MAX = 1_000_000


def size_of(view: memoryview, at: int) -> int:
    """Three bytes, and a limit."""
    size = int.from_bytes(view[at : at + 3], "little")
    if size > SIZE_MAX:
        raise ValueError(size)
    return size


def cutter(scratch_bytes: int = 64) -> LengthPrefixed:
    return LengthPrefixed(memoryview(bytearray(scratch_bytes)), 3, size_of)


def feed(framing: LengthPrefixed, data: bytes, piece: int, whole: list[memoryview]) -> None:
    """Write `data` as a socket would, in pieces of at most this size."""
    while data:
        space = framing.space()
        assert len(space)
        count = min(piece, len(space), len(data))
        space[:count] = data[:count]
        framing.filled(count, whole)
        data = data[count:]


def packed(payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + payload


@given(st.lists(st.binary(max_size=200), max_size=8), st.integers(1, 100))
def test_payloads_come_out_whole_however_they_arrive(payloads: list[bytes], piece: int) -> None:
    """In order, each once, empty ones too."""
    framing, whole = cutter(), list[memoryview]()
    feed(framing, b"".join(map(packed, payloads)), piece, whole)
    assert whole == payloads
    assert framing.idle


@pytest.mark.parametrize("size", [10, 1000])
def test_a_payload_stays_as_it_is(size: int) -> None:
    """Neither a writer nor the next read changes it."""
    framing, whole = cutter(), list[memoryview]()
    feed(framing, packed(b"a" * size) + packed(b"b" * size), 64, whole)
    assert [payload.readonly for payload in whole] == [True, True]
    assert whole == [b"a" * size, b"b" * size]


def test_what_comes_before_a_header_that_is_refused_is_given() -> None:
    """And nothing is allocated for what it announces."""
    framing, whole = cutter(), list[memoryview]()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=str(SIZE_MAX + 1)):
            feed(framing, packed(b"x") + (SIZE_MAX + 1).to_bytes(3, "little"), 64, whole)
        assert tracemalloc.get_traced_memory()[1] < SIZE_MAX / 10
    finally:
        tracemalloc.stop()
    assert whole == [b"x"]


def test_a_large_payload_is_received_in_place() -> None:
    """The socket writes into the memory that is handed on."""
    framing, whole = cutter(), list[memoryview]()
    feed(framing, packed(bytes(1000))[:40], 40, whole)
    assert not framing.idle
    space = framing.space()
    assert len(space) == 1000 - 37
    feed(framing, b"y" * len(space), 2000, whole)
    assert whole[0].obj is space.obj


def test_little_is_read_behind_a_payload_that_was_larger_than_the_buffer() -> None:
    """The next one is large too, and what is read before its memory is there is copied. Then all of the buffer again:
    smaller ones come many at a time."""
    framing, whole = cutter(64 * 1024), list[memoryview]()
    feed(framing, packed(bytes(100_000)), 100_000, whole)
    assert len(framing.space()) == 4096
    feed(framing, packed(b"x"), 64, whole)
    assert len(framing.space()) == 64 * 1024
    feed(framing, packed(bytes(60_000))[:50_000], 64 * 1024, whole)
    feed(framing, bytes(10_003), 64 * 1024, whole)
    assert len(framing.space()) == 64 * 1024
    assert [len(payload) for payload in whole] == [100_000, 1, 60_000]


def test_payloads_of_one_read_share_one_copy() -> None:
    """Each by itself would cost a request twice."""
    framing, whole = cutter(), list[memoryview]()
    feed(framing, packed(b"a") + packed(b"b") + packed(b"c")[:2], 64, whole)
    assert whole[0].obj is whole[1].obj
    assert bytes(whole[0].obj) == packed(b"a") + packed(b"b")
