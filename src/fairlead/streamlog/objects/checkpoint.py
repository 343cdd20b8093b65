"""Bytes of a checkpoint: named arrays and lists, and a small JSON value; a shortcut past the replay of the log.

    magic      8 bytes, FLCHKPT1
    checksum   uint32, crc32c of everything behind it; little endian, as all numbers here
    length     uint32, of the header
    header     JSON: version, name and commit of the checkpoint, meta, and name, kind, count and byte lengths of each
               table
    tables     one after the other, each padded to 8 bytes

A table is a numpy array (its bytes), or a list of texts or of bytes-or-None (int64 lengths, -1 for None, then the
bytes). What the tables mean is `state.snapshot`'s; a checkpoint that cannot be read is Damaged, and the log can be
replayed instead.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import crc32c
import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from fairlead.model.errors import Damaged
from fairlead.model.strict_json import JsonForm, Natural, OtherVersion
from fairlead.storage.interface import Storage

CHECKPOINT_VERSION: Final = 2
MAGIC: Final = b"FLCHKPT1"
_HEAD: Final = struct.Struct("<8sII")
Table = NDArray[Any] | Sequence[str] | Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class _Header:
    name: str
    commit: Natural
    meta: Any
    tables: tuple[tuple[str, str, Natural, tuple[Natural, ...]], ...]


_HEADER: Final = JsonForm(_Header, head={"version": CHECKPOINT_VERSION})


def write(tables: Mapping[str, Table], meta: Mapping[str, Any], *, name: str = "", commit: int = 0) -> list[Buffer]:
    """The object, as buffers to be stored under `name` one after the other; rows from `commit` on are not in it.

    Raises:
        ValueError: an array of a kind that has no fixed bytes, or a list of anything but texts or bytes.
    """
    described: list[list[Any]] = []
    body: list[Buffer] = []
    for title, table in tables.items():
        kind, buffers = _pack(table)
        lengths = [memoryview(buffer).nbytes for buffer in buffers]
        described.append([title, kind, len(table), lengths])
        for buffer, length in zip(buffers, lengths, strict=True):
            body += (buffer, bytes(-length % 8))
    head = {"version": CHECKPOINT_VERSION, "name": name, "commit": commit, "meta": meta, "tables": described}
    header = json.dumps(head).encode()
    header += b" " * (-(_HEAD.size + len(header)) % 8)
    parts: list[Buffer] = [struct.pack("<I", len(header)), header, *body]
    checksum = 0
    for part in parts:
        checksum = crc32c.crc32c(part, checksum)
    return [_HEAD.pack(MAGIC, checksum, len(header)), header, *body]


def _pack(table: Table) -> tuple[str, list[Buffer]]:
    if isinstance(table, np.ndarray):
        if table.ndim != 1 or table.dtype.hasobject:
            raise ValueError(f"a table of {table.dtype} with {table.ndim} dimensions cannot be stored")
        return table.dtype.str, [np.ascontiguousarray(table).tobytes()]
    if all(isinstance(value, str) for value in table):
        return "text", _pack_list([str(value).encode() for value in table])
    return "bytes", _pack_list([None if value is None else bytes(value) for value in table])  # type: ignore[arg-type]


def _pack_list(values: Sequence[bytes | None]) -> list[Buffer]:
    sizes = np.array([-1 if value is None else len(value) for value in values], np.int64)
    return [sizes.tobytes(), b"".join([value for value in values if value])]


def read(data: Buffer, name: str = "", commit: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables and meta of a checkpoint; arrays are read-only views.

    Raises:
        Damaged: the bytes are not those of the checkpoint of that name and commit, where they are given, or have a
            version that this program does not know.
    """
    view = memoryview(data).cast("B")
    try:
        magic, checksum, length = _HEAD.unpack_from(view)
        if magic != MAGIC:
            raise Damaged(name, "is not a checkpoint")
        if checksum != crc32c.crc32c(view[_HEAD.size - 4 :]):
            raise Damaged(name, "its checksum does not fit")
        header = _HEADER.read(bytes(view[_HEAD.size : _HEAD.size + length]))
        if (name and header.name != name) or (commit is not None and header.commit != commit):
            raise Damaged(name, f"is the checkpoint {header.name} of commit {header.commit:,}")
        return _tables(view[_HEAD.size + length :], header.tables), header.meta
    except OtherVersion as error:
        why = f"checkpoint of version {error.version}; this program reads version {CHECKPOINT_VERSION}"
        raise Damaged(name, why) from error
    except (struct.error, ValueError, TypeError, IndexError) as error:
        raise Damaged(name, f"a checkpoint that cannot be read ({error})") from error


def commit_of(storage: Storage, name: str) -> int:
    """The commit before which a checkpoint says that it stands; its tables are not read.

    Raises:
        Damaged: its header cannot be read.
        Missing: there is no such checkpoint.
    """
    try:
        magic, _, length = _HEAD.unpack(storage.get_range(name, 0, _HEAD.size))
        header = _HEADER.read(storage.get_range(name, _HEAD.size, length))
    except (struct.error, ValueError) as error:
        raise Damaged(name, f"a checkpoint whose header cannot be read ({error})") from error
    if magic != MAGIC:
        raise Damaged(name, "is not a checkpoint")
    return header.commit


def _tables(view: memoryview, described: Sequence[tuple[str, str, int, Sequence[int]]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    place = 0
    for name, kind, count, lengths in described:
        pieces = []
        for length in lengths:
            pieces.append(view[place : place + length])
            place += length + -length % 8
        found[name] = _unpack(kind, count, pieces)
    return found


def _unpack(kind: str, count: int, pieces: list[memoryview]) -> Any:
    if kind not in {"text", "bytes"}:
        return np.frombuffer(pieces[0], np.dtype(kind), count)
    sizes = np.frombuffer(pieces[0], np.int64, count)
    ends = np.cumsum(np.maximum(sizes, 0)).tolist()
    content = bytes(pieces[1])
    values = [None if size < 0 else content[end - size : end] for size, end in zip(sizes.tolist(), ends, strict=True)]
    return [value.decode() for value in values if value is not None] if kind == "text" else values
