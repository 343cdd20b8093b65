"""Where each byte of an Arrow file or stream of rows lies, so that both are written and read without building objects.

The schema is fixed, so everything in an Arrow IPC file except its numbers is fixed too. pyarrow writes one sample at
import; its flatbuffers are kept as templates, into which a file's own numbers are set. Any Arrow reader opens the
result (the tests do it with pyarrow), and a file that differs in one byte from what its numbers imply is damaged.

    stream  schema message · row message · columns · batches · padding · end mark
    file    ARROW1 00 00 · the same as a stream · footer · its length · ARROW1

Layout of flatbuffers: https://flatbuffers.dev/internals; of messages: Arrow's format/Message.fbs, File.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.streamlog.rows import FORMAT_VERSION, ROW_SCHEMA

MAGIC: Final = b"ARROW1"
FILE_START: Final = MAGIC + b"\0\0"
END_MARK: Final = b"\xff\xff\xff\xff\0\0\0\0"
TAIL_LENGTH: Final = 10
"""Length of the footer (4 bytes) and the magic behind it."""
COLUMN_NAMES: Final = tuple(ROW_SCHEMA.names)
NULLABLE: Final = tuple(name for name in COLUMN_NAMES if ROW_SCHEMA.field(name).nullable)
ID = np.dtype("V16")
DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    field.name: ID if field.nullable else np.dtype(field.type.to_pandas_dtype())
    for field in ROW_SCHEMA
    if field.name != "batch"
}
_META_PREFIX: Final = "fairlead."
_WIDTHS: Final = {
    "version": 4,
    "kind": 8,
    "rows": 12,
    "batch_bytes": 20,
    "first": 20,
    "end": 20,
    "known": 20,
    "epoch_id": 32,
    "checksum": 8,
    "control": 8,
    "name": 128,
}
META_KEYS: Final = tuple(_WIDTHS)


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """One column's place among the columns: bytes [validity, …) and [values, values + length), from their start."""

    name: str
    validity: int
    values: int
    length: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Places of all columns for a number of rows, counted from the start of the columns."""

    rows: int
    parts: tuple[ColumnPlace, ...]
    offsets: int
    """Place of the rows + 1 int64 places of the batches."""
    batches: int
    """Place of the first batch, which is the length of all columns."""


def padded(length: int) -> int:
    """The next multiple of 8."""
    return (length + 7) & ~7


@lru_cache(maxsize=1024)
def plan(rows: int) -> Plan:
    """Where the columns lie."""
    place = 0
    parts = []
    for name, dtype in DTYPES.items():
        validity = place
        if name in NULLABLE:
            place += padded((rows + 7) // 8)
        parts.append(ColumnPlace(name, validity, place, rows * dtype.itemsize))
        place += padded(rows * dtype.itemsize)
    return Plan(rows, tuple(parts), place, place + padded(8 * (rows + 1)))


@dataclass(frozen=True, slots=True)
class FileMeta:
    """What the footer of a file says of it."""

    kind: str
    rows: int
    batch_bytes: int
    first: int
    end: int
    checksum: int
    """crc32c of everything before the first batch, followed by the other values here, the name among them."""
    control: int
    """crc32c of the payloads of all control rows, one after the other."""
    name: str = ""
    """Name of the object, which says its log, its kind and its numbers."""
    epoch_id: bytes = b""
    """Random id of the writer epoch of a commit; empty in a segment, whose name is random."""
    known: int = 0
    """All commits below this one were known to be durable when the object was put."""

    def described(self) -> bytes:
        """What the checksum covers besides the file's head."""
        numbers = f"{self.kind} {self.rows} {self.batch_bytes} {self.first} {self.end} {self.known} {self.control}"
        return f"{numbers} {self.epoch_id.hex()} {self.name}".encode()

    def values(self) -> tuple[str, ...]:
        """The texts behind `META_KEYS`, each of fixed width. Raises: ValueError, the name is too long."""
        numbers = (self.rows, self.batch_bytes, self.first, self.end, self.known)
        sums = (f"{self.checksum:08x}", f"{self.control:08x}")
        texts = (FORMAT_VERSION, self.kind, *numbers, self.epoch_id.hex(), *sums, self.name)
        if not self.name.isascii() or len(self.name) > _WIDTHS["name"]:
            raise ValueError(f"{self.name}: an object's name has at most {_WIDTHS['name']} characters, all ASCII")
        return tuple(str(text).ljust(width) for text, width in zip(texts, _WIDTHS.values(), strict=True))


