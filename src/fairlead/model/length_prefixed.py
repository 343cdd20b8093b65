"""Payloads cut out of a connection's bytes: a header that says how long the payload is, then the payload, and so on.

Payloads that are whole in the bytes of one read are copied once, together, and are views of that copy. A payload that
is not yet whole has memory of its own, of its exact size and untouched until its bytes come. The socket writes directly
into it, so a large payload is not copied on its way in, but for its beginning; behind a large one little is read at
first, since the next one is large too. A header is checked against the limits before that memory is taken. The buffer
for reads holds nothing between two reads, so that many connections may share one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

_BEGINNING_BYTES: Final = 4096
"""Read at first behind a payload that was larger than the buffer for reads: what is read of the next one is copied."""

SizeOf = Callable[[memoryview, int], int]
"""Gives the payload's size in bytes from the header at a place, which is complete; raises an error to refuse it."""


class LengthPrefixed:
    """The reading half of one connection, without the connection: ask for `space`, put bytes there, and say how many
    with `filled`."""

    __slots__ = ("_filled", "_header_bytes", "_large", "_rest", "_scratch", "_size_of", "_target")

    def __init__(self, scratch: memoryview, header_bytes: int, size_of: SizeOf) -> None:
        self._scratch = scratch
        self._header_bytes = header_bytes
        self._size_of = size_of
        self._rest = b""
        self._target: memoryview | None = None
        self._filled = 0
        self._large = False
        """The payload before was larger than the buffer for reads."""

    @property
    def idle(self) -> bool:
        """Whether no payload is partly read."""
        return self._target is None and not self._rest

    @property
    def partial_bytes(self) -> int:
        """Size of the payload that is partly read and has memory of its own."""
        return 0 if self._target is None else len(self._target)

    @property
    def partial(self) -> memoryview:
        """What is there of the payload that is partly read and has memory of its own."""
        return memoryview(b"") if self._target is None else self._target[: self._filled]

    def space(self) -> memoryview:
        """Where the next bytes are to be written, never empty; valid until `filled`."""
        if self._target is not None:
            return self._target[self._filled :]
        return self._scratch[:_BEGINNING_BYTES] if self._large else self._scratch

    def filled(self, count: int, whole: list[memoryview]) -> None:
        """Take note of `count` bytes at the beginning of `space`, and add the payloads that are now whole to the list.
        They are read-only, and no later read changes them.

        Raises what `size_of` raises. Payloads before the refused header are in the list; nothing can be read after it.
        """
        if self._target is None:
            self._large = False
            read = self._scratch[:count]
            self._cut(memoryview(self._rest + bytes(read)) if self._rest else read, whole)
            return
        self._filled += count
        if self._filled == len(self._target):
            whole.append(self._target.toreadonly())
            self._large = len(self._target) >= len(self._scratch)
            self._target = None

    def _cut(self, data: memoryview, whole: list[memoryview]) -> None:
        size_of, header_bytes, length = self._size_of, self._header_bytes, len(data)
        at = 0
        places: list[tuple[int, int]] = []
        try:
            while length - at >= header_bytes:
                size = size_of(data, at)
                start = at + header_bytes
                if length - start < size:
                    self._begin(size, data[start:])
                    return
                at = start + size
                places.append((start, at))
            self._rest = bytes(data[at:])
        finally:
            if places:
                kept = memoryview(bytes(data[:at]))
                whole += [kept[start:end] for start, end in places]

    def _begin(self, size: int, first: memoryview) -> None:
        # Not a bytearray: it would first be filled with zeros, a second pass over memory that the socket fills anyway.
        self._target = np.empty(size, np.uint8).data
        self._target[: len(first)] = first
        self._filled = len(first)
        self._rest = b""
