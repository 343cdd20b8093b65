"""The rows that Spark carries from the reader to the sink: a frame each, or filler.

`address` is the JSON of an `Address`: what the sink must know to reach the destination, the same text for all frames of
a grant. `frame` is the frame's bytes, which nobody opens on the way, or with `referred` those of a `ReferredFrame`, for
the sink to read; `size` is the length of the frame as it is sent, in bytes. Filler rows have an empty address: Spark
hands a row on only when later bytes push it, so the source sends two of them after its last ready frame
(why-the-rules, F9).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from typing_extensions import Buffer

from fairlead.gateway.messages import ApplyHello, Place
from fairlead.gateway.wire_json import from_object, to_object
from fairlead.streamlog.values import Run

ARROW_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string()),
        pa.field("shard", pa.int32()),
        pa.field("slice", pa.int32()),
        pa.field("size", pa.int64()),
        pa.field("referred", pa.bool_()),
        pa.field("frame", pa.binary()),
    ]
)
"""What PySpark makes of `link_format.SPARK_SCHEMA`; it compares them field by field."""

_COPIED_BYTES_MAX = 64 * 1024
"""Below it copying is cheaper than wrapping."""
FILLERS = 2
FILLER_BYTES = 4096


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
    slice: int
    data: Buffer
    """The encoded frame, or with `referred` what says where it is."""
    size_bytes: int
    """Of the encoded frame."""
    referred: bool = False


@lru_cache(maxsize=256)
def parse_address(text: str) -> Address:
    """The inverse of `Address.to_json`."""
    return from_object(Address, json.loads(text))


def to_batch(frame: LinkFrame) -> pa.RecordBatch:
    """The frame as an Arrow batch of one row; the bytes of a large one are not copied."""
    column = _column(frame)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([frame.address], pa.string()),
            pa.array([frame.shard], pa.int32()),
            pa.array([frame.slice], pa.int32()),
            pa.array([frame.size_bytes], pa.int64()),
            pa.array([frame.referred], pa.bool_()),
            column,
        ],
        schema=ARROW_SCHEMA,
    )


def _column(frame: LinkFrame) -> pa.Array:
    size_bytes = memoryview(frame.data).nbytes
    if size_bytes < _COPIED_BYTES_MAX:
        return pa.array([frame.data], pa.binary())
    offsets = pa.array([0, size_bytes], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(frame.data)])


def filler_batch() -> pa.RecordBatch:
    """A row that the sink drops."""
    return to_batch(LinkFrame("", 0, 0, bytes(FILLER_BYTES), FILLER_BYTES))


def from_batch(batch: pa.RecordBatch) -> list[LinkFrame]:
    """The frames of a batch that came out of Spark, fillers left out; their data are views of the batch."""
    names = ("address", "shard", "slice", "size", "referred")
    rows = zip(*(batch.column(name).to_pylist() for name in names), batch.column("frame"), strict=True)
    return [
        LinkFrame(address, shard, slice_, memoryview(frame.as_buffer()), size_bytes, referred)
        for address, shard, slice_, size_bytes, referred, frame in rows
        if address
    ]
