"""A backlog over many topics: records of 100 B, and what does not arrive in the limit is told as `arrived part`.

Ten million records over a thousand topics, and over ten thousand: Kafka takes ten minutes to make,
fill and stop so many, which is done once.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.replicas import MakePair, copy_what_is_there
from benchmarks.systems import pair_fairlead, pair_mirrormaker

RECORD_BYTES = 100
BATCH_RECORDS = 100


def measure(make_pair: MakePair, folder: Path, point: Point) -> Figures:
    """Fill, carry, check what is complete."""
    load = {"batch_records": BATCH_RECORDS, "topics_per_request": 500, "encode_ahead": False}
    return copy_what_is_there(make_pair, folder, point, "raw_produce", RECORD_BYTES, load)


def _point(name: str, topics: int, each: int, once: bool = False) -> Point:
    settings = {"topics": topics, "records": topics * each, "batch_records": BATCH_RECORDS, "limit seconds": 150}
    return Point(name, settings, once=once)


CASE = Case(
    name="backlog_topics",
    systems={
        HOME: partial(measure, pair_fairlead),
        "mirrormaker-tuned": partial(measure, partial(pair_mirrormaker, tuned=True)),
    },
    points=[_point("1000-topics", 1000, 10_000), _point("10000-topics", 10_000, 1000, once=True)],
    quick=[_point("500-topics", 500, 200)],
    limit_seconds=1200,
)
