"""Batches of a mirror's own records."""

from __future__ import annotations

import pytest
from tests.mirror.fake import FakeCluster

from fairlead.mirror.books.plain import BATCH_BYTES, batches_of
from fairlead.mirror.books.points import Segment, block_record
from fairlead.mirror.destination import Destination
from fairlead.mirror.lanes import Part
from fairlead.mirror.names import positions_topic
from fairlead.model.clock import SystemClock
from fairlead.protocol.records import Record

PART = Part("a", bytes(range(16)), "t", 0)


@pytest.mark.parametrize("size", [0, 1, 1_000, BATCH_BYTES // 2, BATCH_BYTES, 2 * BATCH_BYTES])
def test_batches_are_cut_by_bytes(size: int) -> None:
    """All records are in them, in order. One that is too large by itself is alone."""
    records = [(b"%d" % number, bytes(size)) for number in range(600 if size <= 1_000 else 5)]
    found = list(batches_of(records, 1))
    assert sum(each.records for each in found) == len(records)
    assert all(each.size_bytes <= BATCH_BYTES + 61 or each.records == 1 for each in found)
    assert len(found) <= 2 + sum(30 + len(key) + size for key, _ in records) // (BATCH_BYTES // 2 + 1)
    assert list(batches_of([], 1)) == []


async def test_what_is_remembered_of_a_lane_is_written_in_batches_that_the_topic_takes() -> None:
    """600 blocks of 64 stretches each, which are more than a batch may hold."""
    cluster = FakeCluster("b")
    cluster.refuses = lambda topic, partition, outgoing: "too large" if outgoing.size_bytes > 1_048_588 else None
    destination = Destination(cluster, "m", SystemClock())
    await destination.open_books()
    segments = [Segment(10**12 + number, 10**12 + number, 10**6, 10**12) for number in range(64)]
    blocks = [block_record(PART, number, segments) for number in range(600)]
    assert sum(len(value or b"") for _, value in blocks) > 1_048_588
    await destination.write_positions({}, {0: blocks})
    found: list[Record] = cluster.records(positions_topic("m"))
    assert [(each.key, each.value) for each in found] == blocks
    await destination.close()
