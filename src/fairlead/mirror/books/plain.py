"""Batches of a mirror's own records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fairlead.mirror.bytes.outgoing import How, Outgoing
from fairlead.protocol.batch import HEADER_BYTES, build_batch

KeyAndValue = tuple[bytes | None, bytes | None]
BATCH_BYTES: Final = 256 * 1024
"""About so large is a batch at most, unless one record is larger; a topic takes 1 MB, where nobody has narrowed it."""
_BESIDE: Final = 30
"""At most so many bytes of a record are neither key nor value."""


def batches_of(records: Iterable[KeyAndValue], timestamp_ms: int) -> Iterator[Outgoing]:
    """These keys and values in batches, none of which is too large for a topic."""
    some: list[KeyAndValue] = []
    size = 0
    for record in records:
        its = _BESIDE + sum(len(each) for each in record if each is not None)
        if some and size + its > BATCH_BYTES:
            yield outgoing_of(some, timestamp_ms)
            some, size = [], 0
        some.append(record)
        size += its
    if some:
        yield outgoing_of(some, timestamp_ms)


def outgoing_of(records: Sequence[KeyAndValue], timestamp_ms: int) -> Outgoing:
    """One batch of these keys and values, uncompressed."""
    data = build_batch(records, leader_epoch=-1, timestamp_ms=timestamp_ms)
    return Outgoing(
        head=data[:HEADER_BYTES],
        body=data[HEADER_BYTES:],
        records=len(records),
        first_offset=0,
        last_offset=len(records) - 1,
        max_timestamp=timestamp_ms,
        how=How.RAW,
    )
