"""Bytes of a frame.

    length of the header   uint32, little endian
    checksum               uint32, crc32c of everything behind it
    header                 JSON: version, link, run, source, shard, slices, commits, epoch id, topics, repair, counts …
    columns                as in a commit's file, without Arrow's messages, which follow from the counts
    batches                one after the other

Arrow's schema and row messages would add 1.8 KB to each frame, always the same bytes; on a thin link they would be most
of a lone record's frame. The checksum covers the batches too, so that a control row changed on the way is found.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

import crc32c
from annotated_types import MaxLen
from typing_extensions import Buffer

from fairlead.model.errors import CorruptBatch, Damaged
from fairlead.model.strict_json import AS_ARRAY, Id, JsonForm, Natural, OtherVersion
from fairlead.streamlog.frames.frame import FEATURES, Frame, Repair, topic_from
from fairlead.streamlog.objects import format, layout
from fairlead.streamlog.objects.columns import Columns, RowsOf
from fairlead.streamlog.ranges import Commit, Counter, Name, Number, ShardNumber, SliceMask
from fairlead.streamlog.values import GrantRun

FRAME_VERSION: Final = 2
_START: Final = struct.Struct("<II")
ROWS_AS_COLUMNS_MIN: Final = 32
"""A frame of fewer rows is a list of them: work on columns costs as much as some twenty rows."""
FEATURES_MAX: Final = 100
"""Features, and entries of `ext`, in one header."""


@dataclass(frozen=True, slots=True)
class _Header:
    """What stands in a frame's header, under these names and in this order."""

    link: Id
    run: tuple[Counter, Counter]
    source: Id
    shard: ShardNumber
    slices: SliceMask
    from_: Commit
    to: Commit
    epoch_id: Id
    topics: tuple[tuple[Number, Id, Name], ...]
    repair: Annotated[Repair, AS_ARRAY] | None
    created: Commit | None
    end: Commit
    features: Annotated[tuple[Name, ...], MaxLen(FEATURES_MAX)]
    ext: Annotated[Mapping[Name, Any], MaxLen(FEATURES_MAX)]
    rows: Natural
    batch_bytes: Natural

    def frame(self) -> Frame:
        """The frame without its rows."""
        return Frame(
            self.link,
            GrantRun(*self.run),
            self.source,
            self.shard,
            self.slices,
            self.from_,
            self.to,
            self.epoch_id,
            {topic[0]: topic_from(topic[1:]) for topic in self.topics},
            (),
            self.repair,
            self.created,
            self.end,
            self.features,
            self.ext,
        )


_HEADER: Final = JsonForm(_Header, head={"v": FRAME_VERSION}, unknown="forbid")


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame."""
    if not frame.rows:
        return _encode(frame, 0, b"", [])
    region, _, _ = format.columns_of_rows(frame.rows)
    return _encode(frame, len(frame.rows), region, [row.batch for row in frame.rows])


class EncodedRows(NamedTuple):
    """The part of a frame behind its header, which is the same for every link: the columns of its rows, the batches."""

    rows: int
    region: Buffer
    batches: Sequence[Buffer]


def encode_body(columns: Columns) -> EncodedRows:
    """These rows, whose batches are loaded."""
    if not len(columns):
        return EncodedRows(0, b"", [])
    region, _, _ = format.columns_region(columns)
    return EncodedRows(len(columns), region, columns.runs())


def frame_of(frame: Frame, encoded: EncodedRows) -> bytes:
    """The bytes of `frame` (whose `rows` are not looked at) with these rows."""
    return _encode(frame, *encoded)


def encode_frame_head(frame: Frame, columns: Columns) -> tuple[bytes, Buffer]:
    """Header and columns of a frame with these rows, which stand before its batches; these need not be loaded."""
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
    return _HEADER.write(
        _Header(
            frame.link,
            (frame.run.epoch, frame.run.counter),
            frame.source,
            frame.shard,
            frame.slices,
            frame.from_commit,
            frame.to_commit,
            frame.epoch_id,
            tuple([(number, *topic) for number, topic in frame.topics.items()]),
            frame.repair,
            frame.created,
            frame.end,
            frame.features,
            frame.ext,
            rows,
            batch_bytes,
        )
    )


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
        # No column read needs aligned memory: numpy takes any address.
        columns = format.columns_at(region, places, head.batch_bytes, "frame", 0, data=view[batches:])
    except Damaged as error:
        raise CorruptBatch("frame: the sizes of its batches do not fit") from error
    first, end = (head.from_, head.to) if head.repair is None else (0, head.repair.read_to)
    if head.rows and not first <= columns.commit.min() <= columns.commit.max() < end:
        raise CorruptBatch(f"frame: has rows outside its commits [{first}, {end})")
    return head.frame(), columns


def decode_frame(data: Buffer) -> Frame:
    """The frame in these bytes; its batches are views of them.

    Raises:
        CorruptBatch: the bytes are not those of a frame, or have a version that this program does not know.
    """
    frame, columns = decode_columns(data)
    rows = RowsOf(columns)
    return replace(frame, rows=rows if len(rows) >= ROWS_AS_COLUMNS_MIN else list(rows))


def _peek(view: memoryview) -> tuple[_Header, int]:
    try:
        length, _ = _START.unpack_from(view)
        start = _START.size + length
        if start > view.nbytes:
            raise ValueError("cut short")
        head = _HEADER.read(bytes(view[_START.size : start]))
        if head.from_ > head.to:
            raise ValueError("its commits go backwards")
        unknown = set(head.features).difference(FEATURES)
        if unknown:
            raise CorruptBatch(
                f"frame needs {', '.join(sorted(unknown))}, which this program does not know; upgrade this cluster"
            )
    except OtherVersion as error:
        why = f"of version {error.version!r}; this program knows version {FRAME_VERSION}"
        raise CorruptBatch(f"frame {why}") from error
    except (struct.error, ValueError) as error:
        raise CorruptBatch(f"frame: its header cannot be read ({error})") from error
    expected = (layout.plan(head.rows).batches if head.rows else 0) + head.batch_bytes
    if view.nbytes - start != expected:
        raise CorruptBatch(f"frame: {view.nbytes - start:,} bytes follow its header, {expected:,} were expected")
    return head, start
