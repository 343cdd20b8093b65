"""Batches whose records a function of the user changes or leaves out: decoded to Arrow, handed to it, encoded again.

The function gets and gives record batches of Arrow with the columns of `COLUMNS`. What it gives must have `value`; if
`key`, `timestamp` or `headers` are missing, records have no key, the time of the newest record, and no headers. It may
keep `offset`, which says of which record each one was made. Where it does not, or sorts them, all that one call has
made belongs to all that it was given: a position stands before it or behind it, never within. `topic` and `partition`
say where records come from; where they go is not the function's choice. It may not give more records than there were
offsets.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from fairlead.mirror.bytes.outgoing import Refused
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.model.errors import CorruptBatch, InvalidValue
from fairlead.protocol.batch import HEADER_BYTES, LENGTH_END, MAGIC, BatchHeader, with_crc
from fairlead.protocol.loops.columns import Longs, RecordColumns, cast
from fairlead.protocol.records import compress
from fairlead.records.decode import BatchesInBuffer, decode

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""Those of the records source, without `origin`."""
BODY_BYTES_MAX: Final = 900_000
"""Of records in a batch that is made here, before they are compressed."""
_MICROSECONDS: Final = 1_000
_WHO: Final = "the message handler gave"

Handler = Callable[[pa.RecordBatch], pa.RecordBatch]


class Call(NamedTuple):
    """What one call of the user's function has made."""

    batches: list[SourceBatch]
    first: int
    """The source's offset of the first record that it was given,"""
    until: int
    """and of the last one."""
    mixed: bool
    """The offsets of its records do not say of which of the source's they were made."""


class Changed(NamedTuple):
    """What the user's function has made of batches."""

    calls: list[Call]
    """In order of the source's offsets."""
    refused: Refused | None
    """What it failed at, or what cannot be sent; nothing behind it was looked at."""


def handler_named(name: str, args: str | None = None) -> Handler:
    """The function `module:function`; with `args` it gets these as its second argument.

    Raises:
        InvalidValue: there is none; the message says what is wrong.
    """
    module, _, function = name.partition(":")
    if not function or not all(part.isidentifier() for part in module.split(".")):
        raise InvalidValue(
            f"message.handler {name}: write module:function, a Python function of record batches; a Java class "
            "cannot be run here"
        )
    try:
        found = getattr(importlib.import_module(module), function, None)
    except Exception as error:  # whatever the module does while it is loaded
        raise InvalidValue(f"message.handler {name}: {type(error).__name__}: {error}".splitlines()[0]) from error
    if found is None:
        raise InvalidValue(f"message.handler {name}: module {module} has no {function}")
    if not callable(found):
        raise InvalidValue(f"message.handler {name}: {function} is no function")
    handler: Handler = found if args is None else partial(_with_args, found, args)
    return handler


def _with_args(function: Callable[[pa.RecordBatch, str], pa.RecordBatch], args: str, batch: pa.RecordBatch) -> Any:
    return function(batch, args)


def handled(batches: Sequence[SourceBatch], handler: Handler, topic: str, partition: int) -> Changed:
    """The batches of a partition after `handler`; the codec is that of the first one, and offsets are the source's."""
    made: list[Call] = []
    last = batches[-1].header.last_offset if batches else -1
    first = max(batches[0].low, batches[0].header.base_offset) if batches else 0
    try:
        for decoded in _decoded(batches, topic, partition):
            if decoded.num_rows:
                first, until = decoded["offset"][0].as_py(), decoded["offset"][-1].as_py()
                made.append(_call(_asked(handler, decoded), first, until, batches[0].header))
                first = until + 1
    except (CorruptBatch, InvalidValue) as error:
        return Changed(made, Refused(first, last, f"offset {first}: {error}"))
    return Changed(made, None)


