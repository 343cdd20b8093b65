"""Requests, or answers, cut out of a connection's bytes: a length of four bytes, then that many bytes
(`model/length_prefixed.py`).

One scratch buffer serves all connections of a loop, so that an idle connection owns nothing.
"""

from __future__ import annotations

import struct
from functools import cache

from fairlead.model.length_prefixed import LengthPrefixed, SizeOf
from fairlead.protocol.wire import Malformed

SCRATCH_BYTES = 256 * 1024
_LENGTH = struct.Struct(">i")
_FRAME_BYTES_MIN = 8
"""API key, version and correlation id: no request is shorter."""
_ANSWER_BYTES_MIN = 4
"""A correlation id: no answer is shorter."""


def request_framing(scratch: memoryview, frame_bytes_max: int) -> LengthPrefixed:
    """Cuts the requests of one connection. `filled` raises `Malformed` for a length that no request has or that is
    above the limit; nothing of that request is kept."""
    return LengthPrefixed(scratch, _LENGTH.size, _size_of("a request", _FRAME_BYTES_MIN, frame_bytes_max))


def answer_framing(scratch: memoryview, answer_bytes_max: int) -> LengthPrefixed:
    """Cuts the answers out of one connection to another's broker, in the same way."""
    return LengthPrefixed(scratch, _LENGTH.size, _size_of("an answer", _ANSWER_BYTES_MIN, answer_bytes_max))


@cache
def _size_of(what: str, frame_bytes_min: int, frame_bytes_max: int) -> SizeOf:
    def size_of(view: memoryview, at: int) -> int:
        (length,) = _LENGTH.unpack_from(view, at)
        if length > frame_bytes_max:
            raise Malformed(f"{what} of {length:,} bytes is larger than the limit of {frame_bytes_max:,}")
        if length < frame_bytes_min:
            raise Malformed(f"{what} cannot have {length} bytes")
        return int(length)

    return size_of
