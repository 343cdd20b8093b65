"""What a row of the log is: a record batch, or a control row; control rows remember everything else.

A commit, a segment and a frame hold the same rows. `ROW_SCHEMA` is their Arrow form; `Row` is the same as a Python
value, where rows are built or replayed one at a time. Payloads of control rows are small JSON objects with a version
`v`, in the column `batch`; `docs/formats/stream-log.md` lists their fields.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

FORMAT_VERSION = 3

NO_OFFSET = -1
NO_EPOCH = -1
NO_COMMIT = -1
"""`via_commit` of rows that came by no link."""
NO_TOPIC = 0xFFFFFFFF
"""Topic number of rows that are about no topic: positions and settings."""
NO_TOPIC_SENT = 0xFFFFFFE0
"""With a slice added: topic number of rows that are about no topic, and are sent with that slice."""


class Kind(IntEnum):
    """What a row says. The numbers are stored: never change one, never use one again."""

    BATCH = 1
    """A Kafka v2 record batch, as produced."""
    START = 2
    """Everything of this partition below `base_offset` is gone; payload: reason, log end, epoch history."""
    TOPIC = 3
    """A topic as it now is: name, incarnation, partitions, owner, topic epoch, configs. The first one creates it."""
    TOPIC_DELETED = 4
    """The tombstone of an incarnation."""
    CURSOR = 5
    """Committed offset of a group in a partition, or its deletion, as it goes over links; see COMMITTED."""
    POSITION = 6
    """Local: how far a link's frames have been applied here, by shard and slice of the source."""
    BEHIND = 7
    """Local: a partition that a link must bring again or that is set aside, or the end of that state."""
    ENTRY = 8
    """Local: a key and its value in `meta/`: streams, settings, links, upstreams; or its deletion."""
    TRUNCATE = 9
    """Local: what stood from `base_offset` on before this row is no part of the partition's history any more."""
    COMMITTED = 10
    """Local: a cursor as a group committed it here, or its deletion. A CURSOR row tells the newest one to others."""
    TXN = 11
    """Reserved: how a transaction ended. Kept and passed on like the kinds of `OPAQUE_SENT`."""
    COMPACTED = 12
    """Reserved: how far a partition was compacted. Kept and passed on likewise."""
    STATE = 13
    """Local: a key and its value that belong to a topic and go with it; or its deletion."""
    EXPIRED = 14
    """Local: records of this partition below `base_offset` have outlived what the topic's own settings allow."""


BATCH: Final = int(Kind.BATCH)
"""For loops over many rows: comparing with a member of an enumeration takes five times as long."""

OPAQUE_LOCAL = range(64, 96)
OPAQUE_SENT = range(96, 128)
"""Kinds that later versions may bring, with an envelope that this one can keep and pass on."""

PASSED_ON_KINDS = frozenset({Kind.TXN, Kind.COMPACTED, *OPAQUE_SENT})
"""Kinds of which this program does nothing but that those behind it get them."""
KEPT_KINDS = PASSED_ON_KINDS | frozenset(OPAQUE_LOCAL)
"""Kinds of which the newest row of each key is kept, and nothing is done."""

LOCAL_KINDS = frozenset(
    {
        Kind.POSITION,
        Kind.BEHIND,
        Kind.ENTRY,
        Kind.TRUNCATE,
        Kind.COMMITTED,
        Kind.STATE,
        Kind.EXPIRED,
        *OPAQUE_LOCAL,
    }
)
"""Kinds that are never sent over a link; a commit with no other rows wakes no link."""

ATTRIBUTES_MASK = 0xFFFF
"""The part of `bits` that is the batch's own attributes."""
REWRITTEN = 1 << 16
"""In `bits`: the batch is not as its owner first wrote it, only `crc` still says what that was."""
HOLE = 1 << 17
"""In `bits`: offsets before the batch were compacted away."""
ABORT = 1 << 18
"""In `bits`: a control batch that ends a transaction by aborting it."""


def kind_name(kind: int) -> str:
    """The kind in words."""
    return Kind(kind).name if kind in _KNOWN else f"kind {kind}"


_KNOWN = frozenset(Kind)

ROW_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("topic", pa.uint32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("base_offset", pa.int64(), nullable=False),
        pa.field("last_offset", pa.int64(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("previous_end", pa.int64(), nullable=False),
        pa.field("previous_epoch", pa.int32(), nullable=False),
        pa.field("origin", pa.binary(16)),
        pa.field("via", pa.binary(16)),
        pa.field("via_commit", pa.int64(), nullable=False),
        pa.field("appended_at", pa.int64(), nullable=False),
        pa.field("max_timestamp", pa.int64(), nullable=False),
        pa.field("records", pa.int32(), nullable=False),
        pa.field("bits", pa.uint32(), nullable=False),
        pa.field("crc", pa.uint32(), nullable=False),
        pa.field("commit", pa.int64(), nullable=False),
        pa.field("row", pa.int32(), nullable=False),
        pa.field("size", pa.uint32(), nullable=False),
        pa.field("batch", pa.large_binary(), nullable=False),
    ]
)
"""Columns of a commit, segment or frame; see `docs/formats/stream-log.md`.

`size` is the length of `batch` in bytes, so that a reader finds a batch in the file without reading that column.
`via` is the id of the stream that this copy came from, null for our own; `origin` the stream where it was first
written. Both are null in local rows. `via_commit` is the commit of the sender's log in which the row stood there.
`records`, `bits` and `crc` are 0 in control rows.
"""


class Row(NamedTuple):
    """One row; the fields are the columns of `ROW_SCHEMA` without `size`.

    For BATCH, offsets are inclusive: [base_offset, last_offset]. `appended_at` and `max_timestamp` are milliseconds.
    """

    kind: int
    topic: int
    partition: int
    base_offset: int
    last_offset: int
    epoch: int
    previous_end: int
    previous_epoch: int
    origin: bytes | None
    via: bytes | None
    via_commit: int
    appended_at: int
    max_timestamp: int
    records: int
    bits: int
    crc: int
    commit: int
    row: int
    batch: bytes | memoryview


row_from: Final[Callable[[Any], Row]] = partial(tuple.__new__, Row)
"""A row of all its fields, in half the time of `Row._make` and a fifth of that of `Row._replace`."""
