"""A batch of a mirror's own records."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.mirror.bytes.outgoing import How, Outgoing
from fairlead.protocol.batch import HEADER_BYTES, build_batch


def outgoing_of(records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> Outgoing:
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
