"""What the look at the heads of a batch's records has in common, whatever is looked for.

One piece of what is decompressed is held at a time; keys, values and headers are passed over unread. It is pure Python
and holds the interpreter, so whoever looks takes a rest every few hundred records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

PIECE_BYTES: Final = 64 * 1024
"""Decompressed at once."""
RECORDS_BETWEEN_RESTS: Final = 500
"""Reading the heads of so many takes about 0.5 ms."""
HEAD_BYTES_MAX: Final = 32
"""Length, attributes, two deltas, first byte of the key's length: three varints of at most ten bytes, and two bytes."""


def padded(found: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """With as many zeros behind as a head may have, so that the last one can be read like the others."""
    yield from found
    yield bytes(HEAD_BYTES_MAX)
