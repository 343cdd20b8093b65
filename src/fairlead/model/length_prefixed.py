"""Payloads cut out of a connection's bytes: a header that says how long the payload is, then the payload, and so on.

What was read is copied once, and payloads that are whole in it are views of that copy. A payload that has begun and is
not yet whole has memory of its own, of its exact size and untouched until its bytes come, into which the socket then
writes directly: a large payload is not copied on its way in. A header is held against the limits before that memory is
taken. The buffer that is read into holds nothing between two reads, so that many connections may share one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SizeOf = Callable[[memoryview, int], int]
"""The payload's size in bytes by the header at a place, which is there whole; raises what refuses it."""


class LengthPrefixed:
    """The reading half of one connection, without the connection: ask for `space`, put bytes there, say how many by
    `filled`."""

    __slots__ = ("_filled", "_header_bytes", "_rest", "_scratch", "_size_of", "_target")

    def __init__(self, scratch: memoryview, header_bytes: int, size_of: SizeOf) -> None:
        self._scratch = scratch
        self._header_bytes = header_bytes
        self._size_of = size_of
        self._rest = b""
        self._target: memoryview | None = None
        self._filled = 0

    @property
    def idle(self) -> bool:
        """Nothing has come of a payload that is not whole."""
        return self._target is None and not self._rest

    def space(self) -> memoryview:
        """Where the next bytes are to be written, never empty; valid until `filled`."""
        return self._scratch if self._target is None else self._target[self._filled :]

    def filled(self, count: int, whole: list[memoryview]) -> None:
        """Take note of `count` bytes at the beginning of `space`, and add the payloads that are now whole to the list.
        They cannot be changed, and no later read changes them.

        Raises what `size_of` does. What came before that header is in the list; nothing can be read after it.
        """
        if self._target is None:
            self._cut(self._rest + bytes(self._scratch[:count]), whole)
            return
        self._filled += count
        if self._filled == len(self._target):
            whole.append(self._target.toreadonly())
            self._target = None

    def _cut(self, data: bytes, whole: list[memoryview]) -> None:
        view = memoryview(data)
        size_of, header_bytes, at = self._size_of, self._header_bytes, 0
        while len(data) - at >= header_bytes:
            size = size_of(view, at)
            at += header_bytes
            if len(data) - at < size:
                self._begin(size, view[at:])
                return
            whole.append(view[at : at + size])
            at += size
        self._rest = data[at:]

    def _begin(self, size: int, first: memoryview) -> None:
        # Not a bytearray: that is filled with zeros first, a second walk through memory that the socket fills anyway.
        self._target = np.empty(size, np.uint8).data
        self._target[: len(first)] = first
        self._filled = len(first)
        self._rest = b""
