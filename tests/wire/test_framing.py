"""Messages in a stream of bytes: cut anywhere, held against the limits before anything is allocated."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.apply_peer import packed

from fairlead.model.errors import InvalidValue
from fairlead.model.limits import FRAME_BYTES_MAX
from fairlead.wire.connection import WRITE_BYTES, chunks
from fairlead.wire.framing import FRAMES, HELLO, READ_BYTES, Limits, Message, MessageKind, MessageReader, header_of

ALL: Limits = {0: 1000, 1: 1_000_000}


def read(data: bytes, piece: int, limits: Limits = ALL) -> tuple[list[Message], MessageReader]:
    """What a reader makes of bytes that come in pieces of at most this size."""
    reader, at = MessageReader(limits), 0
    while at < len(data):
        space = reader.space()
        assert len(space)
        count = min(piece, len(space), len(data) - at)
        space[:count] = data[at : at + count]
        reader.filled(count)
        at += count
    return [reader.take() for _ in range(len(reader))], reader


@given(
    st.lists(st.one_of(st.text(max_size=200), st.binary(max_size=300), st.just(bytes(3 * READ_BYTES + 7)))),
    st.sampled_from([1, 2, 4, 5, 6, 100, READ_BYTES - 1, READ_BYTES, 10 * READ_BYTES]),
)
def test_messages_are_the_same_however_they_are_cut(said: list[str | bytes], piece: int) -> None:
    """One byte at a time, many messages at once, a message over many reads."""
    data = b"".join(map(packed, said))
    found, reader = read(data, piece if len(data) < 10_000 else max(piece, 1000))
    heard = [bytes(payload).decode() if kind == 0 else bytes(payload) for kind, payload in found]
    assert heard == said
    assert reader.between
    assert reader.waiting_bytes == 0


@pytest.mark.parametrize("size", [10, 10 * READ_BYTES])
def test_what_was_received_stays_as_it_is(size: int) -> None:
    """A frame's rows are views of it: nobody can write there, and the next message does not."""
    (first, second), _ = read(packed(b"a" * size) + packed(b"b" * size), 1 << 20)
    assert memoryview(first.payload).readonly
    assert bytes(first.payload) == b"a" * size
    assert bytes(second.payload) == b"b" * size


@pytest.mark.parametrize(
    ("limits", "size", "kind"),
    [(FRAMES, FRAME_BYTES_MAX + 1, 1), (FRAMES, 2**32 - 1, 1), (FRAMES, 1, 0), (FRAMES, 0, 2), (HELLO, 65_537, 0)],
)
def test_a_header_is_refused_before_anything_is_allocated(limits: Limits, size: int, kind: int) -> None:
    """Too long, or of a kind that is not expected; what came before it can still be taken."""
    reader = MessageReader(limits)
    (allowed,) = map(MessageKind, limits)
    reader.feed(header_of(allowed, 1) + b"x")
    tracemalloc.start()
    try:
        with pytest.raises(InvalidValue, match="a message of"):
            reader.feed(struct.pack("<IB", size, kind))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert reader.take() == Message(allowed, memoryview(b"x"))


def test_the_largest_messages_are_taken() -> None:
    """The limit itself is allowed."""
    reader = MessageReader(FRAMES)
    reader.feed(header_of(MessageKind.FRAME, FRAME_BYTES_MAX))
    assert reader.space().nbytes == FRAME_BYTES_MAX
    assert not reader.between


def test_a_frame_of_many_parts_is_written_in_bounded_chunks_without_a_copy() -> None:
    """Small parts go together, large ones are cut; nothing is empty."""
    parts = [b"a" * 5, b"", b"b" * (2 * WRITE_BYTES), *[b"c"] * 10]
    found = list(chunks([memoryview(part) for part in parts]))
    assert b"".join(b"".join(chunk) for chunk in found) == b"".join(parts)
    assert [sum(map(len, chunk)) for chunk in found] == [WRITE_BYTES, WRITE_BYTES, 15]
    assert {view.obj for chunk in found for view in chunk} == {part for part in parts if part}
    assert all(len(view) for chunk in found for view in chunk)