def _decoded(batches: Sequence[SourceBatch], topic: str, partition: int) -> Iterator[pa.RecordBatch]:
    """Raises: CorruptBatch."""
    sizes = np.array([len(batch.data) for batch in batches], np.int64)
    ends = np.cumsum(sizes)
    zeros = np.zeros(len(batches), np.int32)
    stored = BatchesInBuffer(
        np.frombuffer(b"".join([batch.data for batch in batches]), np.uint8),
        ends - sizes,
        ends,
        np.array([batch.header.base_offset for batch in batches], np.int64),
        np.full(len(batches), partition, np.int32),
        zeros,
        pa.array([topic]),
        zeros,
        pa.array([""]),
        np.array([batch.low for batch in batches], np.int64),
        np.full(len(batches), 2**63 - 1, np.int64),
    )
    return decode(stored, COLUMNS, check_crc=False)


def _asked(handler: Handler, given: pa.RecordBatch) -> pa.RecordBatch:
    """What the function gives; whatever it raises is its user's to read.

    Raises:
        InvalidValue: it failed, or gave something else.
    """
    try:
        found = handler(given)
    except Exception as error:
        raise InvalidValue(f"the message handler failed: {type(error).__name__}: {error}".splitlines()[0]) from error
    if not isinstance(found, pa.RecordBatch):
        raise InvalidValue(f"the message handler gave a {type(found).__name__}; it must give a pyarrow.RecordBatch")
    for name in ("topic", "partition"):
        if name in found.schema.names and not set(found[name].unique().to_pylist()) <= {given[name][0].as_py(), None}:
            raise InvalidValue(f"the message handler changed the column {name}; where records go is not its choice")
    return found


def _call(found: pa.RecordBatch, first: int, until: int, like: BatchHeader) -> Call:
    """What the function gave for these offsets. Raises: InvalidValue."""
    if not found.num_rows:
        return Call([], first, until, mixed=False)
    kept = _kept_offsets(found, first, until)
    offset = _spread(found.num_rows, first, until) if kept is None else kept
    return Call(list(_encoded(found, offset, until, like)), first, until, mixed=kept is None)


def _encoded(found: pa.RecordBatch, offset: Longs, until: int, like: BatchHeader) -> Iterator[SourceBatch]:
    """Raises: InvalidValue."""
    columns = RecordColumns(found, _WHO)
    time = _times(found, like)
    for body in columns.bodies(0, found.num_rows, time, offset, BODY_BYTES_MAX):
        last = int(offset[body.until]) - 1 if body.until < found.num_rows else until
        yield _batch(body.data, offset[body.first], last, time[body.first : body.until], like.codec)


def _batch(body: memoryview, first: Any, last: int, times: Longs, codec: int) -> SourceBatch:
    packed = compress(codec, body)
    length = HEADER_BYTES - LENGTH_END + len(packed)
    delta, span = last - int(first), (int(times[0]), int(times.max()))
    header = BatchHeader(int(first), length, -1, MAGIC, 0, codec, delta, *span, -1, -1, -1, len(times))
    header, whole = with_crc(header, packed)
    return SourceBatch(header, memoryview(whole), int(first))


def _kept_offsets(found: pa.RecordBatch, first: int, until: int) -> Longs | None:
    """The source's offset of each record, as they are given; None: they are not, or do not rise."""
    if "offset" in found.schema.names and not found["offset"].null_count:
        given = cast(found, "offset", pa.int64(), _WHO).to_numpy(zero_copy_only=False)
        if given[0] >= first and given[-1] <= until and bool((np.diff(given) > 0).all()):
            rising: Longs = np.ascontiguousarray(given)
            return rising
    return None


def _spread(count: int, first: int, until: int) -> Longs:
    """An offset for each record, of those that there were.

    Raises:
        InvalidValue: there are more records than offsets.
    """
    if count > until - first + 1:
        raise InvalidValue(
            f"the message handler gave {count:,} records for {until - first + 1:,} offsets; it may not give more"
        )
    return first + np.arange(count, dtype=np.int64)


def _times(found: pa.RecordBatch, like: BatchHeader) -> Longs:
    """Milliseconds of each record. Raises: InvalidValue."""
    if "timestamp" not in found.schema.names:
        return np.full(found.num_rows, like.max_timestamp, np.int64)
    column = cast(found, "timestamp", pa.timestamp("us", tz="UTC"), _WHO).cast(pa.int64())
    milliseconds = column.fill_null(0).to_numpy(zero_copy_only=False) // _MICROSECONDS
    there = column.is_valid().to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(np.where(there, milliseconds, like.max_timestamp))
