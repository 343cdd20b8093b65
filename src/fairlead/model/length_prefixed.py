"""Payloads cut out of a connection's bytes: a header that says how long the payload is, then the payload, and so on.

Bytes that were read are copied once, and payloads that are whole in them are views of that copy. A payload that is not
yet whole has memory of its own, of its exact size and untouched until its bytes come. The socket writes directly into
it, so a large payload is not copied on its way in. A header is checked against the limits before that memory is taken.
The buffer for reads holds nothing between two reads, so that many connections may share one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SizeOf = Callable[[memoryview, int], int]
"""Gives the payload's size in bytes from the header at a place, which is complete; raises an error to refuse it."""


class LengthPrefixed:
    """The reading half of one connection, without the connection: ask for `space`, put bytes there, and say how many
    with `filled`."""

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
        """Whether no payload is partly read."""
        return self._target is None and not self._rest

    @property
    def partial_bytes(self) -> int:
        """Size of the payload that is partly read and has memory of its own."""
        return 0 if self._target is None else len(self._target)

    def space(self) -> memoryview:
        """Where the next bytes are to be written, never empty; valid until `filled`."""
        return self._scratch if self._target is None else self._target[self._filled :]

    def filled(self, count: int, whole: list[memoryview]) -> None:
        """Take note of `count` bytes at the beginning of `space`, and add the payloads that are now whole to the list.
        They are read-only, and no later read changes them.

        Raises what `size_of` raises. Payloads before the refused header are in the list; nothing can be read after it.
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
        # Not a bytearray: it would first be filled with zeros, a second pass over memory that the socket fills anyway.
        self._target = np.empty(size, np.uint8).data
        self._target[: len(first)] = first
        self._filled = len(first)
        self._rest = b""
