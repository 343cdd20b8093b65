"""What a reader tells its sink survives the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairlead.mirror.books.book import Position
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.carrying.engine import Load
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.lanes import Part
from fairlead.mirror.workers.rows import Ahead, Close, Open, Row, Tail, packet_of, row_of
from fairlead.spark.buffer import SPARK_BUFFER_BYTES
from fairlead.spark.packets import from_batch, to_batch

LOAD = Load(
    Part("a", bytes(range(16)), "t", 3), "p_t", Route(3, 5, True, False), Limits(99), Position(7, 2, "t", "p_t"), 12
)


@pytest.mark.parametrize(
    "row",
    [
        Open(1, 2, LOAD),
        Ahead(1, 2**40),
        Tail(4, 7, 9, 12, [(5, 8), (6, 8)], memoryview(b"batches")),
        Tail(4, 7, 9, 12, [], memoryview(b"")),
        Close(2**32 - 1),
    ],
)
def test_a_row_survives_packets_and_batches(row: Row) -> None:
    """Every field of it, in a row of Arrow with others, and larger than what the JVM's buffer would hold back."""
    batch = to_batch([packet_of(row), packet_of(Close(1))], last=True)
    assert batch.slice(0, 1).serialize().size > SPARK_BUFFER_BYTES
    found, other = map(row_of, from_batch(batch))
    if isinstance(found, Tail):
        assert isinstance(row, Tail)
        assert bytes(found.records) == bytes(row.records)
        assert found.records.format == "B"
        found, row = replace(found, records=memoryview(b"")), replace(row, records=memoryview(b""))
    assert found == row
    assert other == Close(1)


def test_ranges_are_references_and_tails_are_carried() -> None:
    """Decision 0011."""
    assert packet_of(Ahead(1, 2)).referred
    assert not packet_of(Tail(4, 7, 9, 12, [], memoryview(b""))).referred
