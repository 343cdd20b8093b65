"""Requests cut out of a connection's bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.protocol.framing import request_framing
from fairlead.protocol.wire import Malformed

LIMIT = 5000


def feed(framing: Any, data: bytes, sizes: Any) -> Any:
    """Write `data` as a socket would, in pieces of the given sizes; the frames that came out, copied."""
    frames: list[bytes] = []
    position = 0
    sizes = iter(sizes)
    while position < len(data):
        buffer = framing.space()
        count = min(len(buffer), next(sizes, len(data)), len(data) - position)
        buffer[:count] = data[position : position + count]
        whole: list[bytes] = []
        framing.filled(count, whole)
        frames += map(bytes, whole)
        position += count
    return frames


def framed(frames: Any) -> Any:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(st.lists(st.binary(min_size=8, max_size=300), max_size=8), st.lists(st.integers(1, 100), max_size=60))
def test_requests_come_out_whole_however_they_arrive(frames: Any, sizes: Any) -> None:
    """In order, each once, nothing between them."""
    framing = request_framing(memoryview(bytearray(64)), LIMIT)
    assert feed(framing, framed(frames), sizes) == frames
    assert framing.idle


@given(st.lists(st.binary(min_size=8, max_size=300), min_size=2, max_size=6))
def test_connections_share_one_buffer(frames: Any) -> None:
    """What one connection has half received is not touched by another's bytes."""
    scratch = memoryview(bytearray(64))
    one, two = request_framing(scratch, LIMIT), request_framing(scratch, LIMIT)
    data = framed(frames)
    got_one, got_two = [], []
    for start in range(0, len(data), 7):
        got_one += feed(one, data[start : start + 7], [])
        got_two += feed(two, data[start : start + 7], [])
    assert got_one == got_two == frames


@pytest.mark.parametrize("length", [LIMIT + 1, 2**31 - 1, -1, -(2**31), 0, 7])
def test_impossible_lengths_are_refused_before_the_request_is_read(length: Any) -> None:
    """Nothing is kept for such a request."""
    framing = request_framing(memoryview(bytearray(64)), LIMIT)
    with pytest.raises(Malformed):
        feed(framing, length.to_bytes(4, "big", signed=True), [])


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"SSH-2.0-OpenSSH"])
def test_other_protocols_are_refused_at_once(greeting: Any) -> None:
    """Their first four bytes are a length above the limit."""
    with pytest.raises(Malformed, match="larger than the limit"):
        feed(request_framing(memoryview(bytearray(64)), 100_000_000), greeting, [])
