"""Bytes of a frame.

    length of the header   uint32, little endian
    checksum               uint32, crc32c of everything behind it
    header                 JSON: version, link, run, source, shard, slice, commits, epoch id, topics, repair, counts
    columns                as in a commit's file, without Arrow's messages, which follow from the counts
    batches                one after the other

Arrow's schema and row messages would be 1.8 KB a frame, the same in each; on a thin link a lone record's frame is then
mostly those. The checksum covers the batches too, so that a control row that was changed on the way is found.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import crc32c
from typing_extensions import Buffer

from fairlead.model.errors import CorruptBatch, Damaged
from fairlead.model.names import SLICES
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.objects import format, layout
from fairlead.streamlog.objects.format import Columns
from fairlead.streamlog.values import GrantRun

FRAME_VERSION: Final = 1
_START: Final = struct.Struct("<II")


class _Head(NamedTuple):
    """What the header of a frame says; `frame` has no rows."""

    frame: Frame
    rows: int
    batch_bytes: int


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame."""
    if not frame.rows:
        return _encode(frame, 0, b"", [])
    region, _, _ = format.columns_of_rows(frame.rows)
    return _encode(frame, len(frame.rows), region, [row.batch for row in frame.rows])


def encode_frame_columns(frame: Frame, columns: Columns) -> bytes:
    """The bytes of `frame` (whose `rows` are not looked at) with these rows, whose batches are loaded."""
    if not len(columns):
        return _encode(frame, 0, b"", [])
    return b"".join(sealed(*encode_frame_head(frame, columns), columns.runs()))


def encode_frame_head(frame: Frame, columns: Columns) -> tuple[bytes, Buffer]:
    """What stands before the batches of a frame with these rows, whose batches need not be loaded: header, columns."""
    region, _, _ = format.columns_region(columns)
    return _header(frame, len(columns), columns.batch_bytes()), region


def sealed(header: bytes, region: Buffer, batches: Sequence[Buffer]) -> list[Buffer]:
    """A frame's bytes, in pieces, from what `encode_frame_head` made and its batches."""
    checksum = format.checksum_of([header, region, *batches])
    return [_START.pack(len(header), checksum) + header, region, *batches]


def sealed_bytes(header: bytes, region: Buffer, batch_bytes: int) -> int:
    """Length of the frame that `sealed` makes."""
    return _START.size + len(header) + memoryview(region).nbytes + batch_bytes


def _encode(frame: Frame, rows: int, region: Buffer, batches: Sequence[Buffer]) -> bytes:
    size = sum(memoryview(batch).nbytes for batch in batches)
    return b"".join(sealed(_header(frame, rows, size), region, batches))


def _header(frame: Frame, rows: int, batch_bytes: int) -> bytes:
    return json.dumps(_header_fields(frame, rows, batch_bytes), separators=(",", ":")).encode()


def _header_fields(frame: Frame, rows: int, batch_bytes: int) -> dict[str, Any]:
    repair = frame.repair
    return {
        "v": FRAME_VERSION,
        "link": frame.link.hex(),
        "run": [frame.run.epoch, frame.run.counter],
        "source": frame.source.hex(),
        "shard": frame.shard,
        "slice": frame.slice,
        "from": frame.from_commit,
        "to": frame.to_commit,
        "epoch_id": frame.epoch_id.hex(),
        "topics": [[number, topic.incarnation.hex(), topic.name] for number, topic in frame.topics.items()],
        "repair": None
        if repair is None
        else [repair.number, repair.partition, repair.read_to, repair.last, repair.end],
        "created_at": frame.link_created_at,
        "rows": rows,
        "batch_bytes": batch_bytes,
    }


def decode_columns(data: Buffer) -> tuple[Frame, Columns]:
    """A frame without its rows, and the rows as columns with their batches; nothing is copied. Raises: CorruptBatch."""
    view = memoryview(data).cast("B")
    head, start = _peek(view)
    if crc32c.crc32c(view[_START.size :]) != _START.unpack_from(view)[1]:
        raise CorruptBatch("frame: its checksum does not fit")
    places = layout.plan(head.rows)
    batches = start + (places.batches if head.rows else 0)
    region = view[start:batches] if head.rows else memoryview(bytes(places.batches))
    try:
        # Column reads need aligned memory nowhere: numpy takes any address.
        columns = format.columns_at(region, places, head.batch_bytes, "frame", 0, data=view[batches:])
    except Damaged as error:
        raise CorruptBatch("frame: the sizes of its batches do not fit") from error
    return head.frame, columns


def decode_frame(data: Buffer) -> Frame:
    """The frame in these bytes; its batches are views of them.

    Raises:
        CorruptBatch: the bytes are not those of a frame, or of a version that this program does not know.
    """
    frame, columns = decode_columns(data)
    return replace(frame, rows=list(columns.rows()))


def _peek(view: memoryview) -> tuple[_Head, int]:
    try:
        length, _ = _START.unpack_from(view)
        start = _START.size + length
        if start > view.nbytes:
            raise ValueError("cut short")
        head = _head(json.loads(bytes(view[_START.size : start])))
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptBatch(f"frame: its header cannot be read ({error})") from error
    expected = (layout.plan(head.rows).batches if head.rows else 0) + head.batch_bytes
    if view.nbytes - start != expected:
        raise CorruptBatch(f"frame: {view.nbytes - start:,} bytes follow its header, {expected:,} were expected")
    return head, start


def _head(fields: Mapping[str, Any]) -> _Head:
    if fields["v"] != FRAME_VERSION:
        raise CorruptBatch(f"frame of version {fields['v']!r}; this program knows version {FRAME_VERSION}")
    epoch, counter = fields["run"]
    frame = Frame(
        link=_id(fields["link"]),
        run=GrantRun(_natural(epoch), _natural(counter)),
        source=_id(fields["source"]),
        shard=_natural(fields["shard"]),
        slice=_natural(fields["slice"]),
        from_commit=_natural(fields["from"]),
        to_commit=_natural(fields["to"]),
        epoch_id=_id(fields["epoch_id"]),
        topics={_natural(number): FrameTopic(_id(id), _text(name)) for number, id, name in fields["topics"]},
        rows=(),
        repair=_repair(fields["repair"]),
        link_created_at=None if fields["created_at"] is None else _natural(fields["created_at"]),
    )
    if frame.slice >= SLICES or frame.from_commit > frame.to_commit:
        raise ValueError("slice or commits out of range")
    return _Head(frame, _natural(fields["rows"]), _natural(fields["batch_bytes"]))


def _repair(fields: Any) -> Repair | None:
    if fields is None:
        return None
    number, partition, read_to, last, end = fields
    if type(last) is not bool:
        raise ValueError(f"{last!r} is not true or false")
    return Repair(_natural(number), _natural(partition), _natural(read_to), last, _natural(end))


def _id(value: Any) -> bytes:
    id = bytes.fromhex(_text(value))
    if len(id) != 16:
        raise ValueError(f"{value!r} is not an id of 16 bytes")
    return id


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r} is not a text")
    return value


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number from 0 on")
    return value
