"""Messages of /gateway/apply in a stream of bytes, the same in both directions:

    length of the payload   uint32, little endian
    kind                    uint8: 0 a message of `messages.py` as JSON, 1 the bytes of a frame
    payload

`MessageReader` cuts what a socket gives into messages (`model/length_prefixed.py`) and holds each header against the
limits of the moment.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from typing_extensions import Buffer

from fairlead.model.errors import InvalidValue
from fairlead.model.length_prefixed import LengthPrefixed
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
    payload: memoryview


def header_of(kind: MessageKind, size: int) -> bytes:
    """The header of a payload of this many bytes."""
    return HEADER.pack(size, kind)


class MessageReader:
    """Ask for `space`, put bytes there, say how many by `filled`, and `take` the messages that are whole."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        """Of messages whose header has not come yet."""
        self.waiting_bytes = 0
        """Payload of the messages that wait to be taken."""
        self._whole: deque[Message] = deque()
        self._kinds: deque[int] = deque()
        """Of the messages whose header has come and whose payload is not whole."""
        self._cutter = LengthPrefixed(memoryview(bytearray(READ_BYTES)), HEADER.size, self._size_of)

    def __len__(self) -> int:
        """Messages that wait to be taken."""
        return len(self._whole)

    @property
    def between(self) -> bool:
        """No message has come in part."""
        return self._cutter.idle

    def take(self) -> Message:
        """The oldest message."""
        message = self._whole.popleft()
        self.waiting_bytes -= len(message.payload)
        return message

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._cutter.space()

    def filled(self, count: int) -> None:
        """This many bytes were put at the beginning of `space`.

        Raises:
            InvalidValue: a message of a kind or length that is not taken here; nothing can be read after it.
        """
        payloads: list[memoryview] = []
        try:
            self._cutter.filled(count, payloads)
        finally:
            for payload in payloads:
                self._whole.append(Message(self._kinds.popleft(), payload))
                self.waiting_bytes += len(payload)

    def feed(self, data: Buffer) -> None:
        """Take bytes that were received elsewhere. Raises as `filled`."""
        view = memoryview(data).cast("B")
        while view:
            space = self.space()
            count = min(len(space), len(view))
            space[:count] = view[:count]
            self.filled(count)
            view = view[count:]

    def _size_of(self, view: memoryview, at: int) -> int:
        size, kind = HEADER.unpack_from(view, at)
        limit = self.limits.get(kind)
        if limit is None:
            raise InvalidValue(f"a message of kind {kind}, which is not expected here")
        if size > limit:
            raise InvalidValue(f"a message of {size:,} bytes; at most {limit:,} are taken here")
        self._kinds.append(kind)
        return int(size)
