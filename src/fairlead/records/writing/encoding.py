"""Rows of one partition → record batches, as a producer would send them, without its id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from fairlead.model.errors import BatchTooLarge
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
from fairlead.protocol.loops.columns import Body, Longs, RecordColumns
from fairlead.protocol.records import compress
from fairlead.records.writing.options import WriteOptions
from fairlead.records.writing.routing import WHO, Group, Routed, check_places, only

BODY_BYTES_MAX: Final = 900_000
"""Of records in a batch, before they are compressed; a single record may be larger."""
UNASKED_BYTES_MAX: Final = 16_384
"""Clients send so much in a batch by default (`batch.size`), and do not ask what its topic takes."""

LimitsOf = Callable[[Collection[str]], Mapping[str, int]]
"""The largest batch that topics take, in bytes, by the names that the main listener gives them; of one that is not in
the answer nothing is known. Raises: TryAgain."""


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


def encoded(found: Routed, codec: int, now_ms: int, limits_of: LimitsOf) -> Iterator[Encoded]:
    """The batches of all rows, those of a partition in the order of its rows, none larger than its topic takes. Rows
    without a time get `now_ms`. What a batch without compression holds is valid until the next one is asked for.

    Raises:
        BatchTooLarge: a record is larger than its topic takes.
        InvalidValue: a column has another type than it must.
    """
    columns = RecordColumns(found.rows, WHO)
    time, offset = _times(found.rows, now_ms), np.arange(found.rows.num_rows, dtype=np.int64)
    room = columns.room()
    large = {each.topic for each in found.groups if columns.bytes_max(each.first, each.until) > UNASKED_BYTES_MAX}
    limits = limits_of(large) if large else {}
    for group in found.groups:
        limit = limits.get(group.topic)
        most = BODY_BYTES_MAX if limit is None else min(BODY_BYTES_MAX, _body_bytes_max(limit))
        for body in columns.bodies(group.first, group.until, time, offset, most, room):
            made = _batch(group, body, codec, time[body.first : body.until])
            if limit is not None and made.size_bytes > limit:
                raise BatchTooLarge(
                    f"a record of {made.size_bytes:,} bytes (as a batch of its own) for topic {group.topic}, which "
                    f"takes {limit:,} (max.message.bytes); nothing of this batch was written"
                )
            yield made


def _body_bytes_max(limit: int) -> int:
    """Of records that are in a batch of at most `limit`, also by a codec that can make them no smaller: it adds some
    bytes for each block of theirs."""
    return max(limit - HEADER_BYTES - 64 - limit // 256, 1)


def _batch(group: Group, body: Body, codec: int, time: Longs) -> Encoded:
    packed, count = compress(codec, body.data), body.until - body.first
    header = BatchHeader(
        base_offset=0,
        length=HEADER_BYTES - LENGTH_END + len(packed),
        leader_epoch=NO_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=int(time[0]),
        max_timestamp=int(time.max()),
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    return Encoded(group.topic, group.partition, count, head_of(header, packed)[1], packed)


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