class _Flat:
    """A flatbuffer, to find places in."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self.data = data
        self.root = self.follow(start)

    def _u32(self, place: int) -> int:
        return int(struct.unpack_from("<I", self.data, place)[0])

    def follow(self, place: int) -> int:
        """Where the reference at `place` leads."""
        return place + self._u32(place)

    def field(self, table: int, number: int) -> int:
        """Place of a table's field; raises KeyError if it is not there."""
        vtable = table - int(struct.unpack_from("<i", self.data, table)[0])
        size = int(struct.unpack_from("<H", self.data, vtable)[0])
        place = 4 + 2 * number
        offset = int(struct.unpack_from("<H", self.data, vtable + place)[0]) if place < size else 0
        if offset == 0:
            raise KeyError(number)
        return table + offset

    def vector(self, table: int, number: int) -> tuple[int, int]:
        """Place of the first element, and how many there are."""
        place = self.follow(self.field(table, number))
        return place + 4, self._u32(place)

    def pairs(self, table: int, number: int) -> Iterator[tuple[bytes, int, int]]:
        """Key, place and length of each text of a custom_metadata field."""
        place, count = self.vector(table, number)
        for at in range(place, place + 4 * count, 4):
            pair = self.follow(at)
            key = self.follow(self.field(pair, 0))
            value = self.follow(self.field(pair, 1))
            yield self.data[key + 4 : key + 4 + self._u32(key)], value + 4, self._u32(value)


def _sample() -> pa.RecordBatch:
    """One row: nulls, ones, and a batch of eight bytes. Of its parts, since `pyarrow.array` imports pandas, which takes
    a fifth of a second, and nothing else of a server needs it."""
    columns = [pa.Array.from_buffers(field.type, 1, _buffers(field)) for field in ROW_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA)


def _buffers(field: pa.Field) -> list[pa.Buffer | None]:
    if field.nullable:
        return [pa.py_buffer(b"\0"), pa.py_buffer(bytes(ID.itemsize))]
    if field.name == "batch":
        return [None, pa.py_buffer(struct.pack("<2q", 0, 8)), pa.py_buffer(b"12345678")]
    return [None, pa.py_buffer(DTYPES[field.name].type(1).tobytes())]


