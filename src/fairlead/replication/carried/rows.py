"""The rows that Spark carries from the reader to the sink: frames of one destination, or filler.

`address` is the JSON of a `FrameAddress`: what the sink must know to reach the destination, the same text for all
frames of a grant. `frames` are the bytes of some frames one after the other, which nobody opens on the way; a large
frame is alone. For a frame that is `referred` they are the bytes of a `ReferredFrame`, for the sink to read. `contents`
gives for each frame in turn, little endian: length of the frame as sent (int64), its bytes in this row (int64) and
whether it is referred (uint8).

Spark hands a row on only when it has the next one, and its Python process writes only what its buffer cannot hold
(case F9). So a second row, filler, goes with the last ready frame, in the same batch. Its address is empty, and it ends
the batch with more bytes than the buffer holds, which are written at once, with everything before them. The JVM's
buffer has the same size and holds back no row either, since an address alone is longer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import pyarrow as pa
from typing_extensions import Buffer

from fairlead.model.strict_json import JsonForm
from fairlead.replication.carried.buffer import ALIGNMENT_BYTES, FILLER_BYTES_MIN
from fairlead.streamlog.values import GrantRun
from fairlead.wire.apply import ApplyHello
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.messages import read

ARROW_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string()),
        pa.field("contents", pa.binary()),
        pa.field("frames", pa.binary()),
    ]
)
"""What PySpark makes of `spark.format.SPARK_SCHEMA`; PySpark compares the two field by field."""

COPIED_BYTES_MAX = 64 * 1024
"""Up to this size copying is cheaper than wrapping; small frames share a row up to this many bytes."""
_ENTRY = struct.Struct("<qq?")


@dataclass(frozen=True, slots=True)
class FrameAddress:
    """Where the frames of one grant go, and as whose."""

    hello: ApplyHello
    destination: StreamPlace

    @property
    def link(self) -> bytes:
        return self.hello.link

    @property
    def run(self) -> GrantRun:
        return self.hello.run

    @property
    def shard(self) -> int:
        """Of the source."""
        return self.hello.shard

    def to_json(self) -> str:
        """The text that travels in the column `address`."""
        return _ADDRESS.write(self).decode()


_ADDRESS = JsonForm(FrameAddress, unknown="forbid")


@dataclass(frozen=True, slots=True)
class LinkFrame:
    """One frame on its way."""

    address: str
    data: Buffer
    """The encoded frame, or, with `referred`, the bytes that say where it is."""
    size_bytes: int
    """Size of the encoded frame."""
    referred: bool = False


@lru_cache(maxsize=256)
def parse_address(text: str) -> FrameAddress:
    """The inverse of `FrameAddress.to_json`."""
    return read(text, _ADDRESS)


def to_batch(frames: Sequence[LinkFrame], *, last: bool) -> pa.RecordBatch:
    """Frames of one address as an Arrow batch of one row, with filler after it if it is the `last` before a wait.
    Otherwise the bytes of a large frame, which is alone, are not copied."""
    sizes = [memoryview(frame.data).nbytes for frame in frames]
    contents = b"".join(
        _ENTRY.pack(frame.size_bytes, size, frame.referred) for frame, size in zip(frames, sizes, strict=True)
    )
    if not last:
        return _batch([frames[0].address], [contents], _joined(frames, sum(sizes)))
    data = b"".join([frame.data for frame in frames])
    filler = bytes(FILLER_BYTES_MIN + -len(data) % ALIGNMENT_BYTES)
    return _batch([frames[0].address, ""], [contents, b""], pa.array([data, filler], pa.binary()))


@cache
def filler_batch() -> pa.RecordBatch:
    """A row that the sink drops."""
    return _batch([""], [b""], pa.array([bytes(FILLER_BYTES_MIN)], pa.binary()))


def _batch(addresses: list[str], contents: list[bytes], frames: pa.Array) -> pa.RecordBatch:
    columns = [pa.array(addresses, pa.string()), pa.array(contents, pa.binary()), frames]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def _joined(frames: Sequence[LinkFrame], size_bytes: int) -> pa.Array:
    if len(frames) > 1 or size_bytes < COPIED_BYTES_MAX:
        return pa.array([b"".join([frame.data for frame in frames])], pa.binary())
    offsets = pa.array([0, size_bytes], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(frames[0].data)])


def from_batch(batch: pa.RecordBatch) -> list[LinkFrame]:
    """The frames of a batch that came out of Spark, filler left out; their data are views of the batch."""
    rows = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), batch.column(2), strict=True)
    return [
        frame
        for address, contents, frames in rows
        if address
        for frame in _frames(address, contents, memoryview(frames.as_buffer()))
    ]


def _frames(address: str, contents: bytes, frames: memoryview) -> Iterator[LinkFrame]:
    start = 0
    for size_bytes, length, referred in _ENTRY.iter_unpack(contents):
        yield LinkFrame(address, frames[start : start + length], size_bytes, referred)
        start += length
