"""The primitive types of Kafka's messages, read from and written to bytes by hand where that pays off.

Every read is bounded by the bytes that are there: a hostile length raises an error and neither allocates nor loops.
Types: https://kafka.apache.org/protocol#protocol_types; compact forms and tagged fields: KIP-482.
"""

from __future__ import annotations

import struct

from fairlead.model.errors import BadRequest
from fairlead.model.limits import REQUEST_ITEMS_MAX

_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")

ZERO_UUID = bytes(16)
TAGGED_FIELDS = "tagged_fields"
"""The kind that tagged fields are, when items of a message are counted."""


class Malformed(BadRequest):
    """A client sent bytes that are not the message they claim to be; its connection is closed."""


class TooManyItems(Malformed):
    """A request names more than `REQUEST_ITEMS_MAX` items of a kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"a request has more than {REQUEST_ITEMS_MAX:,} {kind.replace('_', ' ')}; send several")


def check_items(kind: str, count: int) -> None:
    """Raises: TooManyItems."""
    if count > REQUEST_ITEMS_MAX:
        raise TooManyItems(kind)


class Reader:
    """Reads one message from its beginning; `flexible` chooses the compact forms of strings, bytes and arrays."""

    __slots__ = ("_tags_count", "buffer", "flexible", "position")

    def __init__(self, buffer: memoryview | bytes, flexible: bool = False, position: int = 0) -> None:
        self.buffer = memoryview(buffer)
        self.flexible = flexible
        self.position = position
        self._tags_count = 0

    @property
    def remaining(self) -> int:
        """Bytes not yet read."""
        return len(self.buffer) - self.position

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        """The numbers of a form, which lie side by side."""
        try:
            values = form.unpack_from(self.buffer, self.position)
        except struct.error:
            raise Malformed("the message is cut") from None
        self.position += form.size
        return values

    def int8(self) -> int:
        return self.numbers(_I8)[0]

    def int16(self) -> int:
        return self.numbers(_I16)[0]

    def int32(self) -> int:
        return self.numbers(_I32)[0]

    def int64(self) -> int:
        return self.numbers(_I64)[0]

    def boolean(self) -> bool:
        return self.int8() != 0

    def uvarint(self) -> int:
        """An unsigned varint of at most five bytes."""
        value = shift = 0
        while shift < 35:
            if self.position >= len(self.buffer):
                raise Malformed("the message is cut")
            byte = self.buffer[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise Malformed("a varint is longer than five bytes")

    def take(self, length: int) -> memoryview:
        """The next `length` bytes, not copied."""
        end = self.position + length
        if length < 0 or end > len(self.buffer):
            raise Malformed(f"a field of {length} bytes is longer than the message")
        piece = self.buffer[self.position : end]
        self.position = end
        return piece

    def uuid(self) -> bytes:
        """16 bytes; `ZERO_UUID` stands for none."""
        return bytes(self.take(16))

    def nullable_string(self) -> str | None:
        length = self.uvarint() - 1 if self.flexible else self.int16()
        return None if length < 0 else self.text(length)

    def legacy_nullable_string(self) -> str | None:
        """A nullable string in the old form, whatever form the message has: the client id in a header of version 2."""
        length = self.int16()
        return None if length < 0 else self.text(length)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise Malformed("a string that must be there is null")
        return text

    def skip_string(self) -> None:
        """Pass over a string that must be there."""
        self.take(self.uvarint() - 1 if self.flexible else self.int16())

    def text(self, length: int) -> str:
        """A string of `length` bytes."""
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise Malformed("a string is not UTF-8") from None

    def nullable_bytes(self) -> memoryview | None:
        """Bytes or records, not copied."""
        length = self.uvarint() - 1 if self.flexible else self.int32()
        return None if length < 0 else self.take(length)

    def array_length(self, item_bytes_min: int = 1) -> int:
        """Number of items of an array, -1 for null; refused if that many cannot fit in the bytes that are left."""
        length = self.uvarint() - 1 if self.flexible else self.int32()
        if length < -1 or length * item_bytes_min > self.remaining:
            raise Malformed(f"an array of {length} items is longer than the message")
        return length

    def items(self, item_bytes_min: int = 1) -> range:
        """A range over an array's items; null counts as empty."""
        return range(self.array_length(item_bytes_min))

    def passes(self, expected: bytes) -> bool:
        """Pass over these bytes, if they come next; whether they do."""
        end = self.position + len(expected)
        if self.buffer[self.position : end] != expected:
            return False
        self.position = end
        return True

    def skip_tags(self) -> None:
        """Pass over tagged fields; messages of the old form have none."""
        if not self.flexible:
            return
        if self.position < len(self.buffer) and self.buffer[self.position] == 0:  # none, as nearly always
            self.position += 1
            return
        for _ in self.tags():
            self.uvarint()
            self.take(self.uvarint())

    def has_tag(self, wanted: int) -> bool:
        """Pass over tagged fields; whether one of them is this, with nothing in it."""
        if not self.flexible or (self.position < len(self.buffer) and self.buffer[self.position] == 0):
            self.skip_tags()
            return False
        found = False
        for _ in self.tags():
            tag, length = self.uvarint(), self.uvarint()
            self.take(length)
            found = found or (tag, length) == (wanted, 0)
        return found

    def tags(self) -> range:
        """A range over the tagged fields that follow, each of two bytes at least. A message has no more of them than
        items of a kind, in all its parts together. Raises: Malformed."""
        count = self.uvarint()
        if count * 2 > self.remaining:
            raise Malformed(f"{count} tagged fields are longer than the message")
        self._tags_count += count
        if self._tags_count > REQUEST_ITEMS_MAX:
            raise Malformed(f"a message has more than {REQUEST_ITEMS_MAX:,} tagged fields")
        return range(count)


def uvarint(value: int) -> bytes:
    """`value` >= 0 as an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str | None, flexible: bool) -> bytes:
    """A nullable string."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    data = text.encode()
    return (uvarint(len(data) + 1) if flexible else _I16.pack(len(data))) + data


def array_length(length: int, flexible: bool) -> bytes:
    """The length before an array's items; -1 is null."""
    return uvarint(length + 1) if flexible else _I32.pack(length)


def bytes_length(length: int, flexible: bool) -> bytes:
    """The length before bytes or records; -1 is null."""
    return uvarint(length + 1) if flexible else _I32.pack(length)


def no_tags(flexible: bool) -> bytes:
    """The end of a structure: zero tagged fields, or no bytes in messages of the old form."""
    return b"\x00" if flexible else b""
