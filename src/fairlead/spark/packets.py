"""The rows that Spark carries from the reader to the sink of a task: some packets of one address, or filler.

`address` is a text that says where a packet belongs, the same for many. `frames` are the bytes of some packets, one
after the other, which nobody opens on the way; a large one is alone. For a packet that is `referred` they say where its
bytes are, for the sink to read; for one that is `beside` they say which socket its bytes come from. `contents` gives
for each packet in turn, little endian: its size (int64), its bytes in this row (int64), whether it is referred and
whether it is beside (uint8 each).

Spark hands a row on only when it has the next one, and its Python process writes only what its buffer cannot hold
(case F9). So a second row, filler, goes with the last ready packet, in the same batch. Its address is empty, and it
ends the batch with more bytes than the buffer holds, which are written at once, with everything before them. The JVM's
buffer has the same size and holds back no row either, so an address must be longer than that by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from typing_extensions import Buffer

from fairlead.spark.buffer import ALIGNMENT_BYTES, FILLER_BYTES_MIN

ARROW_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string()),
        pa.field("contents", pa.binary()),
        pa.field("frames", pa.binary()),
    ]
)
"""What PySpark makes of `SPARK_SCHEMA` of `schema`; PySpark compares the two field by field."""

COPIED_BYTES_MAX = 64 * 1024
"""Up to this size copying is cheaper than wrapping; small frames share a row up to this many bytes."""
_ENTRY = struct.Struct("<qq??")


@dataclass(frozen=True, slots=True)
class Packet:
    """Something on its way."""

    address: str
    data: Buffer
    """Its bytes, or, with `referred` or `beside`, those that say where they are."""
    size_bytes: int
    """Size of what it stands for."""
    referred: bool = False
    beside: bool = False
    """Whether its bytes come by another way, see `beside`."""


def to_batch(packets: Sequence[Packet], *, last: bool) -> pa.RecordBatch:
    """Packets of one address as an Arrow batch of one row, with filler after it if it is the `last` before a wait.
    Otherwise the bytes of a large packet, which is alone, are not copied."""
    sizes = [memoryview(packet.data).nbytes for packet in packets]
    contents = b"".join(
        _ENTRY.pack(packet.size_bytes, size, packet.referred, packet.beside)
        for packet, size in zip(packets, sizes, strict=True)
    )
    if not last:
        return _batch([packets[0].address], [contents], _joined(packets, sum(sizes)))
    data = b"".join([packet.data for packet in packets])
    filler = bytes(FILLER_BYTES_MIN + -len(data) % ALIGNMENT_BYTES)
    return _batch([packets[0].address, ""], [contents, b""], pa.array([data, filler], pa.binary()))


@cache
def filler_batch() -> pa.RecordBatch:
    """A row that the sink drops."""
    return _batch([""], [b""], pa.array([bytes(FILLER_BYTES_MIN)], pa.binary()))


def _batch(addresses: list[str], contents: list[bytes], frames: pa.Array) -> pa.RecordBatch:
    columns = [pa.array(addresses, pa.string()), pa.array(contents, pa.binary()), frames]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def _joined(packets: Sequence[Packet], size_bytes: int) -> pa.Array:
    if len(packets) > 1 or size_bytes < COPIED_BYTES_MAX:
        return pa.array([b"".join([packet.data for packet in packets])], pa.binary())
    offsets = pa.array([0, size_bytes], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(packets[0].data)])


def from_batch(batch: pa.RecordBatch) -> list[Packet]:
    """The packets of a batch that came out of Spark, filler left out; their data are views of the batch."""
    rows = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), batch.column(2), strict=True)
    return [
        packet
        for address, contents, frames in rows
        if address
        for packet in _packets(address, contents, memoryview(frames.as_buffer()))
    ]


def _packets(address: str, contents: bytes, frames: memoryview) -> Iterator[Packet]:
    start = 0
    for size_bytes, length, referred, beside in _ENTRY.iter_unpack(contents):
        yield Packet(address, frames[start : start + length], size_bytes, referred, beside)
        start += length
