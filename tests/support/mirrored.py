"""Batches as a source may hold them, and the records of what a mirror makes of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from fairlead.mirror.bytes.committed import committed
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.protocol.batch import build_batch, check_produced, is_abort, read_header, records_of
from fairlead.protocol.records import Record
from tests.support.batches import changed

Said = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""What a consumer is shown of a record, but for its offset."""


def batch_of(records: Sequence[Record], *, codec: int = 0, last_offset: int | None = None, **fields: int) -> bytes:
    """A batch with these records, which may leave offsets out; `fields` are of its header."""
    base = records[0].offset
    built = build_batch(records, base_offset=base, codec=codec)
    last = records[-1].offset if last_offset is None else last_offset
    return changed(built, last_offset_delta=last - base, record_count=len(records), **fields)


def control(offset: int, producer_id: int, *, abort: bool) -> bytes:
    """A transaction's end marker."""
    key = b"\0\0" + (b"\0\0" if abort else b"\0\1")
    made = build_batch([(key, bytes(6))], base_offset=offset, producer_id=producer_id, attributes=0x30)
    assert is_abort(made) is abort
    return made


def sourced(*batches: bytes, position: int = 0) -> list[SourceBatch]:
    """The batches as they come out of the filter."""
    found = committed(b"".join(batches), (), position, "topic ships, partition 0")
    assert found.damage is None
    return found.batches


def said(records: Iterable[Record]) -> list[Said]:
    """The records without their offsets."""
    return [(record.timestamp, record.key, record.value, record.headers) for record in records]


def sent(outgoing: Iterable[Outgoing]) -> list[Said]:
    """The records of batches, each of which is one that a broker takes."""
    found: list[Said] = []
    for one in outgoing:
        whole = b"".join(one.pieces)
        assert len(whole) == one.size_bytes
        header = check_produced(whole).header
        assert header.base_offset == 0
        assert header.producer_id == -1
        records = list(records_of(whole))
        assert [record.offset for record in records] == list(range(one.records))
        assert max(record.timestamp for record in records) == one.max_timestamp == header.max_timestamp
        found += said(records)
    return found


def shown(*batches: bytes, low: int = 0) -> list[Said]:
    """What a consumer is shown of the source's batches from the offset `low` on."""
    return said(record for batch in batches for record in records_of(batch) if record.offset >= low)


def some(count: int, *, first: int = 0, seed: int = 1, value_bytes: int = 100) -> list[Record]:
    """Records that no codec makes much smaller."""
    chance = random.Random(seed)
    return [Record(first + i, 1_000 + i, b"%d" % i, chance.randbytes(value_bytes)) for i in range(count)]


def header_of(one: Outgoing) -> tuple[int, int]:
    """(attributes, leader epoch) of what is sent."""
    header = read_header(one.head)
    return header.attributes, header.leader_epoch
