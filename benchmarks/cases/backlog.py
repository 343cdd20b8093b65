"""A stream that is there already gets a replica: 1 KB records over 100 topics, as produced with or without lz4.

MirrorMaker 2 is given the benefit: only the time from the first record at the replica to the last counts, not the start
of its JVM and its tasks (`MB/s with start` has it). Fairlead's replicator already carries another stream.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.replicas import MakePair, carry, check, numbered
from benchmarks.load import launch
from benchmarks.systems import pair_fairlead, pair_mirrormaker

TOPICS = 100
RECORD_BYTES = 1000


def measure(make_pair: MakePair, folder: Path, point: Point) -> Figures:
    """Fill, carry, check."""
    topics, records = int(point.settings["topics"]), int(point.settings["records"])
    with make_pair(folder) as pair:
        pair.source.create_topics(topics)
        launch.run(
            "producer",
            {
                "bootstrap": pair.source.bootstrap,
                "topics": numbered(pair.source.topic, topics),
                "records": records,
                "record_bytes": RECORD_BYTES,
                "compression": point.settings["compression"],
            },
        )
        os.sync()  # Kafka leaves it to the kernel: what it has yet to write is not to slow the copy
        figures = carry(pair, topics, records, RECORD_BYTES, point.settings["limit seconds"])
        if figures["arrived part"] == 1:
            check(pair, topics, records, RECORD_BYTES)
        return figures


def _point(name: str, gigabytes: float, compression: str, systems: tuple[str, ...] = ()) -> Point:
    records = round(gigabytes * 1e9 / RECORD_BYTES)
    settings = {"topics": TOPICS, "records": records, "compression": compression, "limit seconds": 300}
    return Point(name, settings, systems)


CASE = Case(
    name="backlog",
    systems={
        HOME: partial(measure, pair_fairlead),
        "mirrormaker": partial(measure, partial(pair_mirrormaker, tuned=False)),
        "mirrormaker-tuned": partial(measure, partial(pair_mirrormaker, tuned=True)),
    },
    points=[
        _point("none", 2, "none"),
        _point("lz4", 2, "lz4"),
        _point("none-0.5GB", 0.5, "none", (HOME, "mirrormaker-tuned")),
    ],
    quick=[_point("lz4", 0.05, "lz4")],
)
