"""Messages of /gateway/apply in a stream of bytes, the same in both directions:

    length of the payload   uint32, little endian
    kind                    uint8: 0 a message of `messages.py` as JSON, 1 the bytes of a frame
    payload

`MessageReader` cuts what a socket gives into messages. A message that is whole in one read is copied out of it; of any
other, the rest is received in place, into memory of its own that is never used again. A header is held against the
limits before anything is allocated for it.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from typing_extensions import Buffer

from fairlead.model.errors import InvalidValue
from fairlead.model.limits import FRAME_BYTES_MAX

HEADER: Final = struct.Struct("<IB")

READ_BYTES: Final = 64 * 1024
"""Read at once between two messages: many small ones, or the beginning of a large one, which is copied."""


class MessageKind(IntEnum):
    """What a payload is."""

    JSON = 0
    FRAME = 1


Limits = Mapping[int, int]
"""The largest payload by kind; a kind that is missing is not taken."""

HELLO: Final[Limits] = {MessageKind.JSON: 64 * 1024}
"""From a sink of which nothing is known yet."""
FRAMES: Final[Limits] = {MessageKind.FRAME: FRAME_BYTES_MAX}
"""From a sink whose hello was answered."""
ANSWERS: Final[Limits] = {MessageKind.JSON: 1024 * 1024}
"""From a gateway: at most the positions of 256 shards."""


class Message(NamedTuple):
    """One message; its payload cannot be changed."""

    kind: int
    payload: bytes | memoryview


def header_of(kind: MessageKind, size: int) -> bytes:
    """What goes before a payload of so many bytes."""
    return HEADER.pack(size, kind)


class MessageReader:
    """Ask for `space`, put bytes there, say how many by `filled`, and `take` the messages that are whole."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        """Of messages whose header has not come yet."""
        self.waiting_bytes = 0
        """Payload of the messages that wait to be taken."""
        self._whole: deque[Message] = deque()
        self._near = memoryview(bytearray(READ_BYTES))
        self._near_used = 0
        self._kind = 0
        self._payload: memoryview | None = None
        self._payload_used = 0

    def __len__(self) -> int:
        """Messages that wait to be taken."""
        return len(self._whole)

    @property
    def between(self) -> bool:
        """No message has come in part."""
        return self._payload is None and not self._near_used

    def take(self) -> Message:
        """The oldest message."""
        message = self._whole.popleft()
        self.waiting_bytes -= len(message.payload)
        return message

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._payload is not None:
            return self._payload[self._payload_used :]
        return self._near[self._near_used :]

    def filled(self, count: int) -> None:
        """So many bytes were put at the beginning of `space`.

        Raises:
            InvalidValue: a message of a kind or length that is not taken here; nothing can be read after it.
        """
        if self._payload is None:
            self._near_used += count
            self._cut()
            return
        self._payload_used += count
        if self._payload_used == self._payload.nbytes:
            self._add(self._kind, self._payload.toreadonly())
            self._payload = None

    def feed(self, data: Buffer) -> None:
        """Take bytes that were received elsewhere. Raises as `filled`."""
        view = memoryview(data).cast("B")
        while view:
            space = self.space()
            count = min(len(space), len(view))
            space[:count] = view[:count]
            self.filled(count)
            view = view[count:]

    def _cut(self) -> None:
        at, end = 0, self._near_used
        while end - at >= HEADER.size:
            size, kind = HEADER.unpack_from(self._near, at)
            self._check(size, kind)
            at += HEADER.size
            if size > end - at:
                self._begin(kind, size, self._near[at:end])
                at = end
            else:
                self._add(kind, bytes(self._near[at : at + size]))
                at += size
        rest = bytes(self._near[at:end])
        self._near[: len(rest)] = rest
        self._near_used = len(rest)

    def _add(self, kind: int, payload: bytes | memoryview) -> None:
        self._whole.append(Message(kind, payload))
        self.waiting_bytes += len(payload)

    def _check(self, size: int, kind: int) -> None:
        limit = self.limits.get(kind)
        if limit is None:
            raise InvalidValue(f"a message of kind {kind}, which is not expected here")
        if size > limit:
            raise InvalidValue(f"a message of {size:,} bytes; at most {limit:,} are taken here")

    def _begin(self, kind: int, size: int, begun: memoryview) -> None:
        # Not a bytearray: that is filled with zeros first, a second walk through memory that the socket fills anyway.
        payload = np.empty(size, np.uint8).data
        payload[: len(begun)] = begun
        self._kind, self._payload, self._payload_used = kind, payload, len(begun)
