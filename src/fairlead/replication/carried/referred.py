"""A large frame on its way through Spark: its columns, and where its batches lie. The sink reads them as it sends.

The reader and the sink of a task run on one machine and read the same objects. Bytes that pass through Spark cross
four process borders and are copied a dozen times. So Spark carries only what is to be sent, and the sink reads the
bytes where they lie (`docs/decisions/0011-frames-by-reference.md`). Objects outlive such a reference: merged inputs are
kept for `delete_grace_seconds`. If one is gone nevertheless, the run fails and is granted anew.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from fairlead.replication.carried.objects import OpenObjects, open_directory
from fairlead.spark.packets import Packet
from fairlead.storage.interface import Storage
from fairlead.streamlog.frames.codec import encode_frame_head, sealed, sealed_bytes
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.side_by_side import runs
from fairlead.streamlog.reading.located import LocatedRows, stretches

REFER_BYTES: Final = 256 * 1024
"""Frames of at least this size are referred to; smaller ones are carried whole, for lower latency."""
_READERS: Final = ThreadPoolExecutor(4, "referred")
"""Threads of their own: those of the loop look up names of hosts too, and one that does not answer keeps its thread for
many seconds, so that a few such destinations would hold up all others."""
_LENGTHS: Final = struct.Struct("<III")


@dataclass(frozen=True, slots=True, eq=False)
class ReferredFrame:
    """One frame; the arrays have one value per row."""

    root: str
    """Directory of the objects."""
    names: Sequence[str]
    header: bytes
    region: Buffer
    object: NDArray[np.int32]
    """Place in `names`."""
    position: NDArray[np.int64]
    size: NDArray[np.int64]

    @property
    def size_bytes(self) -> int:
        """Length of the frame as it is sent."""
        return sealed_bytes(self.header, self.region, int(self.size.sum()))

    def pieces(self, storage: Storage) -> list[Buffer]:
        """The frame's bytes, read now.

        Raises:
            Missing: an object was deleted meanwhile.
            Damaged: it is shorter than its columns say.
            StorageUnavailable: it cannot be read.
        """
        return sealed(self.header, self.region, self._batches(storage))

    def _batches(self, storage: Storage) -> list[Buffer]:
        """The batches in order, neighbours as one piece; each stretch of an object is read once."""
        read, of_row, start = stretches(
            lambda place, ranges: storage.get_ranges(self.names[place], ranges),
            self.object,
            self.position,
            self.position + self.size,
        )
        views = [memoryview(stretch) for stretch in read]
        end = start + self.size
        bounds = runs(start, end, apart=of_row[:-1] != of_row[1:])
        firsts, lasts = bounds[:-1], bounds[1:] - 1
        pieces = zip(of_row[firsts].tolist(), start[firsts].tolist(), end[lasts].tolist(), strict=True)
        return [views[stretch][low:high] for stretch, low, high in pieces]

    def to_bytes(self) -> bytes:
        """As Spark carries it."""
        named = json.dumps([self.root, list(self.names)]).encode()
        start = _LENGTHS.pack(len(named), len(self.header), len(self.size))
        arrays = [self.object.astype("<i4"), self.position.astype("<i8"), self.size.astype("<i8")]
        return b"".join([start, named, self.header, *(array.tobytes() for array in arrays), self.region])


def refer(root: str, frame: Frame, located: LocatedRows) -> ReferredFrame:
    """The frame of these rows. `frame.rows` are not looked at."""
    used, object = np.unique(located.object, return_inverse=True)
    columns: Columns = located.columns
    header, region = encode_frame_head(frame, columns)
    return ReferredFrame(
        root,
        [located.objects[place].name for place in used.tolist()],
        header,
        region,
        object.astype(np.int32),
        columns.position,
        columns.size.astype(np.int64),
    )


async def pieces_of(frame: Packet, open_objects: OpenObjects = open_directory) -> list[Buffer]:
    """The bytes of a frame; read in a thread if the frame is referred to. Raises what `ReferredFrame.pieces` raises."""
    if not frame.referred:
        return [frame.data]
    referred = referred_frame(frame.data)
    reading = partial(_pieces, referred, open_objects)
    return await asyncio.get_running_loop().run_in_executor(_READERS, reading)


def _pieces(referred: ReferredFrame, open_objects: OpenObjects) -> list[Buffer]:
    return referred.pieces(open_objects(referred.root))


def referred_frame(data: Buffer) -> ReferredFrame:
    """The inverse of `ReferredFrame.to_bytes`; arrays are views of the bytes."""
    view = memoryview(data)
    named, header, rows = _LENGTHS.unpack_from(view)
    places = np.cumsum([_LENGTHS.size, named, header, 4 * rows, 8 * rows, 8 * rows]).tolist()
    root, names = json.loads(bytes(view[places[0] : places[1]]))
    return ReferredFrame(
        root,
        names,
        bytes(view[places[1] : places[2]]),
        view[places[5] :],
        np.frombuffer(view, "<i4", rows, places[2]),
        np.frombuffer(view, "<i8", rows, places[3]),
        np.frombuffer(view, "<i8", rows, places[4]),
    )
