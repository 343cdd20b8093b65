"""Requests cut out of a connection's bytes: a length of four bytes, then so many bytes.

One scratch buffer serves all connections of a loop: what arrives is taken out of it at once. Only a request that has
begun and is not yet whole has a buffer of its own, of its exact size and untouched until its bytes come, into which
the socket then writes directly. So an idle connection owns nothing and a large batch is not copied on its way in.
"""

from __future__ import annotations

import numpy as np

from fairlead.protocol.wire import Malformed

SCRATCH_BYTES = 256 * 1024
_LENGTH_BYTES = 4
_FRAME_BYTES_MIN = 8
"""API key, version and correlation id."""


class Framing:
    """The reading half of one connection, without the connection."""

    __slots__ = ("_filled", "_frame_bytes_max", "_rest", "_scratch", "_target")

    def __init__(self, scratch: memoryview, frame_bytes_max: int) -> None:
        self._scratch = scratch
        self._frame_bytes_max = frame_bytes_max
        self._rest = b""
        self._target: memoryview | None = None
        self._filled = 0

    @property
    def idle(self) -> bool:
        """Nothing of a request has come that is not whole."""
        return self._target is None and not self._rest

    def buffer(self) -> memoryview:
        """Where the next bytes are to be written; valid until `received`."""
        return self._scratch if self._target is None else self._target[self._filled :]

    def received(self, count: int) -> list[memoryview]:
        """Take note of `count` bytes written to `buffer()`; answers the requests that are now whole.

        Raises:
            Malformed: a length that no request has, or above the limit; nothing of that request is kept.
        """
        if self._target is not None:
            self._filled += count
            return self._finish() if self._filled == len(self._target) else []
        return self._cut(self._rest + bytes(self._scratch[:count]))

    def _finish(self) -> list[memoryview]:
        frame, self._target, self._filled = self._target, None, 0
        assert frame is not None
        return [frame]

    def _cut(self, data: bytes) -> list[memoryview]:
        view = memoryview(data)
        frames: list[memoryview] = []
        position = 0
        while len(view) - position >= _LENGTH_BYTES:
            length = int.from_bytes(view[position : position + _LENGTH_BYTES], "big", signed=True)
            self._check(length)
            position += _LENGTH_BYTES
            if len(view) - position < length:
                self._begin(length, view[position:])
                return frames
            frames.append(view[position : position + length])
            position += length
        self._rest = data[position:]
        return frames

    def _begin(self, length: int, first: memoryview) -> None:
        self._target = np.empty(length, dtype=np.uint8).data
        self._target[: len(first)] = first
        self._filled = len(first)
        self._rest = b""

    def _check(self, length: int) -> None:
        if length > self._frame_bytes_max:
            raise Malformed(f"a request of {length:,} bytes is larger than the limit of {self._frame_bytes_max:,}")
        if length < _FRAME_BYTES_MIN:
            raise Malformed(f"a request cannot have {length} bytes")
