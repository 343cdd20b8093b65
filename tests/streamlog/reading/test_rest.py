"""The rest of a partition, for a site that lacks it."""

from __future__ import annotations

from tests.streamlog.ownership.sites import A, fresh, topic_of, wrote
from tests.streamlog.world import committed, made

from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.reading.rest import rest_of
from fairlead.streamlog.rows import Kind


def test_a_gap_is_told_where_it_lies() -> None:
    """Behind the records before it and before those behind it: whoever gets it first or last would lack records."""
    log = fresh(A)
    number = made(log).number
    wrote(log, b"0")
    gap = StartPayload("ttl", 3, ((0, 0),), gap_from=1)
    committed(log, lambda d: d.add_control(Kind.START, gap, number=number, partition=0, base_offset=3))
    wrote(log, b"3")
    rest = rest_of(log.announced, log.reader, topic_of(log), 0, 0, 1 << 20)
    assert [(row.kind, row.base_offset) for row in rest.rows] == [(Kind.BATCH, 0), (Kind.START, 3), (Kind.BATCH, 3)]
    assert rest.ended
