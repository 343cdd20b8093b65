"""Large reads and writes past the page cache, by `O_DIRECT`.

A log is written once, merged once and mostly read at its tail, which the server keeps in memory itself. Through the
page cache every byte of a large commit would be copied once more, into pages that push others out and that hardly
anyone reads. The device wants whole blocks at whole blocks' places from memory that is aligned, so bytes pass through a
buffer that each thread keeps.

Where the file system refuses (`EINVAL`, such as an older tmpfs) everything is read and written as ever.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

OBJECT_BYTES_MIN: Final = 256 * 1024
"""Smaller objects are written and read through the page cache."""
READ_BYTES_MIN: Final = 32 * 1024
"""Smaller reads go through the page cache too, which reads ahead."""
_SMALL_BYTES: Final = 16 * 1024
"""Up to this many bytes are copied under the interpreter's lock: to let it go and set up arrays takes longer."""
_BLOCK: Final = 4096
_FLAG: Final = getattr(os, "O_DIRECT", 0)


class Buffer(threading.local):
    """Aligned memory of a thread, made when it is first needed."""

    _memory: mmap.mmap | None = None

    def __init__(self, size_bytes: int) -> None:
        """`size_bytes`: whole blocks."""
        self._size_bytes = size_bytes

    def get(self) -> NDArray[np.uint8]:
        """All of it, as bytes."""
        if self._memory is None:
            self._memory = mmap.mmap(-1, self._size_bytes)
        return np.frombuffer(self._memory, np.uint8)


BUFFER: Final = Buffer(4 * 1024 * 1024)
"""How many bytes pass through it at a time."""


def enable(descriptor: int) -> bool:
    """Let reads and writes of an open file pass the page cache; False if the file system knows no such thing."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | _FLAG)
    except OSError:
        return False
    return bool(_FLAG)


def write(descriptor: int, parts: Sequence[memoryview]) -> None:
    """Write a new file that is `enable`d. Not durable before `fdatasync`.

    Raises:
        OSError
    """
    buffer = BUFFER.get()
    room = buffer.data
    held = total = 0
    for part in parts:
        size = len(part)
        total += size
        if size <= _SMALL_BYTES and size < len(room) - held:
            room[held : held + size] = part
            held += size
            continue
        data = np.frombuffer(part, np.uint8)
        while len(data):
            count = min(len(data), len(buffer) - held)
            np.copyto(buffer[held : held + count], data[:count])
            held, data = held + count, data[count:]
            if held == len(buffer):
                _write_out(descriptor, buffer)
                held = 0
    if held:
        padded = held + -held % _BLOCK
        buffer[held:padded] = 0
        _write_out(descriptor, buffer[:padded])
    if total % _BLOCK:
        os.truncate(descriptor, total)


def _write_out(descriptor: int, data: NDArray[np.uint8]) -> None:
    view = data.data
    while view.nbytes:
        view = view[os.write(descriptor, view) :]


def read(descriptor: int, start: int, length: int) -> bytes:
    """Bytes [start, start + length) of a file that is `enable`d, fewer at the end of the file.

    Raises:
        OSError
    """
    buffer = BUFFER.get()
    pieces: list[bytes] = []
    position, end = start, start + length
    while position < end:
        low = position - position % _BLOCK
        wanted = min(end - low + -(end - low) % _BLOCK, len(buffer))
        found = os.preadv(descriptor, [buffer[:wanted].data], low)
        piece = buffer[position - low : min(found, end - low)].tobytes()
        if not piece:
            break
        pieces.append(piece)
        position += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