class _MessageTemplate:
    """The row message: lengths, null counts and buffer places are set into a copy of pyarrow's own."""

    def __init__(self) -> None:
        whole = _sample().serialize().to_pybytes()
        self._template = whole[: 8 + int(struct.unpack_from("<i", whole, 4)[0])]
        self.length = len(self._template)
        flat = _Flat(self._template, 8)
        header = flat.follow(flat.field(flat.root, 2))
        self._body = flat.field(flat.root, 3)
        self._rows = flat.field(header, 0)
        self._nodes, nodes = flat.vector(header, 1)
        self._buffers, buffers = flat.vector(header, 2)
        if (nodes, buffers) != (len(COLUMN_NAMES), 2 * len(COLUMN_NAMES) + 1):
            raise ImportError(f"pyarrow {pa.__version__} lays out rows in another way than expected")

    def fill(self, places: Plan, nulls: Sequence[int], batch_bytes: int) -> bytes:
        """The message for these columns; `nulls` are the null counts of `NULLABLE`."""
        filled = bytearray(self._template)
        rows = places.rows
        struct.pack_into("<q", filled, self._body, padded(places.batches + batch_bytes))
        struct.pack_into("<q", filled, self._rows, rows)
        counts = dict(zip(NULLABLE, nulls, strict=True))
        nodes = [number for name in COLUMN_NAMES for number in (rows, counts.get(name, 0))]
        struct.pack_into(f"<{len(nodes)}q", filled, self._nodes, *nodes)
        buffers: list[int] = []
        for part in places.parts:
            buffers += (part.validity, (rows + 7) // 8 if part.name in NULLABLE else 0, part.values, part.length)
        buffers += (places.offsets, 0, places.offsets, 8 * (rows + 1), places.batches, batch_bytes)
        struct.pack_into(f"<{len(buffers)}q", filled, self._buffers, *buffers)
        return bytes(filled)


class _FooterTemplate:
    """The footer: its block and the texts of `FileMeta` are set into a copy of pyarrow's own."""

    def __init__(self) -> None:
        empty = FileMeta("", 0, 0, 0, 0, 0, 0)
        texts = {_META_PREFIX + key: text for key, text in zip(META_KEYS, empty.values(), strict=True)}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, ROW_SCHEMA, metadata=texts) as writer:
            writer.write_batch(_sample())
        whole = sink.getvalue().to_pybytes()
        length = int(struct.unpack_from("<i", whole, len(whole) - TAIL_LENGTH)[0])
        self._template = whole[-TAIL_LENGTH - length :]
        self.length = len(self._template)
        flat = _Flat(self._template)
        self._block, blocks = flat.vector(flat.root, 3)
        places = {key.decode(): place for key, place, _ in flat.pairs(flat.root, 4)}
        self._places = [places[_META_PREFIX + key] for key in META_KEYS]
        if blocks != 1:
            raise ImportError(f"pyarrow {pa.__version__} writes another footer than expected")

    def fill(self, meta: FileMeta) -> bytes:
        """The footer with its length and the magic behind it."""
        filled = bytearray(self._template)
        body = padded(plan(meta.rows).batches + meta.batch_bytes)
        struct.pack_into("<qiiq", filled, self._block, len(FILE_START) + len(SCHEMA_MESSAGE), MESSAGE.length, 0, body)
        for place, text in zip(self._places, meta.values(), strict=True):
            filled[place : place + len(text)] = text.encode()
        return bytes(filled)

    def texts(self, footer: bytes) -> dict[str, str]:
        """The texts of a footer that `fill` made, by key. For another footer they mean nothing: compare with `fill`'s.

        Raises:
            ValueError: `fill` did not make it.
        """
        parts = [footer[place : place + width] for place, width in zip(self._places, _WIDTHS.values(), strict=True)]
        return {key: part.decode().rstrip() for key, part in zip(META_KEYS, parts, strict=True)}


SCHEMA_MESSAGE: Final = ROW_SCHEMA.serialize().to_pybytes()
MESSAGE: Final = _MessageTemplate()
FOOTER: Final = _FooterTemplate()
FILE_HEAD: Final = FILE_START + SCHEMA_MESSAGE
COLUMNS_START: Final = len(FILE_HEAD) + MESSAGE.length
"""Place of the first column in a file."""


def footer_texts(footer: bytes) -> dict[str, str]:
    """The texts of a footer (with its tail) by key, whatever version wrote it.

    Raises:
        ValueError: this is not a footer of ours.
    """
    try:
        flat = _Flat(footer)
        found = {key.decode(): footer[at : at + size].decode().rstrip() for key, at, size in flat.pairs(flat.root, 4)}
    except (struct.error, KeyError, UnicodeDecodeError, IndexError) as error:
        raise ValueError("the footer is not readable") from error
    return {key.removeprefix(_META_PREFIX): text for key, text in found.items() if key.startswith(_META_PREFIX)}


def file_size(rows: int, batch_bytes: int) -> int:
    """Length in bytes of a file with this many rows and bytes of batches."""
    return COLUMNS_START + padded(plan(rows).batches + batch_bytes) + len(END_MARK) + FOOTER.length


def arrays(data: memoryview, places: Plan) -> dict[str, NDArray[Any]]:
    """Views by name: of the columns, of their validity bits as `<name>_set`, of the batches' places as `offsets`."""
    found: dict[str, NDArray[Any]] = {}
    for part in places.parts:
        found[part.name] = np.frombuffer(data, DTYPES[part.name], places.rows, part.values)
        if part.name in NULLABLE:
            bits = np.frombuffer(data, np.uint8, (places.rows + 7) // 8, part.validity)
            found[part.name + "_set"] = np.unpackbits(bits, count=places.rows, bitorder="little").view(np.bool_)
    found["offsets"] = np.frombuffer(data, np.int64, places.rows + 1, places.offsets)
    return found
