"""The rows that Spark carries from the reader to the sink: frames of one destination, or filler.

`address` is the JSON of an `Address`: what the sink must know to reach the destination, the same text for all frames of
a grant. `frames` are the bytes of some frames one after the other, which nobody opens on the way, a large one by
itself; where one is `referred`, those of a `ReferredFrame`, for the sink to read. `contents` says of each frame in turn
shard (int32), length of the frame as it is sent (int64), its bytes in this row (int64) and whether it is
referred (uint8), little endian. Filler rows have an empty address: Spark hands a row on only when later bytes push it,
so the source sends two of them after its last ready frame (why-the-rules, F9).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import pyarrow as pa
from typing_extensions import Buffer

from fairlead.gateway.messages import ApplyHello, Place
from fairlead.gateway.wire_json import from_object, to_object
from fairlead.streamlog.values import Run

ARROW_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string()),
        pa.field("contents", pa.binary()),
        pa.field("frames", pa.binary()),
    ]
)
"""What PySpark makes of `link_format.SPARK_SCHEMA`; it compares them field by field."""

COPIED_BYTES_MAX = 64 * 1024
"""Below it copying is cheaper than wrapping; so many bytes of small frames share a row."""
_ENTRY = struct.Struct("<iqq?")
FILLERS = 2
FILLER_BYTES = 66_000
"""More than a segment of TCP on the loopback interface: a full one is sent at once, less waits until what was sent
before is acknowledged, up to 40 ms. Spark sets no TCP_NODELAY on the sockets of its Python processes."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the frames of one grant go, and as whose."""

    hello: ApplyHello
    destination: Place

    @property
    def link(self) -> bytes:
        return self.hello.link

    @property
    def run(self) -> Run:
        return self.hello.run

    def to_json(self) -> str:
        """The text that travels in the column `address`."""
        return json.dumps(to_object(self), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class LinkFrame:
    """One frame on its way."""

    address: str
    shard: int
    data: Buffer
    """The encoded frame, or with `referred` what says where it is."""
    size_bytes: int
    """Of the encoded frame."""
    referred: bool = False


@lru_cache(maxsize=256)
def parse_address(text: str) -> Address:
    """The inverse of `Address.to_json`."""
    return from_object(Address, json.loads(text))


def to_batch(frames: Sequence[LinkFrame]) -> pa.RecordBatch:
    """Frames of one address as an Arrow batch of one row; the bytes of a large one, which is alone, are not copied."""
    sizes = [memoryview(frame.data).nbytes for frame in frames]
    contents = b"".join(
        _ENTRY.pack(frame.shard, frame.size_bytes, size, frame.referred)
        for frame, size in zip(frames, sizes, strict=True)
    )
    return _batch(frames[0].address, contents, _joined(frames, sum(sizes)))


def _batch(address: str, contents: bytes, frames: pa.Array) -> pa.RecordBatch:
    columns = [pa.array([address], pa.string()), pa.array([contents], pa.binary()), frames]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def _joined(frames: Sequence[LinkFrame], size_bytes: int) -> pa.Array:
    if len(frames) > 1 or size_bytes < COPIED_BYTES_MAX:
        return pa.array([b"".join([frame.data for frame in frames])], pa.binary())
    offsets = pa.array([0, size_bytes], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(frames[0].data)])


@cache
def filler_batch() -> pa.RecordBatch:
    """A row that the sink drops."""
    return _batch("", b"", pa.array([bytes(FILLER_BYTES)], pa.binary()))


def from_batch(batch: pa.RecordBatch) -> list[LinkFrame]:
    """The frames of a batch that came out of Spark, fillers left out; their data are views of the batch."""
    rows = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), batch.column(2), strict=True)
    return [
        frame
        for address, contents, frames in rows
        if address
        for frame in _frames(address, contents, memoryview(frames.as_buffer()))
    ]


def _frames(address: str, contents: bytes, frames: memoryview) -> Iterator[LinkFrame]:
    start = 0
    for shard, size_bytes, length, referred in _ENTRY.iter_unpack(contents):
        yield LinkFrame(address, shard, frames[start : start + length], size_bytes, referred)
        start += length
