"""A backlog over many topics: records of 100 B, and what does not arrive in the limit is told as `arrived part`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.replicas import MakePair, carry, check, numbered
from benchmarks.load import launch
from benchmarks.systems import pair_fairlead, pair_mirrormaker

RECORD_BYTES = 100
BATCH_RECORDS = 100


def measure(make_pair: MakePair, folder: Path, point: Point) -> Figures:
    """Fill, carry, check what is complete."""
    topics, records = int(point.settings["topics"]), int(point.settings["records"])
    with make_pair(folder) as pair:
        pair.source.create_topics(topics)
        launch.run(
            "raw_produce",
            {
                "bootstrap": pair.source.bootstrap,
                "topics": numbered(pair.source.topic, topics),
                "records": records,
                "record_bytes": RECORD_BYTES,
                "batch_records": BATCH_RECORDS,
                "topics_per_request": 500,
                "encode_ahead": False,
            },
        )
        os.sync()
        figures = carry(pair, topics, records, RECORD_BYTES, point.settings["limit seconds"])
        if figures["arrived part"] == 1:
            check(pair, topics, records, RECORD_BYTES)
        return figures


def _point(name: str, topics: int, each: int) -> Point:
    settings = {"topics": topics, "records": topics * each, "batch_records": BATCH_RECORDS, "limit seconds": 150}
    return Point(name, settings)


CASE = Case(
    name="backlog_topics",
    systems={
        HOME: partial(measure, pair_fairlead),
        "mirrormaker-tuned": partial(measure, partial(pair_mirrormaker, tuned=True)),
    },
    points=[_point("10000-topics", 10_000, 1000)],
    quick=[_point("500-topics", 500, 200)],
)
