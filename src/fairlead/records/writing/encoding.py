"""Rows of one partition → record batches, as a producer would send them, without its id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from fairlead.protocol.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    BatchHeader,
    head_of,
)
from fairlead.protocol.loops.columns import Longs, RecordColumns
from fairlead.protocol.records import compress
from fairlead.records.writing.options import WriteOptions
from fairlead.records.writing.routing import WHO, Routed, check_places, only

BODY_BYTES_MAX: Final = 900_000
"""Of records in a batch, before they are compressed; a single record may be larger."""


class Encoded(NamedTuple):
    """A record batch for a partition."""

    topic: str
    partition: int
    records: int
    head: bytes
    body: bytes | memoryview

    @property
    def size_bytes(self) -> int:
        """Of the batch."""
        return len(self.head) + len(self.body)


def check_types(schema: pa.Schema, options: WriteOptions) -> None:
    """Check that rows of these types can be written, as far as that does not depend on what they hold.

    Raises:
        InvalidValue: a column has another type than it must.
    """
    nothing = pa.RecordBatch.from_pylist([], schema)
    check_places(nothing, options)
    RecordColumns(nothing, WHO)
    _times(nothing, 0)


def encoded(found: Routed, codec: int, now_ms: int) -> Iterator[Encoded]:
    """The batches of all rows, those of a partition in the order of its rows. Rows without a time get `now_ms`. What a
    batch without compression holds is valid until the next one is asked for.

    Raises:
        InvalidValue: a column has another type than it must.
    """
    columns = RecordColumns(found.rows, WHO)
    time, offset = _times(found.rows, now_ms), np.arange(found.rows.num_rows, dtype=np.int64)
    room = columns.room()
    for group in found.groups:
        for body in columns.bodies(group.first, group.until, time, offset, BODY_BYTES_MAX, room):
            packed = compress(codec, body.data)
            count, times = body.until - body.first, time[body.first : body.until]
            header = BatchHeader(
                base_offset=0,
                length=HEADER_BYTES - LENGTH_END + len(packed),
                leader_epoch=NO_EPOCH,
                magic=MAGIC,
                crc=0,
                attributes=codec,
                last_offset_delta=count - 1,
                base_timestamp=int(times[0]),
                max_timestamp=int(times.max()),
                producer_id=NO_PRODUCER,
                producer_epoch=-1,
                base_sequence=NO_SEQUENCE,
                record_count=count,
            )
            yield Encoded(group.topic, group.partition, count, head_of(header, packed)[1], packed)


def _times(rows: pa.RecordBatch, now_ms: int) -> Longs:
    """Milliseconds of each record. Raises: InvalidValue."""
    if "timestamp" not in rows.schema.names:
        return np.full(rows.num_rows, now_ms, np.int64)
    column = only(rows, "timestamp", pa.timestamp("us", tz="UTC"), _is_moment).cast(pa.int64())
    there = column.is_valid().to_numpy(zero_copy_only=False)
    milliseconds = column.fill_null(0).to_numpy(zero_copy_only=False) // 1000
    return np.ascontiguousarray(np.where(there, milliseconds, now_ms))


def _is_moment(kind: pa.DataType) -> bool:
    """A time without a zone is one only where one knows whose clock is meant."""
    return bool(pa.types.is_timestamp(kind)) and kind.tz is not None
