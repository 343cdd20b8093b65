"""A stream of many small topics gets its replica, as in the demo: 1,933 ships, 300 B a record, some 7 records a batch.

Unlike the backlogs, where a batch has a hundred records, it is the number of batches and topics that costs here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.replicas import MakePair, copy_what_is_there
from benchmarks.systems import pair_fairlead

RECORD_BYTES = 300
BATCH_RECORDS = 7
"""librdkafka with a linger of 5 ms made 40,700 batches of the demo's 302,000 records."""


def measure(make_pair: MakePair, folder: Path, point: Point) -> Figures:
    """Fill, carry, check."""
    load = {"batch_records": BATCH_RECORDS, "topics_per_request": 500, "encode_ahead": False}
    figures = copy_what_is_there(make_pair, folder, point, "raw_produce", RECORD_BYTES, load)
    return {"records/s": figures["MB/s"] * 1e6 / RECORD_BYTES, **figures}


def _point(topics: int, batches: int) -> Point:
    settings = {"topics": topics, "records": topics * batches * BATCH_RECORDS, "limit seconds": 150}
    return Point(f"{topics}-topics", settings)


CASE = Case("copy", {HOME: partial(measure, pair_fairlead)}, points=[_point(1_933, 22)], quick=[_point(200, 3)])
